"""Compare the loops that a training can use, within a budget, for `tfopt train --adapt`.

`tfopt_core/training/loops/switching.py` switches between them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Generator
from time import perf_counter_ns

import attrs

from tfopt_core.records.in_run import Adapted, InRun, InRunVerdict
from tfopt_core.statistics.in_run import not_compared
from tfopt_core.statistics.intervals import LOOK_LEVEL, LOOKS
from tfopt_core.statistics.wording import seconds_in_words
from tfopt_core.training.loops.exact_loops import Loop, Offer
from tfopt_core.trials.alternate import BlockTimer, InRunContrast, block_steps
from tfopt_core.trials.candidates import LoopTrial, candidates, fastest, why_kept

# Comparing takes at most this long, or this share of the whole training if that is longer.
BUDGET_SECONDS, BUDGET_SHARE = 20.0, 0.02
# No comparison begins that would need more than one in this many of all steps; the rest profits.
SHARE_OF_STEPS = 4
# How much longer a first call takes with XLA: 1 to 3 times in small models.
XLA_FIRST_CALL = 2.0
# A wider interval (high / low) of a gain is too vague to choose between two faster loops.
WIDEST = 1.5
# A quad changes the function after its first and third block, and before it in half of cases.
CHANGES_A_QUAD = 2.5


@attrs.define(eq=False)
class Explorer:
    """Compares the offered loops with the reference, one after another, and keeps the fastest.

    `tfopt_core.trials.candidates.candidates` chooses which, and in what order. Levels are divided
    by the number of offered loops (Bonferroni).

    :param sync: waits for the device; None on a CPU, where each call waits.
    :param seed: the seed of the random order of blocks.
    :param steps_first: compare more steps a call before XLA.
    :param budget_seconds: the time for comparing, unless a share of the training is longer.
    :param now: the clock, in nanoseconds.
    :param kept: the loop for the rest of the training, None while loops are compared.
    """

    offer: Offer
    sync: Callable[[], None] | None = None
    seed: int = 0
    budget_seconds: float = BUDGET_SECONDS
    steps_first: bool = False
    now: Callable[[], int] = perf_counter_ns
    kept: Loop | None = None
    results: dict[Loop, InRun] = attrs.field(factory=dict)
    _source: random.Random = attrs.field(init=False)
    _timer: BlockTimer = attrs.field(init=False)
    _plan: Generator[LoopTrial, InRun, None] | None = None
    _loop: Loop | None = None
    _contrast: InRunContrast | None = None
    _chosen: Loop | None = None
    _reference_seconds: float = 0.0
    _longest_first_call: float = 0.0
    _spent: int = 0
    _last: int | None = None
    _steps: int = 0

    def __attrs_post_init__(self) -> None:
        self._source = random.Random(self.seed)
        self._timer = BlockTimer(self.now, self.sync)
        if self.offer.empty:
            self.kept = self.offer.reference

    def choose(self) -> Loop:
        """Return the loop that makes the next call; `kept` once that is settled."""
        self._count_time()
        self._chosen = self._next_loop()
        return self._chosen

    def called(self, loop: Loop, steps: int, *, traced: bool) -> None:
        """Note that a call has returned; another loop than the chosen one may have made it."""
        before = self._last
        self._count_time()
        self._steps += steps
        if traced and before is not None and self._last is not None:
            self._longest_first_call = max(self._longest_first_call, (self._last - before) / 1e9)
        self._timer.after_call(steps, traced=traced)
        if loop != self._chosen:
            self._timer.cut()

    def cut(self) -> None:
        """Note an epoch's edge: a validation and the start of an iterator are no part of a step."""
        self._last = None
        self._timer.cut()

    def failed(self, loop: Loop, reason: str) -> None:
        """Drop the loop; the next one is compared."""
        if self._contrast is not None and loop == self._loop:
            self._contrast.result = not_compared(
                loop.name, self.offer.reference.name, f"it {reason}", verdict=InRunVerdict.DROPPED
            )

    def adapted(self, ended: str = "the training ended before") -> Adapted:
        """Return what was compared so far, and which loop is kept.

        :param ended: why the contrast that is going on is settled no more.
        """
        results = dict(self.results)
        if self.kept is None and self._contrast is not None and self._loop is not None:
            results[self._loop] = self._contrast.end(ended)
        kept = self.kept or self.offer.reference
        return Adapted(
            reference=self.offer.reference.name,
            kept=kept.name,
            reason=why_kept(self.offer, kept, tuple(results.values())),
            contrasts=tuple(results.values()),
            left_out=self.offer.left_out,
            seconds=self._spent / 1e9,
            steps=self._steps,
            total_steps=self.offer.total_steps,
        )

    def _next_loop(self) -> Loop:
        if self.kept is not None:
            return self.kept
        if self._contrast is None:
            seconds = self._timer.before_call()
            if seconds is None:
                return self.offer.reference
            self._reference_seconds = seconds  # the first block only shows what comparing costs
            self._plan = candidates(self.offer, seconds, steps_first=self.steps_first)
            return self._begin(next(self._plan, None))
        alternative = self._contrast.choose()
        if self._contrast.result is None:
            reason = self._why_end()
            if reason:
                self._contrast.end(reason)
        if self._contrast.result is not None:
            return self._begin(self._next_trial(self._contrast.result))
        return self._loop if alternative and self._loop is not None else self.offer.reference

    def _begin(self, trial: LoopTrial | None) -> Loop:
        """Start to compare this loop, or the next loop that the budget allows. Return the next
        loop."""
        reference = self.offer.reference
        while trial is not None:
            self._loop = trial.loop
            reason = self._why_not(trial)
            if not reason:
                break
            trial = self._next_trial(not_compared(trial.loop.name, reference.name, reason))
        if trial is None:
            self.kept = fastest(self.results) or reference
            return self.kept
        self._timer.cut()
        loop = trial.loop
        self._contrast = InRunContrast(
            loop.name, reference.name, LOOK_LEVEL / self.offer.count, self._source, self._timer,
            alternative_steps=loop.steps, reference_step_seconds=self._reference_seconds,
            widest=WIDEST if self.offer.count > 1 else math.inf, screen=trial.screen,
        )  # fmt: skip
        return loop if self._contrast.choose() else reference

    def _next_trial(self, result: InRun) -> LoopTrial | None:
        """Store the result of the current loop and return the next trial, None if there is none."""
        assert self._loop is not None
        assert self._plan is not None
        if result.verdict is not InRunVerdict.SCREENED:
            self.results[self._loop] = result
        if self._contrast is not None and self._contrast.reference_step_seconds:
            self._reference_seconds = self._contrast.reference_step_seconds
        self._contrast = None
        try:
            return self._plan.send(result)
        except StopIteration:
            return None

    def _why_not(self, trial: LoopTrial) -> str:
        """Return why comparing this loop is not affordable; empty if it is."""
        loop = trial.loop
        reference, seconds = self.offer.reference, self._reference_seconds
        blocks = block_steps(seconds, reference.steps) + block_steps(seconds, loop.steps)
        changes = CHANGES_A_QUAD * (reference.steps + loop.steps) / 2
        steps = round(blocks + changes if trial.screen else LOOKS[0] * (2 * blocks + changes))
        first_call = self._longest_first_call * (XLA_FIRST_CALL if loop.jit_compile else 1)
        takes = steps * seconds + first_call
        allowed = self._steps_allowed()
        if allowed is not None and self._steps + steps > allowed:
            return (
                f"it takes about {steps:,} steps, and of those for comparing (1 in "
                f"{SHARE_OF_STEPS} of all) {max(0, allowed - self._steps):,} are left"
            )
        if self._spent / 1e9 + takes > self._seconds_allowed():
            return (
                f"it takes about {seconds_in_words(takes)}, more than is left of "
                f"{seconds_in_words(self._seconds_allowed())} for comparing"
            )
        return ""

    def _why_end(self) -> str:
        """Return why comparing must end now; empty if it may continue."""
        allowed, total = self._steps_allowed(), self.offer.total_steps
        if total is not None and 2 * self._steps >= total:
            return "half of all steps is used up"
        assert self._contrast is not None
        # a traced loop is always compared up to the first look
        if len(self._contrast.quads) not in LOOKS:
            return ""
        if allowed is not None and self._steps >= allowed:
            return f"1 in {SHARE_OF_STEPS} of all steps is used up"
        if self._spent / 1e9 > self._seconds_allowed():
            return f"the {seconds_in_words(self._seconds_allowed())} for comparing are used up"
        return ""

    def _steps_allowed(self) -> int | None:
        total = self.offer.total_steps
        return None if total is None else total // SHARE_OF_STEPS

    def _seconds_allowed(self) -> float:
        projected = (self.offer.total_steps or 0) * self._reference_seconds
        return max(self.budget_seconds, BUDGET_SHARE * projected)

    def _count_time(self) -> None:
        now = self.now()
        if self._last is not None:
            self._spent += now - self._last
        self._last = now
