"""The recipe proposed for a script that has none: plugins from a diagnosis, tried one by one."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.errors import InputError, PreparationFailed, RecipeError, TfoptError
from tfopt_core.hooks.installed.suggest import Suggestion
from tfopt_core.recipe import WorkloadSpec
from tfopt_core.recipe.commented import commented_recipe
from tfopt_core.recipe.writing import PlannedPlugin
from tfopt_core.records.diagnosis import Diagnosed
from tfopt_core.records.estimate import Estimate

# Four pairs of whole runs are made where they take no longer than this; else as many as fit into
# the budget, of runs that end once their step time is known.
WHOLE_SECONDS, BUDGET = 180.0, "5m"
# What a run of a script takes beside its fits: imports, data, building, evaluating.
BESIDE_SECONDS = 7.0
PAIRS = 4
NOT_HOPEFUL = (
    "By the first steps none of the plugins that were tried saves time; the one that costs least "
    "is measured, as --measure-anyway asks."
)
# What saves less by its first steps is not worth a place in the stack.
LEAST_GAIN = 0.03
# What is paid once is known no better than that from one start.
LEAST_SAVED_SECONDS = 0.25
# A plugin is tried for a share of what a training takes, and left out where that is not enough; the
# script's own way to its fit does not count.
TRY_SHARE, SHORTEST_TRY, LONGEST_TRY = 0.1, 20.0, 120.0
# Where nobody knows how long a training takes.
UNKNOWN_TRY = 60.0
_SEAL = "# unchanged since tfopt wrote it: "

What = Mapping[str, Any]


@attrs.frozen
class LeftOut:
    """A plugin that was proposed and does not stay, and why.

    :param estimate: about what a training takes with it, on top of the stack before it; None where
        it could not be tried or took no effect.
    """

    plugin: str
    reason: str
    estimate: Estimate | None = None


@attrs.frozen
class Draft:
    """The recipe of a first contact, before and after it was measured.

    :param script: as the recipe names it.
    :param diagnosed: what the look has found.
    :param stack: the plugins that stay, in their order.
    :param hopeful: whether they seem to save time, by the first steps.
    """

    script: str
    workload: What
    diagnosed: Diagnosed
    stack: tuple[Suggestion, ...]
    left_out: tuple[LeftOut, ...] = ()
    measure: What = attrs.field(factory=dict)
    hopeful: bool = True

    def without(self, plugin: str, reason: str, estimate: Estimate | None = None) -> Draft:
        """Return the draft without a plugin.

        :param estimate: as `LeftOut` has it.
        """
        return attrs.evolve(
            self,
            stack=tuple(one for one in self.stack if one.plugin != plugin),
            left_out=(*self.left_out, LeftOut(plugin, reason, estimate)),
        )

    def text(self, outcome: Sequence[str] = ()) -> str:
        """Return the recipe as a file.

        :param outcome: what measuring it came to, in sentences.
        """
        name = Path(self.script).stem
        body = commented_recipe(
            name=name,
            description=f"What may make {Path(self.script).name} train faster, as tfopt proposed.",
            workload=self.workload,
            plugins=[
                *(PlannedPlugin(one.plugin, one.settings, why_chosen(one, self.diagnosed))
                  for one in self.stack),
                *(PlannedPlugin(one.plugin, {}, f"left out: {one.reason}", enabled=False)
                  for one in self.left_out),
            ],
            measure=self.measure,
            heading=[*self._heading(), *([""] if outcome else []), *outcome],
        )  # fmt: skip
        return sealed(body)

    def _heading(self) -> Iterator[str]:
        step = f"{self.diagnosed.step_seconds * 1e3:.3g} ms"
        shares = ", ".join(
            f"{getattr(self.diagnosed, part).share:.0%} {part}"
            for part in ("input", "dispatch", "compute")
        )
        yield (
            f"Written by `tfopt apply {Path(self.script).name}`: a step of its fit took {step} "
            f"({shares}). Measure it again with `tfopt apply` and this file; every line may be "
            "changed."
        )
        if not self.hopeful:
            yield NOT_HOPEFUL


def draft_of(
    diagnosed: Diagnosed, spec: WorkloadSpec, budget: str | None, pairs: int | None
) -> Draft:
    """Return the recipe that a diagnosis proposes."""
    measure: dict[str, Any] = {}
    if pairs is None and budget is None:
        whole = diagnosed.estimate
        small = whole is not None and 2 * PAIRS * (whole.seconds + BESIDE_SECONDS) <= WHOLE_SECONDS
        measure = {"pairs": PAIRS} if small else {"budget": BUDGET}
    if pairs is not None:
        measure["pairs"] = pairs
    if budget is not None:
        measure["budget"] = budget
    return Draft(spec.script or "", spec.to_dict(), diagnosed, proposed(diagnosed), measure=measure)


def proposed(diagnosed: Diagnosed) -> tuple[Suggestion, ...]:
    """Return the suggestions that can be stacked together, in their order."""
    by_name = {one.plugin: one for one in diagnosed.suggestions}
    return tuple(by_name[name] for name in diagnosed.proposed_stack if name in by_name)


def why_chosen(one: Suggestion, diagnosed: Diagnosed) -> str:
    """Return what a plugin is for and the most that it can gain here."""
    parts = [f"{one.summary.rstrip('.')}."] if one.summary else []
    told = [
        f"{getattr(diagnosed, target).share:.0%} of a step is {target}"
        for target in one.targets
        if target in ("input", "dispatch", "compute")
    ]
    if told:
        bound = "" if one.bound is None else f", so at most {one.bound:.2f}x"
        parts.append(f"Here {' and '.join(told)}{bound}.")
    return " ".join(parts)


def try_seconds(estimate: Estimate | None) -> float:
    """Return how long a plugin may take to be tried, in seconds.

    :param estimate: of a training without plugins; None where it cannot be told.
    """
    if estimate is None:
        return UNKNOWN_TRY
    return min(max(TRY_SHARE * estimate.seconds, SHORTEST_TRY), LONGEST_TRY)


@attrs.frozen
class Tried:
    """A draft that was prepared: what that found, and about how long a training with it takes.

    :param estimate: None where the number of steps is unknown.
    """

    found: Any
    estimate: Estimate | None
    not_applied: Mapping[str, str]


def screened(
    draft: Draft,
    attempt: Callable[[Draft], Tried],
    on_try: Callable[[str], None],
    *,
    measure_anyway: bool = False,
) -> tuple[Draft, Tried | None]:
    """The draft with those plugins alone that work here, and seem to save time, each on top of
    those before it. Nothing is claimed by that: it decides what is worth measuring.

    :param attempt: prepares a draft.
    :param on_try: told of each plugin before it is tried.
    :param measure_anyway: where none seems to save time, keep the one that costs least.
    :returns: the draft, and what preparing it has found; None where no plugin stays.
    """
    asked, best = draft, None
    cheapest: tuple[Suggestion, Tried] | None = None
    draft = attrs.evolve(draft, stack=())
    for one in asked.stack:
        on_try(one.plugin)
        candidate = attrs.evolve(draft, stack=(*draft.stack, one))
        try:
            tried = attempt(candidate)
        except TfoptError as error:
            draft = draft.without(one.plugin, _first_line(error))
            continue
        before = asked.diagnosed.estimate if best is None else best.estimate
        reason = _why_not(one.plugin, tried, before)
        if not reason:
            draft, best = candidate, tried
            continue
        takes = None if one.plugin in tried.not_applied else tried.estimate
        draft = draft.without(one.plugin, reason, takes)
        if takes is not None and (cheapest is None or takes.seconds < _seconds(cheapest[1])):
            cheapest = (one, tried)
    if best is None and cheapest is not None and measure_anyway:
        one, best = cheapest
        left_out = tuple(left for left in draft.left_out if left.plugin != one.plugin)
        draft = attrs.evolve(draft, stack=(one,), left_out=left_out, hopeful=False)
    return draft, best


def _seconds(tried: Tried) -> float:
    assert tried.estimate is not None
    return tried.estimate.seconds


def what_bounds(diagnosed: Diagnosed) -> str:
    """Return in a sentence where most of a step goes, and what the rest of it can gain at most."""
    parts = {name: getattr(diagnosed, name).share for name in ("input", "dispatch", "compute")}
    largest = max(parts, key=lambda name: parts[name])
    share = parts[largest]
    said = (
        f"{share:.0%} of a step is {largest}: what shortens only the rest of it gains "
        f"{1 / share:.2f}x at most"
    )
    use = diagnosed.matmul
    if largest == "compute" and use.share_computing is not None:
        said += (
            f"; while it computes, the model reaches {use.share_computing:.0%} of this machine's "
            f"fastest {use.dtype} matrix products"
        )
    return said


def _first_line(error: TfoptError) -> str:
    """Without the place in a recipe that nobody has written."""
    if isinstance(error, RecipeError):
        return error.problems[0].message
    text = error.cause if isinstance(error, PreparationFailed) else str(error)
    return text.splitlines()[0]


def _why_not(plugin: str, tried: Tried, before: Estimate | None) -> str:
    """Return why a plugin does not stay on top of the best stack so far, "" if it does."""
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


# The file


def sealed(text: str) -> str:
    """Return the text with a last line by which a later change of it is noticed."""
    return f"{text}\n{_SEAL}{_digest(text)}\n"


def is_unchanged(text: str) -> bool:
    """Return whether a file is as tfopt wrote it, so that it may write it anew."""
    body, mark, digest = text.rpartition(f"\n{_SEAL}")
    return bool(mark) and digest.strip() == _digest(body)


def recipe_path(script: Path, folder: Path) -> Path:
    """Return where the recipe of a script goes: `train.tfopt.toml`, here."""
    return folder / f"{script.stem}.tfopt.toml"


def check_free(path: Path) -> None:
    """See that the recipe may be written, before minutes of measuring.

    :raises InputError: if there is one that was changed by hand.
    """
    try:
        there = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f'"{path}" cannot be read: {error}; name another file with --write') \
            from error  # fmt: skip
    if not is_unchanged(there):
        raise InputError(
            f'"{path.name}" is there already and was not left as tfopt wrote it; measure it with '
            f'"tfopt apply {path.name}", or name another file with --write'
        )


def _digest(text: str) -> str:
    return hashlib.sha256(re.sub(r"\s+", " ", text).strip().encode()).hexdigest()[:16]
