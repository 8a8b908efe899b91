"""What was done is found again below data that hide what they were computed from."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest
from support.lazy_modules import tf
from tfopt_data.data_service import with_service
from tfopt_data.parallel_map import ParallelMap

from tfopt_core import DataPlan
from tfopt_core.data import Resident
from tfopt_core.data.dissect import walk
from tfopt_core.data.lower import lower
from tfopt_core.testing import make_run, stack_of


def resident(plan: DataPlan) -> DataPlan:
    return plan.append(Resident())


def served(plan: DataPlan) -> DataPlan:
    def from_nowhere(dataset: Any) -> Any:
        variant = tf.data.experimental.to_variant(dataset)
        return tf.data.experimental.from_variant(variant, dataset.element_spec)

    return with_service(plan, from_nowhere, divided=False).plan


@pytest.mark.tensorflow
@pytest.mark.parametrize("hidden_by", [resident, served])
def test_a_rewrite_is_confirmed_below_what_hides_its_inputs(hidden_by: Any) -> None:
    plan = DataPlan.from_arrays(np.arange(8)).map(lambda x: x + 1)
    stack = stack_of(ParallelMap(), build_dataset=plan)
    run = make_run()
    dataset = lower(hidden_by(stack.build_dataset(run, "train")).batch(2))
    assert not walk.has_stage(dataset, "ParallelMap")
    effect = stack.report_effects(attrs.evolve(run, datasets={"train": dataset}), None)
    assert effect["ParallelMap"].applied

    other = attrs.evolve(run, datasets={"train": lower(hidden_by(plan).batch(2))})
    assert not stack.report_effects(other, None)["ParallelMap"].applied
