"""Write `tf.TypeSpec` structures and Keras objects as Python code."""

from __future__ import annotations

from typing import Any

from tfopt_core.hooks.code.literals import keywords, literal
from tfopt_core.hooks.code.plain_code import NoPlainForm


def spec_literal(spec: Any) -> str:
    """Return a structure of `tf.TypeSpec` or `tf.TensorShape` as code.

    :raises NoPlainForm: for an unknown kind of specification.
    """
    import tensorflow as tf

    if isinstance(spec, dict):
        items = (f"{literal(key)}: {spec_literal(item)}" for key, item in spec.items())
        return "{" + ", ".join(items) + "}"
    if type(spec) is tuple:
        inner = ", ".join(map(spec_literal, spec))
        return f"({inner},)" if len(spec) == 1 else f"({inner})"
    if isinstance(spec, tf.TensorShape):
        return f"tf.TensorShape({_shape(spec)})"
    if isinstance(spec, tf.TensorSpec):
        return f"tf.TensorSpec({_shape(spec.shape)}, tf.{spec.dtype.name})"
    if isinstance(spec, tf.RaggedTensorSpec):
        ranks = f"ragged_rank={spec.ragged_rank}, row_splits_dtype=tf.{spec.row_splits_dtype.name}"
        return f"tf.RaggedTensorSpec({_shape(spec.shape)}, tf.{spec.dtype.name}, {ranks})"
    if isinstance(spec, tf.SparseTensorSpec):
        return f"tf.SparseTensorSpec({_shape(spec.shape)}, tf.{spec.dtype.name})"
    raise NoPlainForm(None, f"a {type(spec).__name__} cannot be written down")


def keras_object(thing: Any, prefix: str) -> str:
    """Return code that makes a Keras object from its configuration: `keras.optimizers.Adam(...)`.

    :param prefix: the public module: "keras.optimizers.schedules".
    :raises NoPlainForm: for a class that is not public, or a configuration that is not plain.
    """
    import keras

    name, place = type(thing).__name__, keras
    for part in prefix.split(".")[1:]:
        place = getattr(place, part)
    if getattr(place, name, None) is not type(thing):
        raise NoPlainForm(None, f"{name} is no class of Keras'")
    config = {key: value for key, value in thing.get_config().items() if value is not None}
    return f"{prefix}.{name}({keywords(config)})"


def _shape(shape: Any) -> str:
    return "None" if shape.rank is None else literal(tuple(shape.as_list()))
