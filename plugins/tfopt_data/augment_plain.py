"""Augmentation as plain code: what `export` writes out of this plugin. Tests compare both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfopt_core.plugins import PlainCode, keywords, literal
from tfopt_data.augment_draws import count_in_one_step, seed_generators, seed_of
from tfopt_data.augment_layers import COMMON_ARGUMENTS, applied, augmenting, parameters


def augmenting_by(function: Any, count: int, generator: Any = None) -> Callable[..., Any]:
    """A function of an element that calls another one of its first `count` parts.

    :param generator: gives the function a seed for each element.
    """
    import tensorflow as tf

    traced = tf.function(function)

    def augmented(*element: Any) -> Any:
        # under a global seed, an op without one would draw the same numbers in every epoch
        tf.compat.v1.get_default_graph().seed = None
        extra = {} if generator is None else {"seed": tf.cast(generator.next(), tf.int32)}
        result = traced(*element[:count], **extra)
        if count == 1:
            result = (result,)
        return (*result, *element[count:]) if len(element) > 1 else result[0]

    return tf.autograph.experimental.do_not_convert(augmented)  # type: ignore[no-any-return]


def write_layers(code: PlainCode, function: Any, tables: Sequence[Mapping[str, Any]]) -> None:
    """Write down layers, each with a seed of its own, and the function that applies them."""
    import keras

    made = []
    for index, table in enumerate(tables):
        given = dict(table)
        name = given.pop("layer")
        given.setdefault("dtype", "float32")
        said = [keywords(given)]
        takes = [*parameters(getattr(keras.layers, name)), *COMMON_ARGUMENTS]
        if "seed" in takes and "seed" not in given:
            said.append(f'seed=seed_of(f"augment-{{seed}}-0-{index}")')
        made.append(f"keras.layers.{name}({', '.join(said)})")
    code.imports("import inspect", "import random")
    code.helper(applied, augmenting, seed_of, seed_generators, count_in_one_step)
    code.before_data('with tf.device("CPU:0"):  # where tf.data runs')
    code.before_data(f"    layers = [{', '.join(made)}]")
    code.before_data("    for generator in seed_generators(layers):")
    code.before_data("        count_in_one_step(generator)")
    code.function(function, "augmenting(layers)")


def write_function(code: PlainCode, function: Any, place: str) -> None:
    """Write down a function that the recipe names.

    :param function: made of it; says how many parts of an element it takes, and if a seed.
    """
    code.helper(augmenting_by)
    said = [code.load(place), literal(function.takes)]
    if function.seeded:
        code.imports("import random")
        code.helper(seed_of, count_in_one_step)
        code.before_data('with tf.device("CPU:0"):  # where tf.data runs')
        seed = 'seed_of(f"augment-{seed}-0")'
        code.before_data(f"    generator = keras.random.SeedGenerator({seed})")
        code.before_data("    count_in_one_step(generator)")
        said.append("generator")
    code.function(function, f"augmenting_by({', '.join(said)})")
