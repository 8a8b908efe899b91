"""Propose and write a recipe for a script, as `tfopt apply train.py` and `tfopt init` do."""

from __future__ import annotations

import tempfile
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

import attrs
from rich.console import Console

from tfopt_core.commands.check import (
    check_script,
    factory_of,
    for_recipe_in,
    script_of,
)
from tfopt_core.commands.options import ApplyOptions
from tfopt_core.commands.request import make_request
from tfopt_core.diagnosis.draft import (
    NOTHING_EXACT,
    Draft,
    NothingToMeasure,
    Tried,
    as_own_loop,
    check_free,
    draft_of,
    is_unchanged,
    untried,
)
from tfopt_core.diagnosis.process import diagnose
from tfopt_core.diagnosis.results import Diagnosed
from tfopt_core.diagnosis.screening import screened, try_seconds
from tfopt_core.errors import CannotShare, InputError
from tfopt_core.files import write_text
from tfopt_core.hooks.installed.inspection import inspect_plugins
from tfopt_core.recipe.model import WorkloadSpec
from tfopt_core.recipe.reading import UnwrittenRecipe
from tfopt_core.report.diagnosis import render_look, render_written
from tfopt_core.report.live import make_phases
from tfopt_core.report.style.layout import words
from tfopt_core.statistics.intervals import seconds_in_words
from tfopt_core.statistics.results import Results
from tfopt_core.trials.processes import prepare
from tfopt_core.trials.request import Prepared, Request
from tfopt_core.workers import spawn
from tfopt_core.workers.supervise import Limits

# Once a plugin stays, no further one is tried that would take until so many seconds after the look
# began, and none at all that would take twice as many: the verdict is due two minutes and the runs'
# starts after that beginning. Some are always tried.
TRYING_SECONDS, ALWAYS_TRIED = 30.0, 2


def check_contact(options: ApplyOptions, spec: WorkloadSpec) -> WorkloadSpec:
    """Check what a first contact needs, before anything runs. Return the script's workload.

    :raises InputError: for options that do not fit, for a script that is not there, and for an
        existing recipe that was changed by hand.
    """
    if options.script is not None:
        raise InputError(
            f'"{options.target}" is a script itself; leave --script out, or name a recipe'
        )
    if options.resuming:
        raise InputError(f"--resume needs a recipe: tfopt apply {spec.stem}.tfopt.toml --resume")
    if {"pairs", "budget"} <= set(options.measure_asked()):
        # an override of one would take the place of the other
        raise InputError("a budget chooses the pairs; leave --budget or --pairs out")
    check_free(written_recipe(options, spec))
    return check_script(spec)


def look_alone(options: ApplyOptions, console: Console) -> tuple[Draft, Path] | NothingToMeasure:
    """Look at a script or factory and write its recipe, as `tfopt init` does. Nothing is measured.

    :returns: what was written, and where; or that nothing was, since nothing is worth measuring.
    :raises InputError: as `check_contact` and `look_at`.
    """
    script = script_of(options.target, module=options.module)
    if script is not None:
        spec = check_contact(options, script)
    else:
        spec = factory_of(options.target)
        check_free(written_recipe(options, spec))
    plan = f"looking at {spec.label} for up to 30 s, then trying what it proposes"
    console.print(words(plan, "dim"))
    found = look_at(options, spec, Limits(), console)
    if found.tried is None:
        return found.nothing(options.target)
    return found, written_recipe(options, spec)


def look_at(options: ApplyOptions, spec: WorkloadSpec, limits: Limits, console: Console) -> Draft:
    """Look at a script or factory for some seconds, and write the recipe that is worth measuring,
    if any proposed plugin is left.

    :param options: those of `tfopt apply`.
    :param spec: the script or factory, from the working directory.
    :param console: shows the progress and the proposal: that of standard error.
    :raises InputError: for options that do not fit, for a script without a training, and for an
        existing recipe that was changed by hand.
    """
    label, path = spec.label, written_recipe(options, spec)
    spec = attrs.evolve(for_recipe_in(path.absolute().parent, spec), **options.workload())
    # what is wrong with it is said before a look of a minute, not of the recipe that it writes
    asked = {"measure": options.measure_asked()} if options.measure_asked() else {}
    bare = UnwrittenRecipe(path, {"name": spec.stem, "workload": spec.to_dict(), **asked}, label)
    with (
        tempfile.TemporaryDirectory(prefix="tfopt-look-", ignore_cleanup_errors=True) as folder,
        spawn.SharedProcess(spawn.SpawnRunner(limits=limits)) as shared,
    ):
        # the process of a factory ends with its task
        trials = _Trials(options, limits, bare, Path(folder), shared if spec.is_script else None)
        request, begun = trials.request_for(bare.data), monotonic()
        with make_phases(console) as on_phase:
            on_phase(f"running {label} up to its first steps")
            installed = inspect_plugins()
            diagnosed = diagnose(
                request, shared, installed, on_phase, quick=True, stays=spec.is_script
            )
        spec = attrs.evolve(spec, **as_own_loop(spec, diagnosed))
        draft = draft_of(diagnosed, spec, options.measure_asked())
        console.print(render_look(draft))
        tried: list[str] = []
        first = monotonic()
        with make_phases(console) as on_phase:

            def on_try(plugin: str) -> None:
                tried.append(plugin)
                on_phase(f"trying {plugin}")

            found = screened(
                draft, lambda draft: trials.attempt(draft, diagnosed), on_try,
                why_not_try=lambda found: why_not_try(
                    len(tried), monotonic() - begun, monotonic() - first, found=found
                ),
                measure_anyway=options.measure_anyway,
            )  # fmt: skip
    if found.tried is not None:
        check_free(path)
        write_text(path, found.text(), replace=True)
        console.print(render_written(found, path))
    return found


