"""How functions of a pipeline are named, and where they were written. No TensorFlow."""

from __future__ import annotations

import functools
import inspect
from typing import Any


def function_name(function: Any) -> str:
    """How a function is called in the code, its module left out."""
    name = getattr(function, "__qualname__", None) or type(function).__name__
    return str(name).replace("<locals>.", "")


def place_of(function: Any) -> str:
    """Where a function was written, as `file:line`; "" where that is unknown.

    Functions out of a `tf.data.Dataset` tell it themselves; partial ones, methods and what
    `tf.function` made are looked through; a layer counts as its `call`, another object as its
    `__call__`.
    """
    if not callable(function):
        return ""
    told = getattr(function, "place", None)
    if isinstance(told, str):
        return told
    while isinstance(function, functools.partial):
        function = function.func
    function = getattr(function, "python_function", function)  # of a tf.function
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        function = getattr(type(function), "call", type(function).__call__)
    code = getattr(inspect.unwrap(function), "__code__", None)
    return "" if code is None else f"{code.co_filename}:{code.co_firstlineno}"
