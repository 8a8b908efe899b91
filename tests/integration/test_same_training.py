"""An empty stack is what a careful user writes by hand."""

import attrs
import numpy as np
import pytest
from support.in_process import train_here
from support.lazy_modules import keras, tf
from tfopt_workloads import flights

EXAMPLES, VALIDATION, EPOCHS, BATCH_SIZE, SEED = 320, 200, 2, 32, 11


def workload():
    """Real flights, the validation data cut short."""
    whole = flights.build(examples=EXAMPLES)
    return attrs.evolve(whole, validation=whole.validation.take(VALIDATION))


def by_hand():
    """Stock Keras on the same flights, without tfopt."""
    from tfopt_workloads import bundled

    keras.utils.set_random_seed(SEED)
    arrays = bundled.load("flights")
    late = (arrays["arrival_delay"][:, None] > flights.LATE_MINUTES).astype("float32")
    first = len(late) - len(late) // 5

    def examples(start, stop):
        columns = {name: arrays[name][start:stop] for name in flights.COLUMNS}
        return tf.data.Dataset.from_tensor_slices((columns, late[start:stop]))

    train = examples(0, EXAMPLES).shuffle(EXAMPLES, seed=SEED).map(flights.features)
    validation = examples(first, first + VALIDATION).map(flights.features)
    keras.utils.set_random_seed(SEED)
    model = flights.small_mlp()
    model.compile(
        optimizer="adam",
        loss=keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=[
            keras.metrics.BinaryAccuracy(threshold=0.0, name="accuracy"),
            keras.metrics.AUC(from_logits=True, name="auc"),
        ],
    )
    fitted = model.fit(
        train.batch(BATCH_SIZE),
        validation_data=validation.batch(BATCH_SIZE),
        epochs=EPOCHS,
        shuffle=False,  # the data set does
        verbose=0,
    )
    return fitted.history, model.get_weights()


def test_an_empty_stack_trains_exactly_as_a_fit_written_by_hand(tmp_path):
    built, outcome = train_here(
        workload(), folder=tmp_path, seed=SEED, epochs=EPOCHS, batch_size=BATCH_SIZE
    )
    history, weights = outcome.history, built.model.get_weights()
    hand_history, hand_weights = by_hand()
    assert set(hand_history) < set(history)  # and val_data_loss, which is the val_loss here
    for name, values in hand_history.items():
        assert history[name] == pytest.approx(values, abs=1e-6), name
    for ours, theirs in zip(weights, hand_weights, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
