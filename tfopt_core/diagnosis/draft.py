"""Draft a recipe for a script that has none, from a diagnosis and from trying each plugin."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.diagnosis.recipe_seal import sealed
from tfopt_core.errors import PreparationFailed, RecipeError, TfoptError
from tfopt_core.hooks.diagnosis import PARTS
from tfopt_core.hooks.installed.suggest import Suggestion
from tfopt_core.recipe import WorkloadSpec
from tfopt_core.recipe.commented import commented_recipe
from tfopt_core.recipe.writing import PlannedPlugin
from tfopt_core.records.diagnosis import Diagnosed
from tfopt_core.records.estimate import Estimate
from tfopt_core.statistics.wording import bound_in_words

# As many pairs are made as fit, of runs cut short unless four pairs of whole ones are made soon.
BUDGET_SECONDS = 300.0
# Where steps are slow, the budget holds eight runs that trace and make a few steps each, but no
# more than half of a training. A script takes some seconds beside its fits.
RUNS, STEPS_A_RUN, BESIDE_SECONDS, SPARE, BUDGET_SHARE = 8, 4, 7.0, 1.2, 0.5
NOT_HOPEFUL = (
    "By the first steps none of the plugins that were tried saves time; the one that costs least "
    "is measured, as --measure-anyway asks."
)
# A plugin that saves a smaller share by its first steps is left out.
LEAST_GAIN = 0.03
# A smaller share is printed as 0%.
LEAST_SHARE = 0.005
# One-time costs vary by this much from start to start.
LEAST_SAVED_SECONDS = 0.25
# A plugin is tried for a share of a training's time, without the script's time before its fit,
# and left out if that is not enough.
TRY_SHARE, SHORTEST_TRY, LONGEST_TRY = 0.1, 20.0, 120.0
# On a busy machine, and where steps are slow, it takes longer to begin with: a trial builds and
# traces the training a few times, perhaps by XLA, and makes some steps. A look does as much.
TRY_STARTS, TRY_STEPS = 8.0, 12.0
# The time to try a plugin if the time of a training is unknown.
UNKNOWN_TRY = 60.0

Table = Mapping[str, Any]


@attrs.frozen
class LeftOut:
    """A proposed plugin that was left out, and why.

    :param estimate: the estimated time of a training with it, on top of the stack before it; None
        if it could not be tried or took no effect.
    """

    plugin: str
    reason: str
    estimate: Estimate | None = None


@attrs.frozen
class Draft:
    """The recipe of a first contact, before and after it was measured.

    :param script: the script or module, as the recipe names it.
    :param diagnosed: the diagnosis of the script.
    :param stack: the plugins that stay, in their order.
    :param hopeful: whether they seem to save time, by the first steps.
    """

    script: str
    workload: Table
    diagnosed: Diagnosed
    stack: tuple[Suggestion, ...]
    left_out: tuple[LeftOut, ...] = ()
    measure: Table = attrs.field(factory=dict)
    hopeful: bool = True

    def without(self, plugin: str, reason: str, estimate: Estimate | None = None) -> Draft:
        """Return the draft without a plugin.

        :param estimate: as `LeftOut` has it.
        """
        return attrs.evolve(
            self,
            stack=tuple(item for item in self.stack if item.plugin != plugin),
            left_out=(*self.left_out, LeftOut(plugin, reason, estimate)),
        )

    def text(self, outcome: Sequence[str] = ()) -> str:
        """Return the text of the recipe file.

        :param outcome: the result of measuring it, in sentences.
        """
        body = commented_recipe(
            name=WorkloadSpec(**self.workload).stem,
            description=f"What may make {Path(self.script).name} train faster, as tfopt proposed.",
            workload=self.workload,
            plugins=[
                *(PlannedPlugin(item.plugin, item.settings, why_chosen(item, self.diagnosed))
                  for item in self.stack),
                *(PlannedPlugin(left.plugin, {}, f"left out: {left.reason}", enabled=False)
                  for left in self.left_out),
            ],
            measure=self.measure,
            heading=[*self._heading(), *([""] if outcome else []), *outcome],
        )  # fmt: skip
        return sealed(body)

    def _heading(self) -> Iterator[str]:
        step = f"{self.diagnosed.step_seconds * 1e3:.3g} ms"
        is_module = "module" in self.workload
        command = f'"python -m {self.script}"' if is_module else Path(self.script).name
        shares = ", ".join(f"{share:.0%} {part}" for part, share in shares_of(self.diagnosed))
        what = "an update in its own loop" if self.diagnosed.own_loop else "a step of its fit"
        yield (
            f"Written by `tfopt apply {command}`: {what} took {step} "
            f"({shares}). Measure it again with `tfopt apply` and this file; every line may be "
            "changed."
        )
        if not self.hopeful:
            yield NOT_HOPEFUL


def shares_of(diagnosed: Diagnosed) -> list[tuple[str, float]]:
    """Return the parts of a step with their shares; what is not told apart is one part."""
    shares = [(part, getattr(diagnosed, part).share) for part in PARTS]
    if diagnosed.dispatch_known:
        return shares
    together = sum(share for part, share in shares if part != "input")
    return [shares[0], ("dispatch and compute", together)]


def draft_of(
    diagnosed: Diagnosed, spec: WorkloadSpec, budget: str | None, pairs: int | None
) -> Draft:
    """Return the recipe that a diagnosis proposes."""
    measure: dict[str, Any] = {}
    if pairs is None and budget is None:
        measure = {"budget": f"{math.ceil(budget_seconds(diagnosed.estimate) / 60)}m"}
    if pairs is not None:
        measure["pairs"] = pairs
    if budget is not None:
        measure["budget"] = budget
    return Draft(spec.label, spec.to_dict(), diagnosed, proposed(diagnosed), measure=measure)


def budget_seconds(estimate: Estimate | None) -> float:
    """Return the budget of a measurement for which the user names none.

    :param estimate: the estimate for a training without plugins; None if unknown.
    """
    if estimate is None:
        return BUDGET_SECONDS
    run = BESIDE_SECONDS + estimate.set_up_seconds + STEPS_A_RUN * estimate.step_seconds
    return max(BUDGET_SECONDS, min(SPARE * RUNS * run, BUDGET_SHARE * estimate.seconds))


def proposed(diagnosed: Diagnosed) -> tuple[Suggestion, ...]:
    """Return the suggestions that can be stacked together, in their order."""
    by_name = {suggestion.plugin: suggestion for suggestion in diagnosed.suggestions}
    return tuple(by_name[name] for name in diagnosed.proposed_stack if name in by_name)


def why_chosen(suggestion: Suggestion, diagnosed: Diagnosed) -> str:
    """Return what a plugin is for and the most that it can gain here."""
    parts = [f"{suggestion.summary.rstrip('.')}."] if suggestion.summary else []
    shares = [
        f"{share:.0%} of a step is {part}"
        for part, share in shares_of(diagnosed)
        if share >= LEAST_SHARE and not set(part.split()).isdisjoint(suggestion.targets)
    ]
    if shares:
        bound = bound_in_words(suggestion.bound)
        most = f", so at most about {bound}" if bound else ""
        parts.append(f"Here {' and '.join(shares)}{most}.")
    return " ".join(parts)


def try_seconds(estimate: Estimate | None, look_seconds: float = 0.0) -> float:
    """Return how many seconds a plugin may be tried for.

    :param estimate: the estimate for a training without plugins; None if unknown.
    :param look_seconds: what timing the training without plugins took on this machine.
    """
    if estimate is None:
        return max(UNKNOWN_TRY, look_seconds)
    steps = TRY_STEPS * estimate.step_seconds
    start = TRY_STARTS * estimate.set_up_seconds
    share = min(max(TRY_SHARE * estimate.seconds, SHORTEST_TRY), LONGEST_TRY)
    return max(share, look_seconds, start + steps)


@attrs.frozen
class Tried:
    """The result of preparing a draft, and the estimated time of a training with it.

    :param estimate: None if the number of steps is unknown.
    """

    prepared: Any
    estimate: Estimate | None
    not_applied: Mapping[str, str]


def screened(
    draft: Draft,
    attempt: Callable[[Draft], Tried],
    on_try: Callable[[str], None],
    *,
    measure_anyway: bool = False,
) -> tuple[Draft, Tried | None]:
    """Return the draft with those plugins that seem to save time.

    Each is tried on top of those before it. This claims nothing: it decides what is worth
    measuring.

    :param attempt: prepares a draft.
    :param on_try: called with each plugin before it is tried.
    :param measure_anyway: if no plugin seems to save time, keep the one that costs least.
    :returns: the draft, and the result of preparing it; None if no plugin stays.
    """
    proposed_draft, best = draft, None
    cheapest: tuple[Suggestion, Tried] | None = None
    draft = attrs.evolve(draft, stack=())
    for suggestion in proposed_draft.stack:
        on_try(suggestion.plugin)
        candidate = attrs.evolve(draft, stack=(*draft.stack, suggestion))
        try:
            tried = attempt(candidate)
        except TfoptError as error:
            draft = draft.without(suggestion.plugin, _first_line(error))
            continue
        before = proposed_draft.diagnosed.estimate if best is None else best.estimate
        reason = _why_not(suggestion.plugin, tried, before)
        if not reason:
            draft, best = candidate, tried
            continue
        takes = None if suggestion.plugin in tried.not_applied else tried.estimate
        draft = draft.without(suggestion.plugin, reason, takes)
        if takes is not None and (cheapest is None or takes.seconds < _seconds(cheapest[1])):
            cheapest = (suggestion, tried)
    if best is None and cheapest is not None and measure_anyway:
        suggestion, best = cheapest
        left_out = tuple(left for left in draft.left_out if left.plugin != suggestion.plugin)
        draft = attrs.evolve(draft, stack=(suggestion,), left_out=left_out, hopeful=False)
    return draft, best


def _seconds(tried: Tried) -> float:
    assert tried.estimate is not None
    return tried.estimate.seconds


def what_bounds(diagnosed: Diagnosed) -> str:
    """Return a sentence on where most of a step goes, and the most that the rest can gain."""
    parts = dict(shares_of(diagnosed))
    largest = max(parts, key=lambda name: parts[name])
    share = parts[largest]
    sentence = (
        f"{share:.0%} of a step is {largest}: what shortens only the rest of it gains "
        f"{1 / share:.2f}x at most"
    )
    if largest != "compute" or diagnosed.own_loop:
        return sentence
    use = diagnosed.matmul
    if use.share_computing is not None:
        sentence += (
            f"; while it computes, the model reaches {use.share_computing:.0%} of this machine's "
            f"fastest {use.dtype} matrix products"
        )
    most = bound_in_words(diagnosed.bounds.compute_rounding)
    if most and diagnosed.roofline.fastest:
        sentence += (
            f"; at this machine's peak in {diagnosed.roofline.fastest} a step would be at most "
            f"about {most} faster"
        )
    return sentence


def _first_line(error: TfoptError) -> str:
    """Return the first line of the message, without a place in the drafted recipe."""
    if isinstance(error, RecipeError):
        return error.problems[0].message
    text = error.cause if isinstance(error, PreparationFailed) else str(error)
    return text.splitlines()[0]


def _why_not(plugin: str, tried: Tried, before: Estimate | None) -> str:
    """Return why a plugin does not stay on top of the best stack so far; empty if it does."""
    if plugin in tried.not_applied:
        return f"not applied: {tried.not_applied[plugin]}"
    now = tried.estimate
    if before is None or now is None:
        return ""
    if now.step_seconds > before.step_seconds * (1 - LEAST_GAIN):
        steps = f"{before.step_seconds * 1e3:.3g} ms to {now.step_seconds * 1e3:.3g} ms"
        return f"a step does not seem to become faster with it (from about {steps})"
    saved = (before.step_seconds - now.step_seconds) * now.steps
    if saved < LEAST_SAVED_SECONDS:
        return (
            f"steps are faster with it, which saves about {saved:.2g} s of a training: less than "
            "what one start and the next differ by"
        )
    if now.seconds > before.seconds:
        return (
            "steps are faster with it, and its start costs more than they save: a training takes "
            f"about {now.seconds:.3g} s in place of {before.seconds:.3g} s"
        )
    return ""
