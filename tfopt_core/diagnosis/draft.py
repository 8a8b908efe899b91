"""Draft a recipe for a workload that has none: what a diagnosis proposes, and what stays of it."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.diagnosis.results import Diagnosed
from tfopt_core.errors import InputError
from tfopt_core.hooks.diagnosis import PARTS
from tfopt_core.hooks.installed.suggest import Suggestion
from tfopt_core.hooks.plugin_class import EXACT_EQUIVALENCES
from tfopt_core.recipe.model import WorkloadSpec
from tfopt_core.recipe.writing import NOTES, PlannedPlugin, SpareKey, recipe_text, spare_keys
from tfopt_core.statistics.intervals import bound_in_words
from tfopt_core.trials.request import Estimate, Prepared, Request

NOTHING_EXACT = (
    "no exact plugin (one that leaves the training as it is) seems to save time here, so the stack "
    "is of plugins that are not exact"
)
ADDED = "It is not exact, so it is left to you: take the # off to train with it."
ADDED_SETTING = "not exact; replaces the line above"
NOT_HOPEFUL = (
    "By the first steps none of the plugins that were tried saves time; the one that came out best "
    "is measured, as --measure-anyway asks."
)
BY_TARGET = (
    "it changes the training algorithm, so only a recipe with a target in [measure] can judge it"
)
# Marks the recipe that tfopt writes for a script, so that a changed one is never overwritten.
_SEAL = "# tfopt overwrites this file only while it has this checksum: "
# A smaller share is printed as 0%.
LEAST_SHARE = 0.005

Table = Mapping[str, Any]


@attrs.frozen
class LeftOut:
    """A proposed plugin that was left out, or some settings of one, and why.

    :param estimate: the estimated time of a training with it, on top of the stack before it; None
        if it could not be tried or took no effect.
    :param untried: whether it was not tried for want of time.
    """

    plugin: str
    reason: str
    estimate: Estimate | None = None
    untried: bool = False


@attrs.frozen(kw_only=True)
class NothingToMeasure:
    """The result if no plugin is worth measuring on a script; `--json` writes it.

    :param arguments: those of the script.
    :param bound: what bounds a step, in a sentence.
    :param left_out: the proposed plugins that were left out, each with its reason.
    :param diagnosis: what the look found, in the form of `tfopt diagnose --json`.
    """

    schema_version: int = 2
    script: str
    arguments: tuple[str, ...] = ()
    measured: bool = False
    bound: str
    left_out: tuple[LeftOut, ...] = ()
    diagnosis: Diagnosed

    def command(self, options: str) -> str:
        """Return the command that applies tfopt to the script with further options."""
        module = "" if self.script.endswith(".py") else "-m "
        arguments = f" -- {shlex.join(self.arguments)}" if self.arguments else ""
        return f"tfopt apply {module}{shlex.quote(self.script)} {options}{arguments}"

    @property
    def sentences(self) -> tuple[str, ...]:
        """Why nothing was measured, what bounds a step, and what was not tried."""
        if any(one.estimate is not None for one in self.left_out):
            why = "no plugin that was tried saves more than start-up times differ by"
        elif self.left_out:
            why = "no plugin that was proposed could be tried"
        else:
            why = "no installed plugin proposes anything for this training"
        names = ", ".join(untried(self.left_out))
        late = f"no time was left to try {names}; a recipe that names them is measured"
        why = f"{why}: nothing was measured, and no recipe was written"
        return (why, self.bound, *([late] if names else []))


@attrs.frozen
class Tried:
    """The dry build of a draft's stack, its request with the settings that were found, and the
    estimated time of a training with it, None if the number of steps is unknown."""

    prepared: Prepared
    request: Request
    estimate: Estimate | None


@attrs.frozen
class Draft:
    """The recipe of a first contact, before and after it was tried and measured.

    :param script: the script or module, as the recipe names it.
    :param diagnosed: the diagnosis of the script.
    :param stack: the plugins that stay, in their order: exact ones alone, if one stays.
    :param additions: what is measured on top of them, since it is not exact: further plugins, and
        plugins of the stack with other settings.
    :param hopeful: whether they seem to save time, by the first steps.
    :param tried: the dry build of the stack, and `tried_extended` that of it with the additions,
        which are tried last; None before, and if none stays.
    """

    script: str
    workload: Table
    diagnosed: Diagnosed
    stack: tuple[Suggestion, ...]
    additions: tuple[Suggestion, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    measure: Table = attrs.field(factory=dict)
    hopeful: bool = True
    tried: Tried | None = None
    tried_extended: Tried | None = None

    @property
    def is_exact(self) -> bool:
        """Whether the stack is exact, with the settings that were found for it."""
        if self.tried is not None:
            return self.tried.prepared.equivalence in EXACT_EQUIVALENCES
        return all(one.is_exact for one in self.stack)

    @property
    def extended(self) -> tuple[Suggestion, ...]:
        """The stack with the additions, in its order."""
        by_name = {one.plugin: one for one in (*self.stack, *self.additions)}
        order = [name for name in self.diagnosed.proposed_stack if name in by_name]
        return tuple(by_name[name] for name in dict.fromkeys((*order, *by_name)))

    def nothing(self, target: str) -> NothingToMeasure:
        """Return what is known of a training for which no proposed plugin is left."""
        found = self.diagnosed
        return NothingToMeasure(
            script=target,
            arguments=tuple(self.workload.get("args", ())),
            bound=what_bounds(found),
            left_out=self.left_out,
            diagnosis=found,
        )

    def text(self, outcome: Sequence[str] = ()) -> str:
        """Return the text of the recipe file.

        :param outcome: the result of measuring it, in sentences.
        """
        metric = "val_accuracy" if self.tried is None else self.tried.prepared.quality_metric
        body = recipe_text(
            name=WorkloadSpec(**self.workload).stem,
            description=f"What may make {Path(self.script).name} train faster, as tfopt proposed.",
            workload=self.workload,
            plugins=[*map(self._planned, self.extended), *self._disabled()],
            measure=self.measure,
            heading=[*self._heading(), *([""] if outcome else []), *outcome],
            notes=NOTES,
            spare=spare_keys(self.workload, self.measure, metric),
        )  # fmt: skip
        return sealed(body)

    def _planned(self, item: Suggestion) -> PlannedPlugin:
        """Return a plugin to write; what is not exact is a comment."""
        exact = next((one for one in self.stack if one.plugin == item.plugin), None)
        why = why_chosen(item, self.diagnosed)
        if exact is None:
            return PlannedPlugin(item.plugin, item.settings, f"{why} {ADDED}", commented=True)
        spare = [
            SpareKey("plugins", key, value, ADDED_SETTING)
            for key, value in item.settings.items()
            if exact.settings.get(key) != value
        ]
        why = why_chosen(exact, self.diagnosed)
        return PlannedPlugin(item.plugin, exact.settings, why, spare=spare)

    def _disabled(self) -> Iterator[PlannedPlugin]:
        written = {item.plugin for item in self.extended}
        # a plugin stands once in a recipe, and may have been left out with two settings
        reasons: dict[str, list[str]] = {}
        for left in self.left_out:
            if left.plugin not in written:
                reasons.setdefault(left.plugin, []).append(left.reason)
        for name, of_name in reasons.items():
            yield PlannedPlugin(name, {}, f"left out: {'; '.join(of_name)}", enabled=False)

    def _heading(self) -> Iterator[str]:
        step = f"{self.diagnosed.step_seconds * 1e3:.3g} ms"
        name = self.script if "module" in self.workload else Path(self.script).name
        shares = ", ".join(f"{share:.0%} {part}" for part, share in shares_of(self.diagnosed))
        what = "an update in its own loop" if self.diagnosed.own_loop else "a step of its fit"
        yield (
            f"Written by tfopt for {name}: {what} took {step} ({shares}). Measure it with "
            "`tfopt apply` and this file; every line may be changed."
        )
        if not self.is_exact:
            yield f"{NOTHING_EXACT[0].upper()}{NOTHING_EXACT[1:]}."
        if not self.hopeful:
            yield NOT_HOPEFUL


def untried(left_out: Sequence[LeftOut]) -> tuple[str, ...]:
    """Return the plugins that no time was left to try, with any settings."""
    tried = {one.plugin for one in left_out if one.estimate is not None}
    names = (one.plugin for one in left_out if one.untried and one.plugin not in tried)
    return tuple(dict.fromkeys(names))


def shares_of(diagnosed: Diagnosed) -> list[tuple[str, float]]:
    """Return the parts of a step with their shares; what is not told apart is one part."""
    shares = [(part, getattr(diagnosed, part).share) for part in PARTS]
    if diagnosed.dispatch_known:
        return shares
    together = sum(share for part, share in shares if part != "input")
    return [shares[0], ("dispatch and compute", together)]


def as_own_loop(spec: WorkloadSpec, diagnosed: Diagnosed) -> dict[str, Any]:
    """Return the keys of `[workload]` that a script with a loop of its own needs, {} for any other.

    :raises InputError: for a limit that is about calls of `fit`.
    """
    if not diagnosed.own_loop:
        return {}
    for option, value in (("--epochs", spec.max_epochs), ("--fit", spec.fit)):
        if value is not None:
            raise InputError(
                f"{option} is about calls of fit, and {spec.label} trains in a loop of its own; "
                "--max-steps ends a run after so many updates"
            )
    steps = {} if diagnosed.steps_per_epoch is None else {"max_steps": diagnosed.steps_per_epoch}
    return {"loop": "own", **steps}


def draft_of(diagnosed: Diagnosed, spec: WorkloadSpec, measure: Table) -> Draft:
    """Return the recipe that a diagnosis proposes.

    :param measure: the keys of `[measure]` that are asked for.
    """
    by_name = {suggestion.plugin: suggestion for suggestion in diagnosed.suggestions}
    stackable = [by_name[name] for name in diagnosed.proposed_stack if name in by_name]
    additions = [one for one in stackable if not one.is_exact]
    return Draft(
        spec.label, spec.to_dict(), diagnosed,
        tuple(exact for one in stackable if (exact := one.exactly) is not None),
        additions=tuple(one for one in additions if one.equivalence != "changes"),
        left_out=tuple(
            LeftOut(one.plugin, BY_TARGET) for one in additions if one.equivalence == "changes"
        ),
        measure=dict(measure),
    )  # fmt: skip


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


def what_bounds(diagnosed: Diagnosed) -> str:
    """Return a sentence on where most of a step goes, and the most that the rest can gain."""
    if any(finding.kind == "fit-for-a-batch" for finding in diagnosed.findings):
        return "most of a call is what fit() does around its one step, which no plugin shortens"
    parts = dict(shares_of(diagnosed))
    largest = max(parts, key=lambda name: parts[name])
    share = parts[largest]
    sentence = (
        f"{share:.0%} of a step is {largest}: what shortens only the rest of it gains "
        f"{1 / share:.2f}x at most"
    )
    if largest != "compute" or diagnosed.own_loop:
        return sentence
    if diagnosed.matmul_share is not None:
        sentence += (
            f"; while it computes, the model reaches {diagnosed.matmul_share:.0%} of this "
            f"machine's fastest {diagnosed.policy.removeprefix('mixed_')} matrix products"
        )
    return sentence


def sealed(text: str) -> str:
    """Return the text with a last line that reveals later changes."""
    return f"{text}\n{_SEAL}{_digest(text)}\n"


def is_unchanged(text: str) -> bool:
    """Return whether a file is as tfopt wrote it, so that tfopt may overwrite it."""
    body, mark, digest = text.rpartition(f"\n{_SEAL}")
    return bool(mark) and digest.strip() == _digest(body)


def check_free(path: Path) -> None:
    """Check that the recipe may be written, before minutes of measuring.

    :raises InputError: if it exists and was changed by hand.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f'"{path}" cannot be read: {error}; name another file with --write') \
            from error  # fmt: skip
    if not is_unchanged(text):
        raise InputError(
            f'"{path.name}" exists already and was changed since tfopt wrote it; measure it with '
            f'"tfopt apply {path.name}", or name another file with --write'
        )


def _digest(text: str) -> str:
    return hashlib.sha256(re.sub(r"\s+", " ", text).strip().encode()).hexdigest()[:16]
