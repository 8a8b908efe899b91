"""Search greedily: plugins together, then one after another on top of the best stack, then each
taken out again.

No global search over all orders and subsets: a stack that is best in each step is found in a number
of trials that grows with the plugins, not with their combinations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median

import attrs

from tfopt_core.errors import TfoptError
from tfopt_core.hooks.card import Traits
from tfopt_core.recipe.model import PAIRS
from tfopt_core.statistics.intervals import seconds_in_words
from tfopt_core.tuning.candidates import TuneCandidate
from tfopt_core.tuning.context import SearchObserver
from tfopt_core.tuning.results import BoundStep, NotTried, StackTrial, TrialOutcome
from tfopt_core.tuning.search_log import SearchLog, key_of
from tfopt_core.tuning.stacks import Stack, joined, placed, without
from tfopt_core.tuning.trials import LEAST_RATIO
from tfopt_core.workers.interrupts import HoldInterrupt

# The parts of the budget by which a trial of a further plugin must be expected to end, and any
# trial; the rest is for the fresh pairs.
FORWARD_SHARE, SEARCH_SHARE = 0.65, 0.75
# Where nothing has helped in the trials that end by then, nothing is expected to.
NOTHING_SHARE = 1 / 3
GOES_ON = "the same command with a larger --budget goes on from there"
INTERRUPTED = "interrupted; --resume goes on with the search"


@attrs.frozen
class SearchLook:
    """What a diagnosis of a stack gives a search: what bounds it, and what is worth trying."""

    bound: BoundStep
    candidates: tuple[TuneCandidate, ...]
    not_tried: tuple[NotTried, ...]


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
    attempt: Callable[[StackTrial], StackTrial]
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
    _tried: set[str] = attrs.field(factory=set)
    _seen: dict[str, TuneCandidate] = attrs.field(factory=dict)
    _waiting: list[TuneCandidate] = attrs.field(factory=list)
    _ctrl_c: HoldInterrupt = attrs.field(factory=HoldInterrupt)

    def go(self) -> None:
        """Search until nothing more helps, the budget's part is used up, or Ctrl-C.

        :raises TfoptError: if the baseline cannot be diagnosed.
        """
        try:
            # it ends a diagnosis or a trial; what follows from one that has ended is done whole
            with self._ctrl_c:
                self._diagnose()
                # what bounds a step of another stack is another part, which others are for
                while self._forward():
                    try:
                        self._diagnose()
                    except TfoptError as error:
                        self.warnings.append(f"the best stack could not be diagnosed: {error}")
                        break
                self._drop_one()
        except KeyboardInterrupt:
            self.interrupted, self.why_ended = True, INTERRUPTED
            self._leave_out("interrupted before a trial of it ended")

    # Forward

    def _diagnose(self) -> None:
        """Diagnose the best stack: what bounds it, and which candidates wait for a trial on it."""
        with self._ctrl_c.lifted():
            looked = self.look(self.best)
        self.bounds.append(looked.bound)
        self._seen = {**{one.plugin: one for one in looked.candidates}, **self._seen}
        for one in looked.not_tried:
            if one.plugin not in self.not_tried:
                self._not_tried(one.plugin, one.reason)
        self._waiting = []
        for candidate in looked.candidates:
            if candidate.bound < LEAST_RATIO:
                most = f"it can gain {candidate.bound:.2f}x at most here"
                self._not_tried(candidate.plugin, most)
            elif candidate.plugin not in self._tried:
                self._waiting.append(candidate)
        on = f"with {', '.join(looked.bound.stack)}: " if looked.bound.stack else ""
        left_out = f"{len(self._waiting)} plugins to try, {len(looked.not_tried)} left out"
        self.observer(f"{on}{looked.bound.sentence}; {left_out}")

    def _forward(self) -> bool:
        """Try what waits. Return whether something went in, and there is time to go on."""
        before = self.best
        self._add_together()
        for candidate in self._waiting:
            in_stack = candidate.plugin in [one.name for one in self.best]
            if not in_stack and candidate.plugin not in self._tried and not self._add(candidate):
                self._leave_out(self.why_ended)
                return False
        return self.best != before

    def _add_together(self) -> None:
        """Try all proposed plugins that can stand together in one trial, then the exact ones of
        them if that did not help.

        One after the other they take most of the budget. Exact ones have nothing to prove of the
        quality, and many are for the input, whose waits are noise in all other trials.
        """
        proposed = [one for one in self._waiting if one.proposed]
        earlier: tuple[str, ...] = ()
        for group in (proposed, [one for one in proposed if one.is_exact]):
            untried = [one for one in group if one.plugin not in self._tried]
            stack, names = joined(untried, self.best, self.known, self.owners)
            if len(names) < 2 or names == earlier:
                continue
            plan = StackTrial(
                action="add", plugin=names[0], joined_by=names[1:], stack=stack, without=self.best
            )
            if self._why_not_begin(plan, FORWARD_SHARE):
                return
            trial = self._made(plan)
            self._tried |= trial.left_out.keys()
            if trial.outcome is TrialOutcome.IN:
                return
            earlier = trial.plugins

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
        self._tried.add(candidate.plugin)
        # the others chose their settings, such as XLA, without it
        opened = tuple(
            attrs.evolve(one, settings=self._seen[one.name].settings) for one in plan.stack
        )
        if trial.outcome is TrialOutcome.REFUSED and opened != plan.stack:
            anew = attrs.evolve(plan, stack=opened)
            if not self._why_not_begin(anew, FORWARD_SHARE):
                self._made(anew)
        return True

    def _leave_out(self, reason: str) -> None:
        """List the candidates that wait for their first trial."""
        for candidate in self._waiting:
            if candidate.plugin not in self._tried:
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
        for name in sorted(latest_first, key=lambda one: (one in alone, self._seen[one].bound)):
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
        """Make a trial, or take it from an earlier search, and go on with its stack if that helps.
        Return it, once it is in the log."""
        key = key_of(plan)
        trial = self.log.kept(key)
        if trial is None:
            verb = "taking out" if plan.action == "drop" else "trying"
            left = seconds_in_words(max(0.0, self._until(SEARCH_SHARE) - self.elapsed()))
            self.observer(
                f"{verb} {' + '.join(plan.plugins)}"
                + (f" beside {', '.join(plan.beside)}" if plan.beside else "")
                + f", {left} left to search"
            )
            with self._ctrl_c.lifted():
                trial = self.attempt(plan)
        self.log.add(key, trial)
        self.trials.append(trial)
        for name in trial.plugins:
            self.not_tried.pop(name, None)
        for name, reason in trial.left_out.items():
            self._not_tried(name, f"it takes no effect: {reason}")
        if trial.outcome is TrialOutcome.IN:
            self.best = trial.stack
        self.observer(trial)
        return trial

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
