"""What a whole training would take, from one that was cut short (MEASUREMENT.md, section 3)."""

from __future__ import annotations

from collections.abc import Sequence

from tfopt_core.measure.steady import steady_state
from tfopt_core.store.results import Block
from tfopt_core.training.clock import TimedBlock
from tfopt_core.training.outcome import FitOutcome

# Twenty blocks may be 0.4 s, in which a machine's speed drifts: a steady step time is known only
# once it was seen for longer.
STEADY_SECONDS = 2.0
# On a noisy machine under half of all runs ever get steady (Barrett et al. 2017). A run that is cut
# short must end all the same: then its mean step, and not a level, is what is projected.
UNSTEADY_SECONDS = 8.0


def step_time_is_known(blocks: Sequence[TimedBlock]) -> bool:
    """Whether a run may end: steady after two seconds of warm blocks, or not so after eight."""
    warm = sum(block.seconds for block in blocks if not block.cold)
    if warm < STEADY_SECONDS:
        return False
    if warm >= UNSTEADY_SECONDS:
        return True
    return steady_state([Block(b.steps, b.seconds, b.epoch, b.cold) for b in blocks]).steady


def projected_seconds(
    outcome: FitOutcome, one_time_seconds: float, step_seconds: float | None
) -> float | None:
    """The whole training's wall time: C + s * steps, and what each epoch costs beside its steps.

    :param one_time_seconds: what is paid once, the first validation's share included.
    :param step_seconds: the steady step time.
    :returns: seconds; None where the number of steps or the step time is unknown.
    """
    if outcome.steps_per_epoch is None or step_seconds is None:
        return None
    an_epoch = outcome.steps_per_epoch * step_seconds + _later_validation(outcome) + _edge(outcome)
    return one_time_seconds + outcome.planned_epochs * an_epoch


def mean_warm_step(blocks: Sequence[Block]) -> float | None:
    """Mean seconds of a step over all warm blocks, None without any."""
    warm = [block for block in blocks if not block.cold]
    steps = sum(block.steps for block in warm)
    return sum(block.seconds for block in warm) / steps if steps else None


def _later_validation(outcome: FitOutcome) -> float:
    """Mean seconds of a validation after the first, which is part of the one-time cost."""
    _, *later = outcome.validation_seconds or (0.0,)
    return _mean(later) if later else _mean(outcome.validation_seconds)


def _edge(outcome: FitOutcome) -> float:
    """Mean seconds between one epoch's last validation and the next one's first step: Keras ends
    an iterator and starts another. Nothing, where the fit did not come that far."""
    pairs = zip(outcome.epoch_end_seconds, outcome.epoch_begin_seconds[1:], strict=False)
    return _mean([begin - end for end, begin in pairs])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
