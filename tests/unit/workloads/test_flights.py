"""The options that the hyperparameter study of `flights` searches."""

import pytest

from tfopt_core import WorkloadError
from tfopt_core.recipe.reading import read_recipe
from tfopt_core.training.factory import load_workload

pytestmark = pytest.mark.tensorflow


def flights(**options):
    """The workload with few flights, and its model."""
    given = [f"workload.options.{name}={value}" for name, value in options.items()]
    recipe = read_recipe("hyperparameter-study", ["workload.options.examples=64", *given]).require()
    workload = load_workload(recipe)
    return workload, workload.build_model()


def test_the_untuned_values_of_the_study_are_those_of_the_workload_itself():
    workload, model = flights()
    assert float(workload.optimizer().learning_rate) == pytest.approx(1e-3)
    assert not any(layer.__class__.__name__ == "Dropout" for layer in model.layers)
    assert model.losses == []


def test_learning_rate_penalty_and_dropout_reach_the_training():
    workload, model = flights(learning_rate=0.02, l2=1e-4, dropout=0.3)
    assert float(workload.optimizer().learning_rate) == pytest.approx(0.02)
    rates = [layer.rate for layer in model.layers if layer.__class__.__name__ == "Dropout"]
    assert rates == [0.3, 0.3]
    assert len(model.losses) == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"learning_rate": 0.0}, '"learning_rate" takes a number above 0, got 0.0'),
        ({"l2": -1.0}, '"l2" takes a number at least 0, got -1.0'),
        ({"dropout": 1.0}, '"dropout" takes a number at least 0 and below 1, got 1.0'),
        ({"dropout": "true"}, '"dropout" takes a number at least 0 and below 1, got True'),
    ],
)
def test_a_value_that_no_training_can_have_is_named(options, said):
    with pytest.raises(WorkloadError) as caught:
        flights(**options)
    assert said in str(caught.value)
