"""What random layers draw when several calls of an input pipeline run at once."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any


def count_in_one_step(generator: Any) -> Any:
    """Have a `keras.random.SeedGenerator` count its draws in one step.

    Keras reads the count and then writes it, so that calls at once take each other's numbers, and
    a late one sets the count back, to numbers that the next epoch draws again. One call after
    another draws what it drew before.

    :return: the variable that counts, see `drawn_from`.
    """
    import tensorflow as tf

    seed = int(generator.state.numpy()[0])
    dtype = generator.state.value.dtype
    with tf.device("CPU:0"):
        state = tf.Variable([0, 0, seed], dtype=tf.int64, trainable=False)

    def following(ordered: bool = True) -> Any:
        # the state is that of a Philox generator, which counts the numbers in blocks of 256
        old = tf.raw_ops.RngReadAndSkip(
            resource=state.handle, alg=tf.constant(1), delta=tf.constant(1, tf.uint64)
        )
        return tf.cast(tf.stack([old[2], old[0] // 256]), dtype)

    generator.next = following
    return state


def seed_generators(layers: Sequence[Any]) -> list[Any]:
    """The seed generators of Keras' layers, and of the layers within them."""
    inner = [one for layer in layers for one in layer._flatten_layers()]
    return [generator for layer in inner for generator in layer._seed_generators]


def drawn_from(state: Any) -> int:
    """How often was drawn from a generator that counts in one step."""
    return int(state.numpy()[0]) // 256


def seed_of(text: str) -> int:
    """Return a number out of a text, the same in every process, unlike its hash."""
    return random.Random(text).getrandbits(31)
