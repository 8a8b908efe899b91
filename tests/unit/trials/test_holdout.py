"""What a search by time to a target reads in place of the validation data."""

import numpy as np
import pytest

from tfopt_core.data import DataPlan, lower_plan
from tfopt_core.errors import WorkloadError
from tfopt_core.recipe.model import Recipe, WorkloadSpec
from tfopt_core.training.factory import load_workload
from tfopt_core.trials.holdout import split, with_holdout

pytestmark = pytest.mark.tensorflow


def values_of(plan) -> list[int]:
    return [int(element) for element in lower_plan(plan).as_numpy_iterator()]


def test_a_fifth_of_the_examples_is_set_aside_and_none_is_on_both_sides():
    train, aside = split(DataPlan.from_arrays(np.arange(100)).map(lambda x: x * 2))
    kept, apart = values_of(train), values_of(aside)
    assert len(apart) == 20
    assert sorted(kept + apart) == list(range(0, 200, 2))
    assert values_of(split(DataPlan.from_arrays(np.arange(100)).map(lambda x: x * 2))[1]) == apart


def test_the_part_set_aside_is_not_shuffled():
    _, aside = split(DataPlan.from_arrays(np.arange(50)).shuffle())
    assert values_of(aside) == values_of(aside)


def test_data_in_no_arrays_are_refused_with_a_reason():
    with pytest.raises(WorkloadError, match="no part of the training data can be set aside"):
        split(DataPlan.from_generator(lambda: iter([1, 2, 3])))


def test_the_workloads_own_validation_data_are_out_of_reach(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n"
        "from tfopt_core import Workload\n"
        "def build(examples):\n"
        "    x = np.arange(examples)\n"
        "    return Workload(train=(x, x), validation=(-x, -x), build_model=lambda: None)\n"
    )
    spec = WorkloadSpec(factory="mine.py:build", epochs=2, options={"examples": 10})
    recipe = with_holdout(Recipe(name="r", workload=spec, path=tmp_path / "recipe.toml"))
    workload = load_workload(recipe)
    assert recipe.workload.epochs == 2
    apart = workload.validation.source.value[0]
    assert len(apart) == 2
    assert all(apart >= 0)
