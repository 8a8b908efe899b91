"""How a script's calls of `fit` are cut short, for a quick look. No TensorFlow."""

from __future__ import annotations

import attrs

from tfopt_core.recipe import WorkloadSpec


@attrs.frozen
class CutShort:
    """The most epochs and steps of a call of `fit`.

    :param epochs: that are trained at most, None for as many as the script asks for.
    :param steps: of an epoch, at most; None for all.
    :param planned_steps: those of an epoch of the script's own, None where unknown.
    """

    epochs: int | None = None
    steps: int | None = None
    planned_steps: int | None = None


def cut_short(spec: WorkloadSpec, steps_per_epoch: int | None) -> CutShort | None:
    """How a call is cut whose epochs have so many steps (None where unknown).

    Whole epochs where they fit into `max_steps`, else one epoch of as many steps: so that loops of
    several steps a call make as many as others. None where nothing is cut.
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
    """`each fit is cut to 3 epochs`; None where nothing is cut."""
    parts = []
    if spec.max_epochs is not None:
        parts.append(f"{spec.max_epochs} epoch{'s' * (spec.max_epochs != 1)}")
    if spec.max_steps is not None:
        parts.append(f"{spec.max_steps:,} step{'s' * (spec.max_steps != 1)}")
    if not parts:
        return None
    return f"cut short for a quick look: at most {' and '.join(parts)} of each fit"
