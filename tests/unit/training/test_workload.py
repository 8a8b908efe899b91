"""What a workload says of itself, and what the arguments of compile are made of."""

import functools

import pytest
from support.lazy_modules import keras

from tfopt_core import Workload
from tfopt_core.training.build import rebuilt
from tfopt_core.training.workload import quality_direction


@pytest.mark.parametrize(
    ("metric", "direction"),
    [
        ("val_accuracy", "max"), ("val_auc", "max"), ("f1_score", "max"), ("mean_io_u", None),
        ("val_loss", "min"), ("mae", "min"), ("val_hinge", "min"), ("kl_divergence", "min"),
        ("false_positives", "min"), ("my_figure", None),
        ("accuracy_error", "min"), ("error_precision", "max"),
        ("false_positive_rate", "min"), ("dense_loss", "min"), ("val_out_mae_1", "min"),
        ("top_k_categorical_accuracy_2", "max"), ("precision_at_recall", "max"),
    ],
)  # fmt: skip
def test_only_a_name_that_is_known_tells_which_way_is_better(metric, direction):
    assert quality_direction(metric) == direction


@pytest.mark.parametrize("field", ["epochs", "batch_size"])
def test_a_workload_trains_at_least_once(field):
    with pytest.raises(ValueError, match=f"{field} must be at least 1"):
        Workload(train=(), build_model=dict, **{field: 0})


@pytest.mark.parametrize("field", ["metrics", "weighted_metrics"])
@pytest.mark.parametrize("given", [{"out": ["mae"]}, "mae"])
def test_metrics_that_are_no_list_are_an_error_with_the_mend(field, given):
    with pytest.raises(
        ValueError, match=f"{field} must be a list, .* got a {type(given).__name__}"
    ):
        Workload(train=(), build_model=dict, **{field: given})


# What the arguments of `compile` are made of


def close(y_true=None, y_pred=None):
    """A metric function whose arguments have defaults."""
    return keras.ops.abs(y_true - y_pred) < 1


def distance(*values):
    """One that takes any number of them."""
    return sum(values)


def off(y_true=0.0, y_pred=0.0, *, scale=1.0):
    """One that can be called without arguments."""
    return keras.ops.abs(y_true - y_pred) * scale


@pytest.mark.parametrize("function", [close, distance, off, functools.partial(off, scale=2.0)])
def test_a_metric_function_whose_arguments_have_defaults_stays_a_function(function):
    assert rebuilt(function) is function


def named(name="area"):
    return keras.metrics.AUC(name=name)


def several_options(curve="PR", name="area"):
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
