"""Prefetch and parallel map."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from plugin_drive import Driven
from tfopt_data.parallel_map import ParallelMap, with_parallel_maps
from tfopt_data.prefetch import Prefetch, with_prefetch

from tfopt_core import DataPlan
from tfopt_core.data.lower import lower


def twice(x: Any) -> Any:
    return x * 2


def test_prefetch_is_put_at_the_end() -> None:
    rewrite = with_prefetch(DataPlan.from_arrays(np.arange(4)).batch(2), 3)
    assert rewrite.plan.describe()[-1] == "prefetch: 3"


def test_prefetched_plan_is_left_alone() -> None:
    plan = DataPlan.from_arrays(np.arange(4)).prefetch().batch(2)
    assert with_prefetch(plan).plan is plan


@pytest.mark.tensorflow
def test_data_set_that_ends_with_a_prefetch_is_left_alone() -> None:
    import tensorflow as tf

    plan = DataPlan.from_dataset(tf.data.Dataset.range(4).batch(2).prefetch(1))
    rewrite = with_prefetch(plan)
    assert rewrite.plan is plan
    assert "ends with a prefetch" in rewrite.reason
    assert with_prefetch(plan.take(1)).done


@pytest.mark.tensorflow
def test_pydataset_is_left_to_keras() -> None:
    import keras

    class Batches(keras.utils.PyDataset):
        num_batches = 1

    plan = DataPlan.from_pydataset(Batches())
    assert "Keras" in with_prefetch(plan).reason


@pytest.mark.tensorflow
def test_prefetch_reads_itself_back(train: Callable[..., Driven]) -> None:
    effect = train(Prefetch()).effect
    assert effect.applied
    assert effect.detail == "train: prefetch: AUTOTUNE"


@pytest.mark.tensorflow
@pytest.mark.parametrize(("calls", "ordered"), [("auto", True), (4, True), (4, False)])
def test_parallel_map_keeps_the_elements(calls: Any, ordered: bool) -> None:
    plan = DataPlan.from_arrays(np.arange(50)).map(twice)
    parallel = with_parallel_maps(plan, calls, ordered).plan
    elements = [int(element) for element in lower(parallel)]
    wanted = list(range(0, 100, 2))
    assert (elements if ordered else sorted(elements)) == wanted


def test_parallel_map_leaves_the_workloads_own_choice() -> None:
    plan = DataPlan.from_arrays(np.arange(4)).map(twice, parallel=3).map(twice)
    rewrite = with_parallel_maps(plan, 2)
    assert [stage.parallel for stage in rewrite.plan.stages[1:]] == [3, 2]
    assert with_parallel_maps(rewrite.plan).reason == "every map is parallel already"


def test_any_order_is_another_order() -> None:
    assert ParallelMap().math() == "exact"
    assert ParallelMap(ordered=False).math() == "order"


@pytest.mark.tensorflow
def test_no_map_stage_is_not_applied(train: Callable[..., Driven]) -> None:
    effect = train(ParallelMap()).effect
    assert not effect.applied
    assert "there is no map stage" in effect.detail


@pytest.mark.parametrize("plugin", [Prefetch, ParallelMap])
def test_zero_is_refused(plugin: Any) -> None:
    key = "buffer_size" if plugin is Prefetch else "calls"
    with pytest.raises(ValueError, match="at least 1"):
        plugin(**{key: 0})
