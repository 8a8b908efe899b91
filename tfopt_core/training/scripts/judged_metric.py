"""Choose the metric that judges the quality of a script's training."""

from __future__ import annotations

from collections.abc import Sequence

from tfopt_core.training.workload import quality_direction

ACCURACY = "val_accuracy"
# Of several losses the one that is minimized, before its parts, such as the kl_loss of a VAE.
WHOLE_LOSSES = ("loss", "total_loss")


def judged_metric(metrics: Sequence[str]) -> str:
    """Return the metric of quality if the recipe names none: the validation accuracy, or another
    metric of which it is known whether higher or lower is better; "" if there are others alone."""
    known = [name for name in metrics if quality_direction(name) is not None]
    validated = [name for name in known if name.startswith("val_")]
    whole = [name for name in WHOLE_LOSSES if name in metrics]
    for names in (
        [name for name in validated if name == ACCURACY],
        [name for name in validated if not name.endswith("loss")],
        [name for name in validated if name.removeprefix("val_") in WHOLE_LOSSES],
        validated,
        [name for name in known if not name.endswith("loss")],
        whole,
        known,
        () if metrics else WHOLE_LOSSES,
    ):
        if names:
            return names[0]
    return ""
