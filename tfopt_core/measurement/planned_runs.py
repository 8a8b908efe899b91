"""Plan the runs of a measurement: which ones a round has, and which rounds its time holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from tfopt_core.measurement.conclude import judgement_of
from tfopt_core.measurement.pace import (
    FOR_A_FIRST_VERDICT,
    SHORTEST_SECONDS,
    SURELY_TOO_LONG,
    Pace,
    round_seconds,
    warm_seconds,
)
from tfopt_core.measurement.schedule import baseline_and_full, leave_one_out
from tfopt_core.measurement.state import MeasurementState
from tfopt_core.records.dry_build import Prepared
from tfopt_core.records.results import RunResult
from tfopt_core.records.variants import Contrast, Variant
from tfopt_core.statistics.intervals import LOOKS
from tfopt_core.statistics.judgement import Judgement
from tfopt_core.statistics.pairs import pairs_of
from tfopt_core.statistics.timing.cutting import longest_seconds
from tfopt_core.statistics.verdicts.stopping import is_complete
from tfopt_core.trials.request import Request


@attrs.define(kw_only=True, eq=False)
class PlannedRuns:
    """The runs of one measurement: those that were made, and those that follow as far as its time
    holds them.

    `runs` may hold runs of an earlier process, which are not repeated. `extras` are the variants
    beside the baseline, the full stack and that of the second contrast, for `contrasts`.
    """

    request: Request
    prepared: Prepared
    state: MeasurementState
    pace: Pace
    keep_state: Callable[[MeasurementState], None] = lambda state: None
    runs: list[RunResult] = attrs.field(factory=list)
    extras: list[Variant] = attrs.field(factory=list, init=False)
    contrasts: list[Contrast] = attrs.field(factory=list, init=False)
    pairs: int = attrs.field(init=False)

    @pairs.default
    def _first_pairs(self) -> int:
        # the fixed number, or that of the first look
        pairs = self.request.recipe.measure.pairs
        return LOOKS[0] if pairs == "auto" else pairs

    def __attrs_post_init__(self) -> None:
        attribution = self.request.recipe.measure.attribution
        if self.state.isolating is None and attribution != "auto":
            self.decide(isolating=attribution != "off")
        if self.state.isolating:
            self.isolate_each()

    def judgement(self) -> Judgement:
        """Return the rules by which the runs so far are judged."""
        return judgement_of(self.request, self.prepared, self.state, self.runs)

    def seconds_a_round(self, round_: int = 0) -> float | None:
        """Return the seconds of a round like this one, None before the first run."""
        return round_seconds(self.alike(), self.variants(round_)) if self.alike() else None

    def alike(self) -> list[RunResult]:
        """Return the runs of the same length as the next one."""
        return [run for run in self.runs if run.round >= self.state.same_length_from]

    def variants_a_round(self, round_: int) -> int:
        """Return how many runs a round has."""
        return len(self.variants(round_))

    def variants(self, round_: int) -> list[Variant]:
        """Return the variants of a round."""
        settled_after = self.state.settled_after
        isolates = settled_after is None or round_ < settled_after
        extras = self.extras if isolates else []
        return [*baseline_and_full(self.request.plugins), *self.added(round_), *extras]

    def added(self, round_: int) -> list[Variant]:
        """Return the variant of the second contrast, if a round has a run of it."""
        added = self.state.added
        if added is None or added.why_ended or round_ < added.first_round:
            return []
        return [Variant(added.variant, self.request.added)]

    def is_missing(self, round_: int) -> bool:
        """Return whether a run of a round is still to be made."""
        return not is_complete(self.runs, round_)

    @property
    def sequential(self) -> bool:
        """Whether looks at the pairs so far decide how many there are."""
        return self.request.recipe.measure.pairs == "auto"

    def total_runs(self) -> int:
        """Return how many runs there will be."""
        planned = sum(self.variants_a_round(round_) for round_ in range(self.pairs))
        return max(len(self.runs), planned)

    def seconds_left(self) -> float | None:
        """Return the seconds of the runs that are still to be made; None if that is unknown."""
        round_, alike = self.runs[-1].round, self.alike()
        of_round = [run for run in self.runs if run.round == round_]
        done = {run.variant for run in of_round}
        missing = [variant for variant in self.variants(round_) if variant.name not in done]
        for later in range(round_ + 1, self.pairs):
            missing += self.variants(later)
        return round_seconds(alike, missing) if alike else None

    def longest_seconds(self, round_: int) -> float | None:
        """Return the seconds of timed steps after which the runs of a round are cut, None to train
        to the end."""
        if self.state.length != "steady":
            return None
        longest = longest_seconds(self.request.recipe.measure.budget_seconds)
        if self.state.settled_after is not None:
            # no longer than the runs of the verdict, for which that was enough
            known = [warm_seconds(run) for run in self.alike() if run.ok]
            return min(longest, max([SHORTEST_SECONDS, *known]))
        missing = max(0, LOOKS[0] - round_) * self.variants_a_round(round_)
        return self.pace.longest_run(self.alike(), missing, longest)

    def affordable(self, rounds: int) -> bool:
        """Return whether another round may begin. The budget may be overrun by one round at most,
        and before the first look only if that look can be reached."""
        missing, a_round = LOOKS[0] - rounds, self.seconds_a_round(rounds)
        if not self.sequential or missing <= 0 or a_round is None:
            return not self.pace.spent
        if self.state.own_budget:
            # nobody asked for this budget, and without these pairs there is no verdict at all
            return self.pace.fits(missing * a_round, slack=FOR_A_FIRST_VERDICT)
        return not self.pace.spent and self.pace.fits(missing * a_round, slack=SURELY_TOO_LONG)

    def within_reach(self, rounds: int, look: int) -> bool:
        """Return whether the budget holds the rounds that are missing until a look."""
        # a resumed measurement may have some of these rounds already
        missing = sum(self.is_missing(round_) for round_ in range(rounds, look))
        return self.pace.fits(missing * (self.seconds_a_round(rounds) or 0.0))

    def too_long(self) -> bool:
        """Return whether the pairs of the first look, trained to their end, do not fit."""
        if not self.prepared.can_be_cut_short or not pairs_of(self.runs):
            return False
        rest = (LOOKS[0] - 1) * round_seconds(self.runs, self.variants(0))
        if not self.pace.fits(rest):
            return True
        longest = max(run.wall_seconds or 0.0 for run in self.runs)
        return not self.pace.fits_first(rest) and self.pace.worth_cutting(longest)

    def worth_isolating(self) -> bool:
        """Return whether leaving out each plugin in turn fits the budget, by the first pair."""
        if len(self.request.plugins) < 2 or not pairs_of(self.runs):
            return False
        variants = [*self.variants(0), *leave_one_out(self.request.plugins)[0]]
        rest = self.pairs * round_seconds(self.runs, variants)
        rest -= round_seconds(self.runs, self.variants(0))
        budget = self.request.recipe.measure.budget_seconds
        return self.pace.elapsed + rest <= budget and self.pace.fits_first(rest)

    def decide(self, **decided: Any) -> None:
        """Change the state, and keep it for a resume."""
        self.state = attrs.evolve(self.state, **decided)
        self.keep_state(self.state)

    def isolate_each(self) -> None:
        """Plan the runs that isolate each plugin."""
        self.extras, self.contrasts = leave_one_out(self.request.plugins)
