import pytest

from tfopt_core.training.scripts.defaults import judged_metric


@pytest.mark.parametrize(
    ("metrics", "judged"),
    [
        (["accuracy", "loss", "val_accuracy", "val_loss"], "val_accuracy"),
        (["auc", "loss", "val_auc", "val_loss"], "val_auc"),
        (["loss", "val_loss"], "val_loss"),
        (["kl_loss", "total_loss", "val_kl_loss", "val_total_loss"], "val_total_loss"),
        (["kl_loss", "loss", "val_kl_loss"], "val_kl_loss"),
        (["accuracy", "loss"], "accuracy"),
        (["kl_loss", "total_loss"], "total_loss"),
        (["a_loss", "b_loss", "loss"], "loss"),
        (["d_loss", "g_loss"], "d_loss"),
        (["boundary", "residual"], ""),
        ([], "loss"),
    ],
)  # fmt: skip
def test_a_script_is_judged_by_its_accuracy_else_by_the_whole_loss(metrics, judged):
    assert judged_metric(metrics) == judged
