"""Searches over plugins of known effects on a noisy machine, made as a session makes them."""

import math
from collections.abc import Callable
from pathlib import Path

import attrs
import numpy as np

from support.drafts import suggestion
from support.measure_runs import make_request
from tfopt_core.hooks.installed.inspection import PluginInfo
from tfopt_core.hooks.installed.suggest import Suggestion
from tfopt_core.hooks.plugin_class import Traits
from tfopt_core.recipe.model import Recipe, WorkloadSpec
from tfopt_core.tuning.candidates import SearchSpace
from tfopt_core.tuning.context import SearchContext, TuneOptions
from tfopt_core.tuning.results import (
    BoundStep,
    Stack,
    StackTrial,
    TrialOutcome,
    TunedPlugin,
    TuneResult,
)
from tfopt_core.tuning.search import GreedySearch
from tfopt_core.tuning.search_log import SearchLog
from tfopt_core.tuning.trials import decided

PLAIN = Traits((), "optimization", "none", (), (), (), ())


def traits_of(**changes) -> Traits:
    """The traits of a plugin that is compatible with all others, with these changes."""
    return attrs.evolve(PLAIN, **changes)


@attrs.frozen
class Candidate:
    """A plugin with what it suggests; `proposed` says whether it answered the diagnosis."""

    suggestion: Suggestion
    traits: Traits = PLAIN
    proposed: bool = False


def candidate(
    name: str, bound: float = 2.0, traits: Traits = PLAIN, *, proposed=False, equivalence="rounding"
) -> Candidate:
    """A candidate with a bound, which rounds otherwise."""
    suggested = suggestion(name, bound=bound, targets=(), equivalence=equivalence)
    return Candidate(suggested, traits, proposed)


def make_tune(folder: Path = Path(), traits: dict[str, Traits] | None = None, **given):
    """What all steps of a search share, with installed plugins of these traits."""
    recipe = given.pop("recipe", None) or Recipe(name="r", workload=WorkloadSpec(use="flights"))
    request = make_request(recipe=recipe, folder=folder / "search")
    installed = tuple(PluginInfo(name=name, traits=one) for name, one in (traits or {}).items())
    return SearchContext(**{
        "request": request, "options": TuneOptions(target="here"), "objective": "time",
        "budget": 60.0, "installed": installed, "proof_path": folder / "r.tuned.toml",
        "runner": None, "trial_runner": None, "store": None, **given,
    })  # fmt: skip


def names_of(stack: Stack) -> tuple[str, ...]:
    """The names of the plugins of a stack."""
    return tuple(one.name for one in stack)


@attrs.define(eq=False)
class SimulatedMachine:
    """Trains stacks in no time: each plugin divides the time of a run by its factor.

    :param factors: the factor of each plugin, or what becomes of its trial; one that is not
        applied is left out of a trial with others.
    :param together: factors of plugins that stand together, such as two that do the same.
    :param noise: the standard deviation of the logarithm of a run's seconds.
    :param run_seconds: what a run takes of the search's time.
    :param resolved: gives a stack with the settings that its plugins choose, None if one of them
        refuses it.
    :param interrupt_at: the number of the trial in which Ctrl-C is pressed; None for never.
    """

    factors: dict[str, float | TrialOutcome]
    source: np.random.Generator
    together: dict[frozenset[str], float] = attrs.field(factory=dict)
    noise: float = 0.02
    run_seconds: float = 1.0
    resolved: Callable[[Stack], Stack | None] = lambda stack: stack
    interrupt_at: int | None = None
    now: float = 0.0
    plans: list[StackTrial] = attrs.field(factory=list)

    def seconds(self, stack: Stack) -> float:
        """What a training with this stack takes without noise."""
        names = set(names_of(stack))
        found = [self.factors[name] for name in names]
        found += [factor for group, factor in self.together.items() if group <= names]
        return 10.0 / math.prod(factor for factor in found if isinstance(factor, float))

    def attempt(self, plan: StackTrial) -> StackTrial:
        """Make a trial as a `TrialMaker` does."""
        self.plans.append(plan)
        if self.interrupt_at is not None and len(self.plans) > self.interrupt_at:
            raise KeyboardInterrupt
        trial = attrs.evolve(plan, reason="it broke", seconds=1.0)
        stack = self.resolved(plan.stack)
        if stack is None:
            return attrs.evolve(trial, outcome=TrialOutcome.REFUSED)
        trial = attrs.evolve(trial, stack=stack)
        ends = {name: self.factors[name] for name in plan.plugins}
        gone = {name: "it broke" for name in ends if ends[name] is TrialOutcome.NOT_APPLIED}
        plugin, *joined_by = [name for name in ends if name not in gone] or plan.plugins
        if isinstance(ends[plugin], TrialOutcome):
            return attrs.evolve(trial, outcome=ends[plugin])
        trial = attrs.evolve(
            trial, plugin=plugin, joined_by=tuple(joined_by), left_out=gone,
            stack=tuple(one for one in stack if one.name not in gone),
        )  # fmt: skip
        log_ratios: list[float] = []
        while True:
            sides = [self._run(stack) for stack in (plan.without, plan.stack)]
            log_ratios.append(math.log(sides[0] / sides[1]))
            if ended := decided(trial, log_ratios):
                return attrs.evolve(ended, seconds=2 * self.run_seconds * len(log_ratios))

    def _run(self, stack: Stack) -> float:
        self.now += self.run_seconds
        return self.seconds(stack) * float(np.exp(self.source.normal(0, self.noise)))


def make_search(
    machine: SimulatedMachine,
    folder: Path,
    candidates: list[Candidate],
    *,
    budget: float = 10_000.0,
    log: SearchLog | None = None,
    observer=lambda event: None,
    later: list[Candidate] = (),
) -> GreedySearch:
    """A search over these candidates; `later` are those that only a stack with plugins has."""
    every = [*candidates, *later]

    def look(stack: Stack) -> SearchSpace:
        return SearchSpace(
            bound=BoundStep(stack=names_of(stack), sentence="it", shares={}),
            candidates=tuple(one.suggestion for one in (every if stack else candidates)),
            proposed=frozenset(one.suggestion.plugin for one in every if one.proposed),
            not_tried={},
        )

    tune = make_tune(
        folder, {one.suggestion.plugin: one.traits for one in every}, now=lambda: machine.now
    )
    tune.log = log or SearchLog.open(folder / "search", "here", {"CPU": "one"})
    tune.observer = observer
    result = TuneResult(id="x", recipe="r", workload="flights", budget_seconds=budget, machine={})
    return GreedySearch(tune, look, machine.attempt, budget, result)


def plugin(name: str, **settings) -> TunedPlugin:
    """A plugin of a stack."""
    return TunedPlugin(name=name, settings=settings)
