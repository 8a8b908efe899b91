"""Keras' preprocessing layers as a function of elements, for the middle of an input pipeline."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tfopt_core.plugins import PluginRefused
from tfopt_core.toolkit import describe, did_you_mean, keras, tf

# By name, so that a recipe is checked without importing Keras; a test compares them with Keras.
RANDOM_LAYERS = (
    "AugMix", "CutMix", "MixUp", "RandAugment", "RandomBrightness", "RandomColorDegeneration",
    "RandomColorJitter", "RandomContrast", "RandomCrop", "RandomElasticTransform", "RandomErasing",
    "RandomFlip", "RandomGaussianBlur", "RandomGrayscale", "RandomHue", "RandomInvert",
    "RandomPerspective", "RandomPosterization", "RandomRotation", "RandomSaturation",
    "RandomSharpness", "RandomShear", "RandomTranslation", "RandomZoom",
)  # fmt: skip
OTHER_LAYERS = (
    "AutoContrast", "CategoryEncoding", "CenterCrop",
    "ContrastLimitedAdaptiveHistogramEqualization", "Discretization", "Equalization",
    "HashedCrossing", "Hashing", "IntegerLookup", "MaxNumBoundingBoxes", "MelSpectrogram",
    "Normalization", "Pipeline", "Rescaling", "Resizing", "STFTSpectrogram", "Solarization",
    "StringLookup", "TextVectorization",
)  # fmt: skip
# These mix whole examples, labels included, so they need both in one call, and batches.
MIXING_LAYERS = ("CutMix", "MixUp")
# What every Keras layer takes beside the arguments of its own.
COMMON_ARGUMENTS = ("dtype", "name", "trainable")

Element = Callable[..., Any]


def are_layers(_: Any, attribute: Any, value: Sequence[Mapping[str, Any]]) -> None:
    """An attrs validator: tables that each name a preprocessing layer under the key "layer"."""
    known = (*RANDOM_LAYERS, *OTHER_LAYERS)
    for index, table in enumerate(value):
        name = table.get("layer")
        here = f"{attribute.name}[{index}]"
        if not isinstance(name, str):
            raise ValueError(f'{here} names no layer; write {{ layer = "RandomFlip", ... }}')
        if name not in known:
            hint = did_you_mean(name, known) or 'the random ones begin with "Random"'
            raise ValueError(f'{here}: Keras has no preprocessing layer "{name}"; {hint}')


def made_layers(tables: Sequence[Mapping[str, Any]], seed: str) -> list[Any]:
    """The layers of these tables, each with a seed of its own unless the table has one.

    :param seed: what the seeds are derived from.
    :raises PluginRefused: for arguments that a layer does not take.
    """
    return [_made(table, f"{seed}-{index}") for index, table in enumerate(tables)]


def layers_function(layers: Sequence[Any]) -> Element:
    """A function of an element `x`, `(x, y)` or `(x, y, sample_weight)` that augments x.

    Layers that mix examples also mix y. What comes out has the float type that went in, and is
    float32 for whole numbers.

    :raises PluginRefused: from the call that traces it, for elements that a layer cannot take.
    """

    def augmented(*element: Any) -> Any:
        x, *rest = element
        if not isinstance(x, tf.Tensor):
            raise PluginRefused(
                f"the inputs are a {type(x).__name__} and layers take one tensor; use a function",
                "augment",
            )
        y = rest[0] if rest else None
        given = x.dtype
        for layer in layers:
            x, y = _applied(layer, x, y)
        if given.is_floating:
            x = tf.cast(x, given)
        return (x, y, *rest[1:]) if rest else x

    return _as_it_is(augmented, " + ".join(type(layer).__name__ for layer in layers))


def function_of(function: Callable[..., Any], seed: str) -> Element:
    """A function of an element that calls a user's function of x, (x, y) or (x, y, sample_weight).

    Random operations without a seed draw anew in each epoch. A parameter named "seed" is given a
    pair of numbers, another one for each element, as `tf.random.stateless_uniform` takes it.

    :raises PluginRefused: if it takes no element, or, from the call that traces it, if it does
        not return what it was given.
    """
    named = inspect.signature(function).parameters
    wanted = [
        p
        for p in named.values()
        if p.name != "seed" and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    count = sum(p.default is p.empty for p in wanted)
    name = getattr(function, "__qualname__", type(function).__name__)
    if not 1 <= count <= 3:
        raise PluginRefused(f'"{name}" takes {count} arguments; let it take x, or x and y')
    generator = _generator(seed) if "seed" in named else None
    traced: list[Any] = []

    def augmented(*element: Any) -> Any:
        # under a global seed, an op without one would draw the same numbers in every epoch
        tf.compat.v1.get_default_graph().seed = None
        if not traced:
            traced.append(tf.function(function))  # which also understands Python's `if`
        given, rest = element[:count], element[count:]
        if len(given) < count:
            raise PluginRefused(
                f'"{name}" takes {count} arguments, and an element has {len(element)}', "augment"
            )
        extra = {} if generator is None else {"seed": tf.cast(generator.next(), tf.int32)}
        try:
            result = traced[0](*given, **extra)
        except Exception as error:
            raise PluginRefused(f'"{name}" {describe(error)}', "augment") from error
        if count == 1:
            result = (result,)
        elif not isinstance(result, tuple) or len(result) != count:
            raise PluginRefused(
                f'"{name}" takes {count} arguments and must return as many, in a tuple', "augment"
            )
        return (*result, *rest) if len(element) > 1 else result[0]

    return _as_it_is(augmented, name)


def _as_it_is(function: Element, name: str) -> Element:
    """The function under a name, and not converted by autograph, which changes its errors."""
    plain: Element = tf.autograph.experimental.do_not_convert(function)
    plain.__qualname__ = name
    return plain


def _made(table: Mapping[str, Any], seed: str) -> Any:
    arguments = dict(table)
    name = arguments.pop("layer")
    layer_class = getattr(keras.layers, name, None)
    if layer_class is None:
        raise PluginRefused(f'Keras {keras.__version__} has no layer "{name}"; a newer one does')
    takes = [*parameters(layer_class), *COMMON_ARGUMENTS]
    for key in arguments:
        if key not in takes:
            hint = did_you_mean(key, takes) or f"it takes: {', '.join(takes)}"
            raise PluginRefused(f'layer "{name}" has no argument "{key}"; {hint}')
    # the policy of the model is not that of its data
    arguments.setdefault("dtype", "float32")
    if "seed" in takes:
        arguments.setdefault("seed", seed_of(seed))
    try:
        with tf.device("CPU:0"):  # where tf.data runs: the state of the random numbers lies there
            return layer_class(**arguments)
    except Exception as error:
        raise PluginRefused(f'layer "{name}" {describe(error)}') from error


def parameters(layer_class: type[Any]) -> list[str]:
    """The names of the arguments that a layer takes."""
    parameters = inspect.signature(layer_class.__init__).parameters.values()
    return [p.name for p in parameters if p.name != "self" and p.kind is p.POSITIONAL_OR_KEYWORD]


def _applied(layer: Any, x: Any, y: Any) -> tuple[Any, Any]:
    name = type(layer).__name__
    if name in MIXING_LAYERS and (y is None or not y.dtype.is_floating):
        raise PluginRefused(
            f'layer "{name}" mixes labels, and these are '
            + ("missing" if y is None else "whole numbers; make them one-hot, as floats"),
            "augment",
        )
    try:
        if not layer.built:
            with tf.init_scope(), tf.device("CPU:0"):  # variables cannot be made within a pipeline
                layer.build(x.shape)
        if name in MIXING_LAYERS:
            mixed = layer({"images": x, "labels": y}, training=True)
            return mixed["images"], mixed["labels"]
        if "training" in inspect.signature(layer.call).parameters:
            return layer(x, training=True), y
        return layer(x), y
    except Exception as error:
        raise PluginRefused(
            f'layer "{name}" cannot take elements of shape {x.shape}: {describe(error)}', "augment"
        ) from error


def _generator(seed: str) -> Any:
    with tf.device("CPU:0"):
        generator = keras.random.SeedGenerator(seed_of(seed))
    count_in_one_step(generator)
    return generator


def count_in_one_step(generator: Any) -> Any:
    """Have a `keras.random.SeedGenerator` count its draws in one step.

    Keras reads the count and then writes it, so that calls at once take each other's numbers, and
    a late one sets the count back, to numbers that the next epoch draws again. One call after
    another draws what it drew before.

    :return: the variable that counts, see `drawn_from`.
    """
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


def is_place(_: Any, attribute: Any, value: str | None) -> None:
    """An attrs validator: None, or a place with a module or file before its last colon."""
    if value is None:
        return
    place, separator, name = value.rpartition(":")
    if not separator or not place or not name.isidentifier():
        raise ValueError(
            f'{attribute.name} "{value}" names no function; write "module:function" or '
            '"file.py:function"'
        )


def load_function(place: str, folders: Sequence[Path]) -> Callable[..., Any]:
    """The function at a place.

    :param folders: where a file is looked for, in this order; a module is looked for there too.
    :raises PluginRefused: if it is not there, cannot be imported, or is no function.
    """
    where, _, name = place.rpartition(":")
    first, *others = map(str, folders)
    if first not in sys.path:  # the function's module may import its neighbours
        sys.path.insert(0, first)
    # behind what is installed: a file there must not take a library's place
    sys.path += [folder for folder in others if folder not in sys.path]
    try:
        module = _file(where, folders) if where.endswith(".py") else importlib.import_module(where)
    except PluginRefused:
        raise
    except ModuleNotFoundError as error:
        raise PluginRefused(f'there is no module "{error.name}", asked for by "{place}"') from error
    except (Exception, SystemExit) as error:
        raise PluginRefused(f'"{where}" cannot be imported: {describe(error)}') from error
    found = getattr(module, name, None)
    if found is None:
        hint = did_you_mean(name, vars(module))
        raise PluginRefused(f'"{where}" has no "{name}"' + (f"; {hint}" if hint else ""))
    if not callable(found):
        raise PluginRefused(f'"{place}" is a {type(found).__name__}; name a function')
    return found  # type: ignore[no-any-return]


def _file(where: str, folders: Sequence[Path]) -> Any:
    path = next((folder / where for folder in folders if (folder / where).is_file()), None)
    if path is None:
        raise PluginRefused(f'there is no file "{where}" in "{folders[0]}" or on the import path')
    if str(path.resolve().parent) not in sys.path:
        sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
    return module
