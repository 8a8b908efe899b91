"""The functions of a pipeline, their names and the places of their source. No TensorFlow."""

from __future__ import annotations

import functools
import inspect
from typing import Any


def stage_function(stage: Any) -> Any:
    """Return the function that a stage holds, None if it holds none."""
    return getattr(stage, "function", None)


def function_name(function: Any) -> str:
    """Return the name of a function without its module."""
    name = getattr(function, "__qualname__", None) or type(function).__name__
    return str(name).replace("<locals>.", "")


def place_of(function: Any) -> str:
    """Return where a function was written, as `file:line`; "" if unknown.

    Functions read from a `tf.data.Dataset` carry their place. `functools.partial` and
    `tf.function` are unwrapped; a layer counts as its `call`, another object as its `__call__`.
    """
    if not callable(function):
        return ""
    place = getattr(function, "place", None)
    if isinstance(place, str):
        return place
    while isinstance(function, functools.partial):
        function = function.func
    function = getattr(function, "python_function", function)  # of a tf.function
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        function = getattr(type(function), "call", type(function).__call__)
    code = getattr(inspect.unwrap(function), "__code__", None)
    return "" if code is None else f"{code.co_filename}:{code.co_firstlineno}"
