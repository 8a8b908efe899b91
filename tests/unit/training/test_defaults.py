"""What the arguments of `compile` are made of."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from support.lazy_modules import keras

from tfopt_core.training.defaults import rebuilt

pytestmark = pytest.mark.tensorflow


def close(y_true: Any = None, y_pred: Any = None) -> Any:
    """A metric function whose arguments have defaults."""
    return keras.ops.abs(y_true - y_pred) < 1


def distance(*values: Any) -> Any:
    """One that takes any number of them."""
    return sum(values)


def off(y_true: Any = 0.0, y_pred: Any = 0.0, *, scale: float = 1.0) -> Any:
    """One that can be called without arguments."""
    return keras.ops.abs(y_true - y_pred) * scale


@pytest.mark.parametrize("function", [close, distance, off, functools.partial(off, scale=2.0)])
def test_a_metric_function_whose_arguments_have_defaults_stays_a_function(function):
    assert rebuilt(function) is function


def named(name: str = "area") -> Any:
    return keras.metrics.AUC(name=name)


def several_options(curve: str = "PR", name: str = "area") -> Any:
    return keras.metrics.AUC(curve=curve, name=name)


def test_a_function_that_makes_a_metric_is_called_once():
    makers = [
        lambda: keras.metrics.AUC(name="area"), named, several_options,
        functools.partial(keras.metrics.AUC, name="area"), lambda *options: "area",
    ]  # fmt: skip
    for maker in makers:
        calls = []

        @functools.wraps(maker)
        def counted(*args, maker=maker, calls=calls, **kwargs):
            calls.append(maker)
            return maker(*args, **kwargs)

        made = rebuilt(counted)
        assert getattr(made, "name", made) == "area"
        assert len(calls) == 1


def test_the_metrics_of_each_output_are_rebuilt():
    metric = keras.metrics.AUC(name="area")
    [[again, made], [name]] = [rebuilt(part) for part in [[metric, named], ["mae"]]]
    assert (again.name, made.name, name) == ("area", "area", "mae")
    assert again is not metric
