"""What a workload says of itself."""

from __future__ import annotations

import pytest

from tfopt_core import Workload
from tfopt_core.training.workload import quality_direction


@pytest.mark.parametrize(
    ("metric", "direction"),
    [
        ("val_accuracy", "max"), ("val_auc", "max"), ("f1_score", "max"), ("mean_io_u", None),
        ("val_loss", "min"), ("mae", "min"), ("val_hinge", "min"), ("kl_divergence", "min"),
        ("log_cosh", "min"), ("false_positives", "min"), ("my_figure", None),
    ],
)  # fmt: skip
def test_only_a_name_that_is_known_tells_which_way_is_better(metric, direction):
    assert quality_direction(metric) == direction


@pytest.mark.parametrize("field", ["epochs", "batch_size"])
def test_a_workload_trains_at_least_once(field):
    with pytest.raises(ValueError, match=f"{field} must be at least 1"):
        Workload(train=(), build_model=dict, **{field: 0})
