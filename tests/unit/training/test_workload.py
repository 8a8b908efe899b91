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
        ("val_hinge_accuracy", "max"), ("categorical_crossentropy", "min"), ("auc_loss", "min"),
        ("accuracy_error", "min"), ("error_precision", "max"),
        ("false_positive_rate", "min"), ("dense_loss", "min"), ("val_out_mae_1", "min"),
        ("top_k_categorical_accuracy_2", "max"), ("precision_at_recall", "max"),
        ("cosine_similarity_error", "min"), ("f1_macro", "max"), ("recall_at_fpr", "max"),
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
