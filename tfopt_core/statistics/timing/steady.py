"""Find the steady step time of a fit in its timed blocks (docs/guide/measuring.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from tfopt_core.records.fit import Block
from tfopt_core.statistics.intervals import median

Blocks = Sequence[Block]

MINIMUM_BLOCKS = 20
# The search takes the square of the number of points: 10 ms for 2,000, a second for 20,000.
MAXIMUM_POINTS = 2_000
SAME_WITHIN = 0.01
# Shorter blocks, such as at the end of an epoch, are too noisy.
FULL_STEPS, FULL_SECONDS = 10, 0.02


@attrs.frozen
class Steady:
    """The median seconds of a step over the steady blocks, None without any block."""

    step_seconds: float | None
    steady: bool


def steady_state(blocks: Blocks) -> Steady:
    """Drop the known warm-up, search for a left-over shift, and return the last level.

    Steady if the last segment has at least 20 blocks and half of all; else the median of all
    warm blocks is given and `steady` is False.
    """
    warm = [block for block in blocks if not block.cold]
    times = [block.seconds / block.steps for _, block in _samples(warm)]
    if not times:
        return Steady(None, False)
    last = last_segment(times)
    if _is_enough(last, times):
        return Steady(median(last), True)
    return Steady(median(times), False)


def steady_from(warm: Blocks) -> int:
    """Return the index of the warm block with which the steady state begins; 0 if there is none."""
    samples = _samples(warm)
    times = [block.seconds / block.steps for _, block in samples]
    last = last_segment(times)
    return samples[len(times) - len(last)][0] if last and _is_enough(last, times) else 0


def _samples(warm: Blocks) -> list[tuple[int, Block]]:
    """Return the blocks that are long enough, or all of them if none is, with their indices."""
    timed = [(i, block) for i, block in enumerate(warm) if block.steps and block.seconds > 0]
    full = [(i, b) for i, b in timed if b.steps >= FULL_STEPS and b.seconds >= FULL_SECONDS]
    return full or timed


def _is_enough(last: Sequence[float], times: Sequence[float]) -> bool:
    return len(last) >= MINIMUM_BLOCKS and 2 * len(last) >= len(times)


def last_segment(times: Sequence[float]) -> Sequence[float]:
    """Return the times since the last change of level, with segments within 1% of the last.

    Change points are those of PELT (Killick et al. 2012) on log times; with the linear kernel the
    cost is that of a shift of the mean, in the compiled implementation of ruptures. Level shifts do
    not affect the noise estimate: 1.4826 MAD of the differences / sqrt 2.
    """
    import numpy as np
    import ruptures

    if len(times) < MINIMUM_BLOCKS:
        return times
    # merge neighbours if there are more points: a lasting level still shows
    merged = math.ceil(len(times) / MAXIMUM_POINTS)
    whole = len(times) // merged * merged
    rest = len(times) - whole  # at the front, where a run warms up
    log_times = np.log(np.asarray(times[rest:])).reshape(-1, merged).mean(axis=1)
    count = len(log_times)
    differences = np.diff(log_times)
    sigma = 1.4826 * float(np.median(np.abs(differences - np.median(differences)))) / math.sqrt(2)
    if sigma == 0:
        return times
    search = ruptures.KernelCPD(kernel="linear", min_size=10).fit(log_times.reshape(-1, 1))
    ends = [int(end) for end in search.predict(pen=3 * sigma**2 * math.log(count))]
    starts = [0, *ends[:-1]]
    level = float(np.median(log_times[starts[-1] :]))
    first = starts[-1]
    for start, end in reversed(list(zip(starts[:-1], ends[:-1], strict=True))):
        if abs(float(np.median(log_times[start:end])) - level) > math.log1p(SAME_WITHIN):
            break
        first = start
    return times if first == 0 else times[rest + first * merged :]
