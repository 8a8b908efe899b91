"""Whatever a `Workload` may give as its data trains, in the right number of steps."""

import numpy as np
import pytest
from support.in_process import train_here
from support.lazy_modules import keras, tf
from support.small_workloads import pydataset

from tfopt_core import DataPlan, Workload
from tfopt_core.errors import WorkloadError

X = np.linspace(-1, 1, 20, dtype="float32").reshape(10, 2)
Y = X[:, :1] * 2 + 1
INPUTS = {"a": X, "b": X[:, :1]}
EPOCHS = 2


def line():
    return keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])


def two_inputs():
    a, b = keras.Input((2,), name="a"), keras.Input((1,), name="b")
    return keras.Model({"a": a, "b": b}, keras.layers.Dense(1)(keras.layers.Concatenate()([a, b])))


def workload(train, **changes):
    plain = {"validation": (X, Y), "build_model": line, "optimizer": "sgd", "loss": "mse"}
    return Workload(train=train, **{**plain, **changes})


def dataset(*arrays):
    return tf.data.Dataset.from_tensor_slices(arrays or (X, Y))


def sequence():
    return pydataset(*((X[index::2], Y[index::2]) for index in range(2)))


def examples():
    yield from zip(X, Y, strict=True)


def batched():
    return dataset().batch(5)


def of_two_inputs(train):
    return workload(train, validation=(INPUTS, Y), build_model=two_inputs)


# (name, workload, the recipe's batch size, steps of an epoch)
KINDS = [
    ("plan", lambda: workload(DataPlan.from_arrays(X, Y).map(lambda x, y: (x * 2, y))), 4, 3),
    ("batched dataset", lambda: workload(batched(), validation=batched()), None, 2),
    ("arrays", lambda: workload((X, Y)), 4, 3),
    ("sample weights", lambda: workload((X, Y, np.ones(10, "float32"))), 4, 3),
    ("dict inputs", lambda: of_two_inputs((INPUTS, Y)), 4, 3),
    ("pydataset", lambda: workload(sequence(), validation=sequence()), None, 2),
    ("generator", lambda: workload(examples), 4, 3),
    ("no validation", lambda: workload((X, Y), validation=None), 4, 3),
    ("one batch", lambda: workload((X, Y)), 64, 1),
    ("own batch size", lambda: workload((X, Y), batch_size=3), None, 4),
]  # fmt: skip


@pytest.mark.promise(37, injected="every kind of data, with whole and partial batches")
@pytest.mark.parametrize(
    ("make", "batch_size", "steps"), [pytest.param(*kind[1:], id=kind[0]) for kind in KINDS]
)
def test_it_trains_in_the_right_number_of_steps(make, batch_size, steps, tmp_path):
    built, outcome = train_here(make(), folder=tmp_path, epochs=EPOCHS, batch_size=batch_size)
    assert outcome.epochs == EPOCHS
    assert outcome.steps == steps * EPOCHS
    if built.run.steps_per_epoch is not None:
        assert built.run.steps_per_epoch == steps
        # where the length is unknown, Keras 3.15 itself counts one iteration an epoch too many
        assert int(built.model.optimizer.iterations) == steps * EPOCHS
    validates = built.workload.validation is not None
    assert ("val_loss" in outcome.history) == validates
    assert all(np.isfinite(outcome.history["loss"]))
    assert len(outcome.history["loss"]) == EPOCHS


@pytest.mark.thorough
@pytest.mark.promise(37, injected="class weights")
def test_class_weights_weigh(tmp_path):
    labels = np.array([0, 1] * 5)

    def classifier():
        return keras.Sequential(
            [keras.layers.Input((2,)), keras.layers.Dense(2, activation="softmax")]
        )

    def loss_with(class_weight):
        trained = workload(
            (X, labels), validation=None, build_model=classifier,
            loss="sparse_categorical_crossentropy", class_weight=class_weight,
        )  # fmt: skip
        _, outcome = train_here(trained, folder=tmp_path, epochs=1, batch_size=4)
        return outcome.history["loss"][0]

    assert loss_with({0: 0.0, 1: 0.0}) == 0.0
    assert loss_with({0: 1.0, 1: 1.0}) == pytest.approx(loss_with(None), rel=1e-5)
    assert loss_with({0: 1.0, 1: 9.0}) > loss_with(None)


@pytest.mark.promise(37, injected="empty data, unequal lengths, an iterator, a number")
@pytest.mark.parametrize(
    ("train", "said"),
    [
        (lambda: (X[:0], Y[:0]), "empty"),
        (lambda: dataset(X[:0], Y[:0]), "training data are empty"),
        (lambda: (X, Y[:3]), "different lengths"),
        (lambda: iter([1]), "only once"),
        (lambda: 3, "the train data are a int"),
        (lambda: lambda: iter(()), "yields nothing"),
    ],
    ids=["empty", "empty dataset", "lengths", "iterator", "number", "empty generator"],
)
def test_data_that_cannot_be_trained_on_say_what_is_wrong(train, said, tmp_path):
    with pytest.raises(WorkloadError, match=said):
        train_here(workload(train()), folder=tmp_path)


@pytest.mark.promise(37, injected="validation data without an example")
def test_an_empty_validation_set_says_what_is_wrong(tmp_path):
    with pytest.raises(WorkloadError, match="validation data are empty"):
        train_here(workload((X, Y), validation=(X[:0], Y[:0])), folder=tmp_path)


@pytest.mark.promise(37, injected="sequences of different lengths")
def test_ragged_examples_train(tmp_path):
    """Sequences of different lengths, padded by the workload's own batching."""

    def sequences():
        for length in (1, 2, 3, 4, 5):
            yield np.ones((length, 2), "float32"), np.ones(1, "float32")

    signature = (tf.TensorSpec((None, 2)), tf.TensorSpec((1,)))
    padded = tf.data.Dataset.from_generator(sequences, output_signature=signature).padded_batch(2)

    def model():
        return keras.Sequential(
            [
                keras.layers.Input((None, 2)),
                keras.layers.GlobalAveragePooling1D(),
                keras.layers.Dense(1),
            ]
        )

    _, outcome = train_here(
        workload(padded, validation=padded, build_model=model),
        folder=tmp_path, epochs=2, batch_size=None,
    )  # fmt: skip
    assert outcome.steps == 3 * 2
