"""The data of a training that goes on come in the order in which they would have come.

Calls for steps that were made before a stop make none, and are counted all the same.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.lazy_modules import keras, tf

from tfopt_core.training.checkpoints.state import make_iterators

EPOCHS, DONE = 5, 2


def shuffled(count: int = 8, seed: int = 1, **options: Any) -> Any:
    return tf.data.Dataset.range(count).shuffle(count, seed=seed, **options)


def filling() -> Any:
    return tf.data.Dataset.from_tensors(tf.zeros([0], tf.int64)).repeat()


def zipped(*parts: Any) -> Any:
    return tf.data.Dataset.zip(parts).map(lambda first, second: 10 * first + second)


PIPELINES: dict[str, Any] = {
    "shuffle": lambda: shuffled().batch(4),
    "of an unknown number": lambda: shuffled().filter(lambda x: x > 2).batch(4),
    "repeat": lambda: shuffled().repeat(3).batch(4),
    "repeat of an unknown number": lambda: (
        shuffled().repeat(2).filter(lambda x: x > 2).batch(4).prefetch(1)
    ),
    "cache": lambda: shuffled().cache().batch(4),
    "cache, shuffle": lambda: shuffled().cache().shuffle(3, seed=2).batch(4),
    "cache that is never full": lambda: shuffled().cache().shuffle(3, seed=2).batch(4).take(1),
    "repeat of a cache": lambda: shuffled().cache().shuffle(8, seed=2).repeat(2).batch(4),
    "two shuffles": lambda: shuffled().shuffle(3, seed=2).batch(4),
    "even steps": lambda: shuffled().batch(4).concatenate(filling()).take(3),
    "zip": lambda: zipped(shuffled(), shuffled(seed=2)).repeat(2).batch(4),
    "the same order each time": lambda: shuffled(reshuffle_each_iteration=False).repeat(2).batch(4),
}


def epochs_trained_on(dataset: Any, epochs: int) -> list[list[int]]:
    """The elements in the order in which Keras' `fit` trains on them, epoch by epoch."""
    seen: list[list[int]] = []

    def see(batch: Any) -> Any:
        seen[-1].extend(int(x) for x in batch)
        return np.float32(0)

    class Model(keras.Model):
        def train_step(self, data: Any) -> Any:
            return {"loss": tf.numpy_function(see, [data], tf.float32)}

    class Epochs(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            seen.append([])

    model = Model()
    model.compile()
    model.fit(dataset, epochs=epochs, verbose=0, shuffle=False, callbacks=[Epochs()])
    return seen


@pytest.mark.thorough
@pytest.mark.tensorflow
@pytest.mark.parametrize("name", PIPELINES)
def test_the_epochs_after_a_stop_come_in_the_order_of_an_undisturbed_training(name: str) -> None:
    undisturbed = epochs_trained_on(PIPELINES[name](), EPOCHS)
    dataset = PIPELINES[name]()
    built: Any = SimpleNamespace(
        model=SimpleNamespace(_distribute_strategy=None),
        run=SimpleNamespace(cluster=None, datasets={"train": dataset}),
    )
    make_iterators(built, DONE)
    assert epochs_trained_on(dataset, EPOCHS - DONE) == undisturbed[DONE:]


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("name", "passes"),
    [("shuffle", 0), ("even steps", 0), ("cache", 1), ("repeat", DONE), ("two shuffles", DONE)],
)
def test_no_more_is_read_than_the_order_rests_on(name: str, passes: int) -> None:
    read: list[int] = []

    def see(batch: Any) -> Any:
        read.append(len(batch))
        return batch

    def seen(batch: Any) -> Any:
        result = tf.numpy_function(see, [batch], tf.int64)
        result.set_shape(batch.shape)
        return result

    dataset = PIPELINES[name]().map(seen)
    built: Any = SimpleNamespace(
        model=SimpleNamespace(_distribute_strategy=None),
        run=SimpleNamespace(cluster=None, datasets={"train": dataset, "validation": [1]}),
    )
    make_iterators(built, DONE)
    assert len(read) == passes * int(dataset.cardinality())
