"""Frozen features: when the plugin is proposed."""

from typing import Any

import attrs
import pytest
from support.hooks_diagnosis import diagnosis
from tfopt_data.frozen_features import FrozenFeatures

from tfopt_core import DataPlan
from tfopt_core.plugins import Finding

MOSTLY_FROZEN = Finding(kind="frozen-layers", detail="98% of the model's weights are frozen")


def suggested(**changes: Any) -> dict[str, Any] | None:
    known = {"findings": (MOSTLY_FROZEN,), "plans": {"train": DataPlan.from_arrays([1.0])}}
    epochs = changes.pop("epochs", 5)
    return FrozenFeatures().suggest(attrs.evolve(diagnosis(**known | changes), epochs=epochs))


def test_it_is_proposed_for_a_model_that_is_mostly_frozen() -> None:
    assert suggested() == {}


@pytest.mark.parametrize("changes", [{"findings": ()}, {"plans": {}}, {"epochs": 1}])
def test_it_is_not_proposed_where_nothing_is_computed_twice(changes: Any) -> None:
    assert suggested(**changes) is None
