"""The limits that cut a script's calls of `fit` short, for a quick look, and the callback."""

from __future__ import annotations

from typing import Any

import attrs

from tfopt_core.lazy import keras
from tfopt_core.recipe.model import WorkloadSpec


@attrs.frozen
class CutShort:
    """The most epochs and steps of a call of `fit`.

    :param epochs: the most epochs; None for those of the script.
    :param steps: the most steps of an epoch; None for all.
    :param planned_steps: the steps of an epoch in the script; None if unknown.
    """

    epochs: int | None = None
    steps: int | None = None
    planned_steps: int | None = None


def cut_short(spec: WorkloadSpec, steps_per_epoch: int | None) -> CutShort | None:
    """Return the limits of a call with this many steps in an epoch (None if unknown).

    They are whole epochs if those fit into `max_steps`, else one epoch of `max_steps`, so that
    loops of several steps a call make as many as others. Return None if nothing is cut.
    """
    if spec.max_steps is None:
        return None if spec.max_epochs is None else CutShort(spec.max_epochs)
    if steps_per_epoch == 0:
        return None
    if steps_per_epoch is None or steps_per_epoch > spec.max_steps:
        return CutShort(1, spec.max_steps, steps_per_epoch)
    whole = spec.max_steps // steps_per_epoch
    return CutShort(whole if spec.max_epochs is None else min(whole, spec.max_epochs))


def cut_in_words(spec: WorkloadSpec) -> str | None:
    """Return a sentence on the limits; None if nothing is cut."""
    parts = []
    if spec.max_epochs is not None:
        parts.append(f"{spec.max_epochs} epoch{'s' * (spec.max_epochs != 1)}")
    if spec.max_steps is not None:
        parts.append(f"{spec.max_steps:,} step{'s' * (spec.max_steps != 1)}")
    if not parts:
        return None
    return f"cut short for a quick look: at most {' and '.join(parts)} of each fit"


def stopping_after(batches: int) -> Any:
    """Return a Keras callback that stops a fit after this many batches."""

    class Stopping(keras.callbacks.Callback):  # type: ignore[misc]
        seen = 0

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.seen += 1
            if self.seen >= batches:
                self.model.stop_training = True

    return Stopping()