@attrs.frozen(eq=False)
class _Trials:
    """Tries plugins, on a script in the process of the look while that is there.

    :param bare: the recipe without plugins.
    :param folder: for what the trials write.
    """

    options: ApplyOptions
    limits: Limits
    bare: UnwrittenRecipe
    folder: Path
    shared: spawn.SharedProcess | None

    def request_for(self, data: Mapping[str, Any]) -> Request:
        """Return the request of the recipe with these data.

        :raises InputError: for input of the user's that is wrong.
        """
        request, _ = make_request(
            attrs.evolve(self.bare, data=data), self.options.overrides, compares=False, keeps=False,
            debug=self.options.debug,
        )  # fmt: skip
        return attrs.evolve(request, folder=self.folder / "runs" / self.bare.path.stem)

    def attempt(self, draft: Draft, diagnosed: Diagnosed) -> Tried:
        """Build the script with the stack of a draft, and time its first steps.

        :param diagnosed: the look without plugins.
        :raises TfoptError: if that is not possible, or takes too long.
        """
        trial, estimate = self.request_for(tomllib.loads(draft.text())), diagnosed.estimate
        seconds = try_seconds(estimate, diagnosed.measuring_seconds)
        prepared: Prepared | None = None
        if self.shared is not None:
            self.shared.limits = attrs.evolve(self.limits, called_off=_after(seconds, 0.0))
            with suppress(CannotShare):
                prepared, resolved = prepare(trial, self.shared, quick=True, follows=True)
        if prepared is None:
            late = _after(seconds, diagnosed.seconds - diagnosed.measuring_seconds)
            runner = spawn.SpawnRunner(limits=attrs.evolve(self.limits, called_off=late))
            prepared, resolved = prepare(trial, runner, quick=True)
        whole = None if estimate is None else estimate.seconds
        prepared = attrs.evolve(prepared, training_seconds=whole)
        with_stack, now = prepared.stack_estimate, prepared.baseline_estimate
        if with_stack is not None and now is not None and estimate is not None:
            with_stack = with_stack.at_pace(estimate, now)
        return Tried(prepared, resolved, with_stack)


def _after(seconds: float, to_the_fit: float) -> Callable[[], str | None]:
    """Return a function that returns why to stop a trial, None if it may go on.

    :param to_the_fit: seconds that the script takes to reach its fit.
    """
    end = monotonic() + to_the_fit + seconds
    why = f"it took more than {seconds:.0f} s to try"
    return lambda: why if monotonic() > end else None


def why_not_try(tried: int, seconds: float, trying_seconds: float, *, found: bool) -> str:
    """Return why no further plugin is tried, "" if one may be.

    :param tried: how many were tried already.
    :param seconds: since the look began.
    :param trying_seconds: since the first trial began; the next one is taken to last as long as the
        mean of those before it.
    :param found: whether one of them stays, so that there is something to measure.
    """
    longest = TRYING_SECONDS if found else 2 * TRYING_SECONDS
    if tried < ALWAYS_TRIED or seconds + trying_seconds / tried <= longest:
        return ""
    return f"not tried: the diagnosis and trying others took {seconds_in_words(seconds)}"


def written_recipe(options: ApplyOptions, spec: WorkloadSpec) -> Path:
    """Return where the recipe of a script or factory goes."""
    return options.write_to or Path.cwd() / f"{spec.stem}.tfopt.toml"


def prepared_for(
    found: Draft, request: Request, path: Path
) -> tuple[Prepared, Request, Prepared | None]:
    """Return the dry build from trying the draft, for the request that is measured, and that of the
    stack with the additions, None without any.

    :param path: of the recipe.
    """
    assert found.tried is not None
    prepared, resolved, extended = found.tried.prepared, found.tried.request, found.tried_extended
    prepared = attrs.evolve(prepared, findings=found.diagnosed.findings)
    if not found.is_exact:
        prepared = attrs.evolve(prepared, warnings=(*prepared.warnings, NOTHING_EXACT))
    stacked = {one.plugin for one in found.extended}
    late = [name for name in untried(found.left_out) if name not in stacked]
    if late:
        note = f"no time was left to try {', '.join(late)}: tfopt tune {path.name} tries more"
        prepared = attrs.evolve(prepared, warnings=(*prepared.warnings, note))
    request = attrs.evolve(
        request, plugins=resolved.plugins, machine=resolved.machine, forks=prepared.forks,
        added=() if extended is None else extended.request.plugins,
    )  # fmt: skip
    return prepared, request, None if extended is None else extended.prepared


def keep_outcome(draft: Draft, path: Path, results: Results) -> None:
    """Write the verdict into the recipe that was measured, unless the user has changed it."""
    try:
        if not is_unchanged(path.read_text(encoding="utf-8")):
            return
    except (OSError, UnicodeDecodeError):
        return
    comparison = results.comparison
    lines = [f"Measured as {results.id}: {comparison.headline}."]
    if comparison.quality is not None:
        lines.append(f"{comparison.quality.statement}.")
    if results.addition is not None:
        lines.append(f"{results.addition.statement}.")
    write_text(path, draft.text(lines), replace=True)
