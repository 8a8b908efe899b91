"""Find what takes a large share of an epoch besides its steps, and what targets it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from tfopt_core.hooks import Finding
from tfopt_core.records.diagnosis import VALIDATION, EpochPart

# A smaller share of an epoch is not worth a word.
COSTLY = 0.1
# From this share of the validation on, reading its data is what to shorten.
READING = 0.5
LESS_OFTEN = "validate less often (validation_freq)"
# What makes a callback of Keras cheaper, by its class.
_MENDS = {
    "ModelCheckpoint": "save less often (save_freq), or the weights alone (save_weights_only=True)",
    "BackupAndRestore": "save less often (save_freq)",
    "TensorBoard": "write less (histogram_freq=0, write_graph=False, update_freq='epoch')",
}
_MEND = "call it less often, or make it cheaper; no plugin shortens it"


def epoch_findings(
    parts: Sequence[EpochPart], step_seconds: float, steps: int | None
) -> Iterator[Finding]:
    """Yield what takes a tenth of an epoch or more, with what can be done.

    :param parts: what an epoch takes besides its steps.
    :param steps: of an epoch; nothing is found if it is unknown.
    """
    if steps is None:
        return
    epoch = steps * step_seconds + math.fsum(part.seconds or 0.0 for part in parts)
    for part in parts:
        if part.seconds is None or part.seconds < COSTLY * epoch:
            continue
        share = f"{part.seconds / epoch:.0%} of an epoch"
        if part.name == VALIDATION:
            yield _of_validation(part.seconds, part.reading_seconds, share)
        else:
            mend = _MENDS.get(part.name.split(" ")[0], _MEND)
            yield Finding(kind="costly-callback", detail=f"{part.name} takes {share}", mend=mend)


def _of_validation(seconds: float, reading_seconds: float | None, share: str) -> Finding:
    detail = f"it takes {share}"
    if reading_seconds is not None and reading_seconds >= READING * seconds:
        detail += f", of which reading its data alone takes {min(1, reading_seconds / seconds):.0%}"
        mend = f"cache its data and prefetch it, or {LESS_OFTEN}"
    else:
        mend = (
            "more steps a call (steps_per_execution counts for it too) and larger batches "
            f"(validation_batch_size), or {LESS_OFTEN}"
        )
    return Finding(kind="costly-validation", detail=detail, mend=mend, split=VALIDATION)
