"""Search greedily: plugins together, then one after another on top of the best stack, then each
taken out again.

No global search over all orders and subsets: a stack that is best in each step is found in a number
of trials that grows with the plugins, not with their combinations.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import attrs

from tfopt_core.errors import TfoptError
from tfopt_core.hooks.installed.suggest import Suggestion
from tfopt_core.recipe.model import PAIRS
from tfopt_core.statistics.intervals import seconds_in_words
from tfopt_core.tuning.candidates import SearchSpace, joined, placed, without
from tfopt_core.tuning.context import SearchContext
from tfopt_core.tuning.results import Stack, StackTrial, TrialOutcome, TunedPlugin, TuneResult
from tfopt_core.tuning.search_log import key_of
from tfopt_core.tuning.trials import LEAST_RATIO
from tfopt_core.workers.interrupts import HoldInterrupt

# The parts of the budget by which a trial of a further plugin must be expected to end, and any
# trial; the rest is for the fresh pairs.
FORWARD_SHARE, SEARCH_SHARE = 0.65, 0.75
# Where nothing has helped in the trials that end by then, nothing is expected to.
NOTHING_SHARE = 1 / 3
GOES_ON = "the same command with a larger --budget goes on from there"
INTERRUPTED = "interrupted; --resume goes on with the search"


@attrs.define(eq=False)
class GreedySearch:
    """The search of stacks of one command, which fills in the result.

    :param look: diagnoses a stack.
    :param attempt: makes a trial; failures are results, and only Ctrl-C is raised.
    :param budget: the seconds of the whole search that are for stacks, with their proof.
    """

    tune: SearchContext
    look: Callable[[Stack], SearchSpace]
    attempt: Callable[[StackTrial], StackTrial]
    budget: float
    result: TuneResult
    not_tried: dict[str, str] = attrs.field(factory=dict)
    _tried: set[str] = attrs.field(factory=set)
    _seen: dict[str, Suggestion] = attrs.field(factory=dict)
    _waiting: list[Suggestion] = attrs.field(factory=list)
    _proposed: frozenset[str] = frozenset()
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
                        self.result.warnings.append(
                            f"the best stack could not be diagnosed: {error}"
                        )
                        break
                self._drop_one()
        except KeyboardInterrupt:
            self.result.interrupted, self.result.why_ended = True, INTERRUPTED
            self._leave_out("interrupted before a trial of it ended", *self._untried)

    # Forward

    def _diagnose(self) -> None:
        """Diagnose the best stack: what bounds it, and which candidates wait for a trial on it."""
        with self._ctrl_c.lifted():
            space = self.look(self.result.stack)
        self.result.bounds.append(space.bound)
        self.result.baseline = self.result.baseline or space.baseline
        self._proposed = space.proposed
        self._seen = {**{one.plugin: one for one in space.candidates}, **self._seen}
        for plugin, reason in space.not_tried.items():
            if plugin not in self.not_tried:
                self._leave_out(reason, plugin)
        self._waiting = []
        for one in space.candidates:
            if one.most < LEAST_RATIO:
                self._leave_out(f"it can gain {one.most:.2f}x at most here", one.plugin)
            elif one.plugin not in self._tried:
                self._waiting.append(one)
        on = f"with {', '.join(space.bound.stack)}: " if space.bound.stack else ""
        left_out = f"{len(self._waiting)} plugins to try, {len(space.not_tried)} left out"
        self.tune.observer(f"{on}{space.bound.sentence}; {left_out}")

    def _forward(self) -> bool:
        """Try what waits. Return whether something went in, and there is time to go on."""
        before = self.result.stack
        self._add_together()
        for one in self._waiting:
            in_stack = one.plugin in [other.name for other in self.result.stack]
            if not in_stack and one.plugin not in self._tried and not self._add(_opened(one)):
                self._leave_out(self.result.why_ended, *self._untried)
                return False
        return self.result.stack != before

    @property
    def _untried(self) -> list[str]:
        """The candidates that wait for their first trial."""
        return [one.plugin for one in self._waiting if one.plugin not in self._tried]

    def _add_together(self) -> None:
        """Try all proposed plugins that can stand together in one trial, then the exact ones of
        them if that did not help.

        One after the other they take most of the budget. Exact ones have nothing to prove of the
        quality, and many are for the input, whose waits are noise in all other trials.
        """
        proposed = [one for one in self._waiting if one.plugin in self._proposed]
        earlier: tuple[str, ...] = ()
        for group in (proposed, [one for one in proposed if one.is_exact]):
            untried = (_opened(one) for one in group if one.plugin not in self._tried)
            plan = joined(untried, self.result.stack, self.tune)
            if plan is None or plan.plugins == earlier:
                continue
            if self._why_not_begin(plan, FORWARD_SHARE):
                return
            trial = self._made(plan)
            self._tried |= trial.left_out.keys()
            if trial.outcome is TrialOutcome.IN:
                return
            earlier = trial.plugins

    def _add(self, plugin: TunedPlugin) -> bool:
        """Try a plugin on top of the best stack. Return False if no time is left for it."""
        plan = placed(plugin, self.result.stack, self.tune)
        if isinstance(plan, str):
            self._leave_out(plan, plugin.name)
            return True
        self.result.why_ended = self._why_not_begin(plan, FORWARD_SHARE)
        if self.result.why_ended:
            return False
        trial = self._made(plan)
        self._tried.add(plugin.name)
        # the others chose their settings, such as XLA, without it
        opened = tuple(_opened(self._seen[one.name]) for one in plan.stack)
        if trial.outcome is TrialOutcome.REFUSED and opened != plan.stack:
            anew = attrs.evolve(plan, stack=opened)
            if not self._why_not_begin(anew, FORWARD_SHARE):
                self._made(anew)
        return True

    def _leave_out(self, reason: str, *plugins: str) -> None:
        """List plugins as not tried, unless a trial of them, on an earlier stack, is listed."""
        tried = {name for one in self.result.trials for name in one.plugins}
        self.not_tried |= {name: reason for name in plugins if name not in tried}

    # Taking out

    def _drop_one(self) -> None:
        """Take each plugin of the winner out in turn.

        Those that went in only together with others come first; within each group those that can
        gain least, then the latest.
        """
        alone = {
            one.plugin
            for one in self.result.trials
            if one.outcome is TrialOutcome.IN and not one.joined_by
        }
        latest_first = [one.name for one in reversed(self.result.stack)]
        for name in sorted(latest_first, key=lambda one: (one in alone, self._seen[one].most)):
            rest = without(name, self.result.stack, self.tune)
            if not rest or name not in [one.name for one in self.result.stack]:
                # of one plugin alone the fresh pairs decide
                continue
            plan = StackTrial(action="drop", plugin=name, stack=self.result.stack, without=rest)
            why = self._why_not_begin(plan, SEARCH_SHARE)
            if why:
                self.result.why_ended = self.result.why_ended or why
                return
            if self._made(plan).outcome is TrialOutcome.DROPPED:
                self.result.stack = rest

    # Trials

    def _made(self, plan: StackTrial) -> StackTrial:
        """Make a trial, or take it from an earlier search, and go on with its stack if that helps.
        Return it, once it is in the log."""
        key = key_of(plan)
        trial = self.tune.log.kept(key)
        if trial is None:
            verb = "taking out" if plan.action == "drop" else "trying"
            left = seconds_in_words(max(0.0, self._until(SEARCH_SHARE) - self.tune.elapsed()))
            self.tune.observer(
                f"{verb} {' + '.join(plan.plugins)}"
                + (f" beside {', '.join(plan.beside)}" if plan.beside else "")
                + f", {left} left to search"
            )
            with self._ctrl_c.lifted():
                trial = self.attempt(plan)
        self.tune.log.add(key, trial)
        self.result.trials.append(trial)
        for name in trial.plugins:
            self.not_tried.pop(name, None)
        for name, reason in trial.left_out.items():
            self._leave_out(f"it takes no effect: {reason}", name)
        if trial.outcome is TrialOutcome.IN:
            self.result.stack = trial.stack
        self.tune.observer(trial)
        return trial

    def _until(self, share: float) -> float:
        """Return the seconds of the search by which a trial must be expected to end.

        The fresh pairs that a verdict needs are left the time that so many pairs of the trials
        took: for a slow training that is more than the rest of the budget.
        """
        pairs = [one.seconds / one.pairs for one in self.result.trials if one.pairs]
        if not self.result.stack or not pairs:
            return share * self.budget
        return min(share * self.budget, self.budget - PAIRS * median(pairs))

    def _why_not_begin(self, plan: StackTrial, share: float) -> str:
        """Return why a trial does not begin; empty if it may. A kept trial takes no time."""
        if self.tune.log.kept(key_of(plan)) is not None:
            return ""
        # a trial takes about as long as those before it, failed ones too
        ends = self.tune.elapsed() + median([one.seconds for one in self.result.trials] or [0.0])
        if ends >= self._until(share):
            return f"no trial fits what is left of the search's part of the budget; {GOES_ON}"
        if not self.result.stack and self.result.trials and ends >= NOTHING_SHARE * self.budget:
            return f"nothing that fits a third of the budget helped; {GOES_ON}"
        return ""


def _opened(one: Suggestion) -> TunedPlugin:
    """Return a plugin with its settings before any "auto" is resolved."""
    return TunedPlugin(name=one.plugin, settings=one.settings)
