"""The statements of a data plan make the data set that the plan is lowered to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.lazy_modules import keras, tf

from tfopt_core import DataPlan, Workload
from tfopt_core.data import Autotune, Batch, Cache, Prefetch, Shuffle
from tfopt_core.data.lower import lower_plan
from tfopt_core.export.names import WorkloadNames
from tfopt_core.export.pipeline import Pipelines
from tfopt_core.hooks.code.plain_code import NoPlainForm

pytestmark = pytest.mark.tensorflow

SEED = 7


def doubled(x: Any, y: Any) -> Any:
    return x * 2, y


def is_even(x: Any, y: Any) -> Any:
    return y % 2 == 0


def arrays() -> Any:
    return np.arange(20, dtype="float32"), np.arange(20, dtype="int32")


def examples() -> Any:
    yield from zip(*arrays(), strict=True)


def taken_apart() -> Any:
    data = tf.data.Dataset.from_tensor_slices(arrays()).shuffle(
        20, seed=5, reshuffle_each_iteration=False
    )
    return data.map(doubled).batch(4)


def from_arrays(train: Any) -> DataPlan:
    return DataPlan.from_arrays(*train)


PLANS: dict[str, tuple[Callable[[], Any], Callable[[Any], DataPlan]]] = {
    "arrays": (
        arrays,
        lambda data: from_arrays(data).append(Shuffle(seed=SEED)).append(Batch(size=3)),
    ),
    "stages": (
        lambda: DataPlan.from_arrays(*arrays()).map(doubled).filter(is_even),
        lambda plan: plan.append(Cache()).take(5).batch(2, drop_remainder=True).repeat(2),
    ),
    "parallel": (
        lambda: DataPlan.from_arrays(*arrays()).map(doubled, parallel="auto"),
        lambda plan: plan.append(Autotune(enabled=False)).append(Prefetch(buffer_size=2)),
    ),
    "generator": (lambda: examples, lambda data: DataPlan.from_generator(data).batch(6)),
    "data-set": (taken_apart, lambda data: DataPlan.from_dataset(data).append(Prefetch())),
    "rebuilt": (
        taken_apart,
        lambda data: (plan := DataPlan.from_dataset(data)).insert(
            plan.find(Batch) or 1, Cache()
        ),
    ),
}  # fmt: skip


def names_of(workload: Workload, plan: DataPlan) -> WorkloadNames:
    return WorkloadNames(workload, {"train": plan}, Path())


def statements(names: WorkloadNames, plan: DataPlan, functions: Any = ()) -> list[str]:
    pipelines = Pipelines(
        names=names, seed=SEED, global_seed=SEED, functions=functions, owner=lambda stage: None
    )
    return pipelines.written(plan, "train", "train")


@pytest.mark.parametrize("name", PLANS)
def test_the_statements_of_a_plan_yield_its_elements(name: str):
    give, change = PLANS[name]
    keras.utils.set_random_seed(SEED)
    workload = Workload(train=give(), build_model=lambda: None)
    plan = change(workload.train)
    names = names_of(workload, plan)
    code = statements(names, plan)
    # pytest imports this module under a name that no file could
    space = {"tf": tf, "workload": workload, "seed": SEED, "doubled": doubled, "is_even": is_even}
    exec("\n".join([*names.helpers, *code]), space)
    for ours, theirs in zip(space["train"], lower_plan(plan), strict=True):
        for one, other in zip(tf.nest.flatten(ours), tf.nest.flatten(theirs), strict=True):
            assert one.numpy().tolist() == other.numpy().tolist()


def test_a_function_at_the_top_of_a_module_is_imported_by_its_name():
    plan = DataPlan.from_arrays(*arrays()).map(doubled)
    names = names_of(Workload(train=plan, build_model=lambda: None), plan)
    assert names.reference(doubled) == "doubled"
    assert list(names.imports) == [f"from {__name__} import doubled"]


def test_a_function_that_has_no_such_name_is_taken_out_of_the_plan():
    plan = DataPlan.from_arrays(*arrays()).map(lambda x, y: (x, y))
    names = names_of(Workload(train=plan, build_model=lambda: None), plan)
    function = plan.stages[1].function
    assert names.reference(function) == "workload.train.stages[1].function"


def test_a_function_that_nobody_can_reach_has_no_plain_form():
    plan = DataPlan.from_arrays(*arrays())
    names = names_of(Workload(train=plan, build_model=lambda: None), plan)
    with pytest.raises(NoPlainForm, match='"doubled" is not in the workload'):
        statements(names, plan.map(doubled))


def test_a_plugin_says_how_its_own_function_is_written():
    plan = DataPlan.from_arrays(*arrays())
    names = names_of(Workload(train=plan, build_model=lambda: None), plan)
    lines = statements(names, plan.map(doubled), [(doubled, "twice(2)")])
    assert lines[-1] == "train = train.map(twice(2))"
