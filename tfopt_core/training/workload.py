"""`Workload`, what a factory returns to be trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import attrs
from attrs import field, validators


def _positive(_: Any, attribute: Any, value: Any) -> None:
    if value is not None and (isinstance(value, bool) or value < 1):
        raise ValueError(f"{attribute.name} must be at least 1, got {value}")


def _list(_: Any, attribute: Any, value: Any) -> None:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ValueError(
            f"{attribute.name} must be a list, for several outputs of lists in their order; got "
            f"a {type(value).__name__}"
        )


@attrs.frozen(kw_only=True)
class Workload:
    """A training: data, model and what `compile` takes.

    Data are *unbatched*, since the recipe says how they are batched: a `DataPlan`, a
    `tf.data.Dataset`, arrays `(x, y)` or `(x, y, sample_weight)`, or a function that returns a
    fresh iterator of examples. A `keras.utils.PyDataset`, or data batched already, keep their
    batches.

    :param train: the training data.
    :param validation: the validation data, None if there are none.
    :param build_model: called inside the strategy's scope; returns a `keras.Model`, not compiled.
    :param optimizer: a name, a function that returns an optimizer, or an optimizer (rebuilt from
        its configuration inside the scope).
    :param loss: as `compile` takes it; None for a model that adds its own.
    :param metrics: names, functions that return a metric, or metrics (rebuilt likewise); for
        several outputs a list of lists, in their order.
    :param quality_metric: the metric of a finished epoch by which a model is judged
        ("val_accuracy"); the recipe's `measure.quality` takes precedence.
    :param quality_direction: "max" or "min"; None reads it from the name: losses and errors fall.
    :param epochs: how long to train where the recipe does not say.
    :param batch_size: the global batch size where the recipe does not say.
    :param shuffle: whether the training examples are shuffled anew each epoch.
    :param class_weight: as `fit` takes it.
    :param callbacks: a function that returns Keras callbacks, called once a fit.
    :param baseline: what the workload trains without a stack, in one sentence.
    :raises ValueError: for epochs or a batch size below 1, and for metrics that are no list.
    """

    train: Any
    build_model: Callable[[], Any]
    validation: Any = None
    optimizer: Any = "adam"
    loss: Any = None
    metrics: Sequence[Any] = field(default=(), validator=_list)
    weighted_metrics: Sequence[Any] = field(default=(), validator=_list)
    loss_weights: Any = None
    quality_metric: str = "val_loss"
    quality_direction: Literal["max", "min"] | None = None
    epochs: int = field(default=10, validator=_positive)
    batch_size: int = field(default=32, validator=_positive)
    shuffle: bool = True
    class_weight: Mapping[int, float] | None = None
    callbacks: Callable[[], Sequence[Any]] = field(
        default=tuple, validator=validators.is_callable()
    )
    baseline: str = ""
    # A strategy of a script's own, over whose replicas Keras itself distributes the training.
    own_strategy: ClassVar[Any] = None


# Of several losses the one that is minimized, before its parts, such as the kl_loss of a VAE.
WHOLE_LOSSES = ("loss", "total_loss")
_FALLING = (
    "loss", "error", "mae", "mse", "rmse", "mape", "msle", "perplexity", "crossentropy", "hinge",
    "divergence", "poisson", "cosh", "false_",
)  # fmt: skip
_RISING = (
    "acc", "auc", "precision", "recall", "f1", "fbeta", "iou", "dice", "r2", "similarity",
    "sensitivity", "specificity", "true_", "bleu",
)  # fmt: skip


def quality_direction(metric: str) -> Literal["max", "min"] | None:
    """Return whether a metric of this name is better high or low; None if unknown.

    The last word that is known decides: "hinge_accuracy" is an accuracy.
    """
    name = metric.removeprefix("val_").lower()
    falls = max(name.rfind(word) for word in _FALLING)
    rises = max(name.rfind(word) for word in _RISING)
    if falls == rises:  # neither is there
        return None
    return "min" if falls > rises else "max"


def judged_metric(metrics: Sequence[str]) -> str:
    """Return the metric of quality if the recipe names none: the validation accuracy, or another
    metric of which it is known whether higher or lower is better; "" if there are others alone."""
    known = [name for name in metrics if quality_direction(name) is not None]
    validated = [name for name in known if name.startswith("val_")]
    for names in (
        [name for name in validated if name == "val_accuracy"],
        [name for name in validated if not name.endswith("loss")],
        [name for name in validated if name.removeprefix("val_") in WHOLE_LOSSES],
        validated,
        [name for name in known if not name.endswith("loss")],
        [name for name in WHOLE_LOSSES if name in metrics],
        known,
        () if metrics else WHOLE_LOSSES,
    ):
        if names:
            return names[0]
    return ""
