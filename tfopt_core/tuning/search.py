"""Search greedily: plugin after plugin on top of the best stack, then each taken out again.

No global search over all orders and subsets: a stack that is best in each step is found in a number
of trials that grows with the plugins, not with their combinations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median

import attrs

from tfopt_core.errors import TfoptError
from tfopt_core.hooks.card import Traits
from tfopt_core.recipe.model import PAIRS
from tfopt_core.tuning.candidates import TuneCandidate
from tfopt_core.tuning.contrast import LEAST_RATIO, OnPair
from tfopt_core.tuning.progress import BoundsFound, SearchObserver, TrialBegun, TrialEnded
from tfopt_core.tuning.results import BoundStep, NotTried, StackTrial, TrialOutcome
from tfopt_core.tuning.search_log import SearchLog, key_of
from tfopt_core.tuning.stacks import Stack, joined, placed, without
from tfopt_core.workers.interrupts import HoldInterrupt

# The parts of the budget by which a trial of a further plugin must be expected to end, and any
# trial; the rest is for the fresh pairs.
FORWARD_SHARE, SEARCH_SHARE = 0.65, 0.75
# Where nothing has helped in the trials that end by then, nothing is expected to.
NOTHING_SHARE = 1 / 3
GOES_ON = "the same command with a larger --budget goes on from there"
INTERRUPTED = "interrupted; --resume goes on with the search"
# What did not help may help on another stack; what failed or was far slower is not tried again.
HOPEFUL = (TrialOutcome.NO_GAIN, TrialOutcome.DROPPED)


@attrs.frozen
class SearchLook:
    """What a diagnosis of a stack gives a search: what bounds it, and what is worth trying."""

    bound: BoundStep
    candidates: tuple[TuneCandidate, ...]
    not_tried: tuple[NotTried, ...]


@attrs.frozen
class Attempted:
    """What became of a candidate on a stack, of which each part of a step took such a share."""

    stack: Stack
    outcome: TrialOutcome
    ratio: float | None
    shares: Mapping[str, float]


@attrs.define(kw_only=True, eq=False)
class GreedySearch:
    """The search of one command. After `go`, `best` is the stack that it found.

    :param look: diagnoses a stack.
    :param attempt: makes a trial; failures are results, and only Ctrl-C is raised.
    :param log: keeps each trial, and gives those of earlier searches back.
    :param elapsed: returns the seconds that the search has taken, those before a resume too.
    :param known: the traits of all installed plugins.
    :param owners: the plugins that build a strategy.
    """

    look: Callable[[Stack], SearchLook]
    attempt: Callable[[StackTrial, OnPair], StackTrial]
    log: SearchLog
    elapsed: Callable[[], float]
    budget: float
    known: Mapping[str, Traits]
    owners: frozenset[str] = frozenset()
    observer: SearchObserver = lambda event: None
    best: Stack = ()
    bounds: list[BoundStep] = attrs.field(factory=list)
    trials: list[StackTrial] = attrs.field(factory=list)
    not_tried: dict[str, NotTried] = attrs.field(factory=dict)
    warnings: list[str] = attrs.field(factory=list)
    interrupted: bool = False
    why_ended: str = ""
    _tried: dict[str, list[Attempted]] = attrs.field(factory=dict)
    _chosen: dict[str, TuneCandidate] = attrs.field(factory=dict)
    _candidates: Sequence[TuneCandidate] = ()
    _ctrl_c: HoldInterrupt = attrs.field(factory=HoldInterrupt)

    def go(self) -> None:
        """Search until nothing more helps, the budget's part is used up, or Ctrl-C.

        :raises TfoptError: if the baseline cannot be diagnosed.
        """
        try:
            # it ends a diagnosis or a trial; what follows from one that has ended is done whole
            with self._ctrl_c:
                self._forward()
                self._drop_one()
        except KeyboardInterrupt:
            self.interrupted, self.why_ended = True, INTERRUPTED
            self._leave_out("interrupted before a trial of it ended")

    # Forward

    def _forward(self) -> None:
        self._diagnose()
        while True:
            before = self.best
            self._add_together()
            # what was measured as the better on an earlier stack is tried first on this one
            for candidate in sorted(self._candidates, key=self._promise):
                if not self._worth_trying(candidate):
                    continue
                if not self._add(candidate):
                    self._leave_out(self.why_ended)
                    return
            if self.best == before:
                return
            # what bounds a step is another part now
            try:
                self._diagnose()
            except TfoptError as error:
                self.warnings.append(f"the best stack could not be diagnosed: {error}")
                return

    def _diagnose(self) -> None:
        """Diagnose the best stack: what bounds it, and which candidates there are on it."""
        with self._ctrl_c.lifted():
            looked = self.look(self.best)
        self.bounds.append(looked.bound)
        self._candidates = looked.candidates
        for one in looked.not_tried:
            if one.plugin not in self.not_tried:
                self._not_tried(one.plugin, one.reason)
        waiting = [one for one in self._candidates if self._worth_trying(one)]
        self.observer(BoundsFound(looked.bound, len(waiting), looked.not_tried))

    def _worth_trying(self, candidate: TuneCandidate) -> bool:
        """Return whether a candidate may gain on the best stack and was not tried on it."""
        if candidate.plugin in [one.name for one in self.best]:
            return False
        if candidate.bound < LEAST_RATIO:
            self._not_tried(candidate.plugin, f"it can gain {candidate.bound:.2f}x at most here")
            return False
        earlier = self._tried.get(candidate.plugin, [])
        if not earlier:
            return True
        last = earlier[-1]
        if last.outcome not in HOPEFUL or any(one.stack == self.best for one in earlier):
            return False
        # where what it is for takes a larger share of a step than it took when it did not help;
        # what no diagnosis bounds may always gain
        shares = self.bounds[-1].shares
        known = set(candidate.traits.targets) & set(shares) & set(last.shares)
        grown = any(shares[part] > last.shares[part] for part in known)
        return grown or not known or math.isinf(candidate.bound)

    def _promise(self, candidate: TuneCandidate) -> tuple[bool, float]:
        """Return the key that sorts what was not tried first, then by what was measured last."""
        earlier = self._tried.get(candidate.plugin)
        return bool(earlier), -(earlier[-1].ratio or 0.0) if earlier else 0.0

    def _add(self, candidate: TuneCandidate) -> bool:
        """Try a candidate on top of the best stack. Return False if no time is left for it."""
        place = placed(candidate, self.best, self.known, self.owners)
        if place.why_not:
            self._not_tried(candidate.plugin, place.why_not)
            return True
        plan = StackTrial(
            action="add", plugin=candidate.plugin, stack=place.stack, without=self.best,
            replaces=place.replaces,
        )  # fmt: skip
        self.why_ended = self._why_not_begin(plan, FORWARD_SHARE)
        if self.why_ended:
            return False
        trial = self._made(plan)
        if trial.outcome is TrialOutcome.REFUSED:
            for anew in self._plans_anew(plan):
                if self._why_not_begin(anew, FORWARD_SHARE):
                    break
                trial = self._made(anew)
                if trial.outcome is TrialOutcome.IN:
                    break
        no_effect = candidate.plugin in trial.left_out
        outcome = TrialOutcome.NOT_APPLIED if no_effect else trial.outcome
        self._note(candidate.plugin, outcome, trial.ratio)
        self._settle(trial)
        return True

    def _note(self, plugin: str, outcome: TrialOutcome, ratio: float | None) -> None:
        attempted = Attempted(self.best, outcome, ratio, self.bounds[-1].shares)
        self._tried.setdefault(plugin, []).append(attempted)

    def _add_together(self) -> None:
        """Try all proposed plugins that can stand together in one trial, then the exact ones of
        them if that did not help.

        One after the other they take most of the budget. Exact ones have nothing to prove of the
        quality, and many are for the input, whose waits are noise in all other trials.
        """
        proposed = [
            one for one in self._candidates
            if one.proposed and one.plugin not in self._tried and self._worth_trying(one)
        ]  # fmt: skip
        for group in (proposed, [one for one in proposed if one.is_exact]):
            stack, names = joined(group, self.best, self.known, self.owners)
            if len(names) < 2 or not self._is_new(stack):
                continue
            plan = StackTrial(
                action="add", plugin=names[0], joined_by=names[1:], stack=stack, without=self.best
            )
            if self._why_not_begin(plan, FORWARD_SHARE):
                return
            trial = self._made(plan)
            for name in trial.left_out:
                self._note(name, TrialOutcome.NOT_APPLIED, None)
            self._settle(trial)
            if trial.outcome is TrialOutcome.IN:
                return

    def _settle(self, trial: StackTrial) -> None:
        """Go on with the stack of a trial if its plugins help."""
        if trial.outcome is not TrialOutcome.IN:
            return
        before = [one.name for one in self.best]
        self.best = trial.stack
        added = {one.name for one in self.best if one.name not in before}
        self._chosen |= {one.plugin: one for one in self._candidates if one.plugin in added}

    def _is_new(self, stack: Stack) -> bool:
        """Return whether these plugins were not tried together yet."""
        names = {one.name for one in stack}
        return all(
            names != {*(one.name for one in trial.stack), *trial.left_out}
            for trial in self.trials if trial.joined_by or trial.left_out
        )  # fmt: skip

    def _plans_anew(self, plan: StackTrial) -> Iterator[StackTrial]:
        """Yield trials of a plugin that was refused, with the settings of the stack open again.

        The other plugins chose their settings, such as XLA, without it. The first trial adds all
        proposed plugins that conflict with the same: each alone may gain less than XLA does.

        :param plan: the trial that was refused.
        """
        opened = tuple(
            attrs.evolve(one, settings=self._chosen[one.name].settings)
            if one.name in self._chosen else one
            for one in plan.stack
        )  # fmt: skip
        if opened == plan.stack:
            return
        shut_out = set(self.known[plan.plugin].conflicts)
        refusing = [
            one for one in self._candidates
            if one.proposed and shut_out & set(one.traits.conflicts)
            and one.bound >= LEAST_RATIO and not self._is_broken(one)
        ]  # fmt: skip
        stack, names = joined(refusing, opened, self.known, self.owners)
        if names and self._is_new(stack):
            yield attrs.evolve(plan, stack=stack, joined_by=names)
        yield attrs.evolve(plan, stack=opened)

    def _is_broken(self, candidate: TuneCandidate) -> bool:
        """Return whether no trial of a candidate could be measured."""
        earlier = self._tried.get(candidate.plugin, [])
        return bool(earlier) and not any(one.outcome.measured for one in earlier)

    def _leave_out(self, reason: str) -> None:
        """List the candidates of the last look that wait for their first trial."""
        for candidate in self._candidates:
            if candidate.plugin not in self._tried and self._worth_trying(candidate):
                self._not_tried(candidate.plugin, reason)

    def _not_tried(self, plugin: str, reason: str) -> None:
        """List a plugin as not tried, unless a trial of it, on an earlier stack, is listed."""
        if not any(plugin in one.plugins for one in self.trials):
            self.not_tried[plugin] = NotTried(plugin=plugin, reason=reason)

    # Taking out

    def _drop_one(self) -> None:
        """Take each plugin of the winner out in turn.

        Those that went in only together with others come first; within each group those that can
        gain least, then the latest.
        """
        alone = {
            one.plugin
            for one in self.trials
            if one.outcome is TrialOutcome.IN and not one.joined_by
        }
        latest_first = [one.name for one in reversed(self.best)]
        for name in sorted(latest_first, key=lambda one: (one in alone, self._chosen[one].bound)):
            rest = without(name, self.best, self.known)
            if not rest or name not in [one.name for one in self.best]:
                # of one plugin alone the fresh pairs decide
                continue
            plan = StackTrial(action="drop", plugin=name, stack=self.best, without=rest)
            why = self._why_not_begin(plan, SEARCH_SHARE)
            if why:
                self.why_ended = self.why_ended or why
                return
            if self._made(plan).outcome is TrialOutcome.DROPPED:
                self.best = rest

    # Trials

    def _made(self, plan: StackTrial) -> StackTrial:
        """Make a trial, or take it from an earlier search. Return it, once it is in the log."""
        key = key_of(plan)
        trial = self.log.kept(key)
        if trial is None:
            self.observer(TrialBegun(plan, self._left()))
            with self._ctrl_c.lifted():
                trial = self.attempt(plan, self.observer)
        self.log.add(key, trial)
        self.trials.append(trial)
        for name in trial.plugins:
            self.not_tried.pop(name, None)
        for name, reason in trial.left_out.items():
            self._not_tried(name, f"it takes no effect: {reason}")
        self.observer(TrialEnded(trial, self._left()))
        return trial

    def _left(self) -> float:
        return max(0.0, self._until(SEARCH_SHARE) - self.elapsed())

    def _until(self, share: float) -> float:
        """Return the seconds of the search by which a trial must be expected to end.

        The fresh pairs that a verdict needs are left the time that so many pairs of the trials
        took: for a slow training that is more than the rest of the budget.
        """
        pairs = [one.seconds / one.pairs for one in self.trials if one.pairs]
        if not self.best or not pairs:
            return share * self.budget
        return min(share * self.budget, self.budget - PAIRS * median(pairs))

    def _why_not_begin(self, plan: StackTrial, share: float) -> str:
        """Return why a trial does not begin; empty if it may. A kept trial takes no time."""
        if self.log.kept(key_of(plan)) is not None:
            return ""
        # a trial takes about as long as those before it, failed ones too
        ends = self.elapsed() + median([one.seconds for one in self.trials] or [0.0])
        if ends >= self._until(share):
            return f"no trial fits what is left of the search's part of the budget; {GOES_ON}"
        if not self.best and self.trials and ends >= NOTHING_SHARE * self.budget:
            return f"nothing that fits a third of the budget helped; {GOES_ON}"
        return ""
