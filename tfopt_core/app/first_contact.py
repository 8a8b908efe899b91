"""Propose and write a recipe for a script, as `tfopt apply train.py` does."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import attrs

from tfopt_core.app.pasted_command import (
    ScriptCommand,
    check_command,
    read_command,
    without_places,
)
from tfopt_core.diagnosis.draft import NOTHING_EXACT
from tfopt_core.errors import CannotShare, InputError
from tfopt_core.files import write_text
from tfopt_core.recipe import WorkloadSpec

if TYPE_CHECKING:
    from tfopt_core.app.apply_options import ApplyOptions
    from tfopt_core.app.verdict_time import VerdictTime
    from tfopt_core.app.view import View
    from tfopt_core.diagnosis.draft import Draft
    from tfopt_core.records.dry_build import Prepared
    from tfopt_core.records.results import Results
    from tfopt_core.trials.request import Request
    from tfopt_core.workers.supervise import Limits


@attrs.frozen
class Contact:
    """A draft recipe that was written and can be measured. If no proposed plugin is left,
    `prepared` is None and nothing is written.

    :param prepared: the dry build of the stack; of the additions alone where no exact plugin stays.
    :param extended: the dry build of the stack with the additions, None if there are none.
    """

    draft: Draft
    path: Path
    prepared: tuple[Prepared, Request] | None
    extended: tuple[Prepared, Request] | None = None


def check_contact(options: ApplyOptions) -> ScriptCommand:
    """Check what a first contact needs, before anything runs. Return the command of the script.

    :raises InputError: for options that do not fit, and for a script that is not there.
    """
    command = read_command(options.target)
    assert command is not None
    if options.script is not None:
        raise InputError(
            f'"{options.target}" is a script itself; leave --script out, or name a recipe'
        )
    if options.resuming:
        name = WorkloadSpec(script=command.script, module=command.module).stem
        raise InputError(f"--resume needs a recipe: tfopt apply {name}.tfopt.toml --resume")
    if None not in options.time_asked():
        # said before a look of a minute, not of the recipe that it writes
        raise InputError("--pairs takes as long as it takes; leave --budget or --pairs out")
    if command.arguments and options.arguments:
        raise InputError("the script has arguments in the command and after --; give them once")
    return check_command(command)


def look_at(options: ApplyOptions, limits: Limits, view: View, due: VerdictTime) -> Contact:
    """Look at a script for some seconds, and write the recipe that is worth measuring.

    :param options: those of `tfopt apply`, with a script or its command as target.
    :param view: shows the progress and the proposal.
    :param due: when the first verdict is due.
    :raises InputError: for options that do not fit, for a script without a training, and for an
        existing recipe that was changed by hand.
    """
    from tfopt_core.app.command_request import make_request
    from tfopt_core.diagnosis.draft import draft_of, measure_table
    from tfopt_core.diagnosis.own_loop import as_own_loop
    from tfopt_core.diagnosis.process import diagnose
    from tfopt_core.diagnosis.recipe_seal import check_free, recipe_path
    from tfopt_core.diagnosis.screening import Tried, screened, try_seconds
    from tfopt_core.hooks.installed.inspection import inspect_plugins
    from tfopt_core.recipe.writing import recipe_text
    from tfopt_core.trials.preparation import prepare
    from tfopt_core.workers.shared_process import SharedProcess
    from tfopt_core.workers.spawn import SpawnRunner

    command = check_contact(options)
    script = command.label
    workload = {**command.workload(), **options.workload()}
    # for a recipe that lies in another folder
    elsewhere = {**command.workload(in_folder=Path.cwd()), **options.workload()}
    if options.write_to is not None and options.write_to.absolute().parent != Path.cwd():
        workload = elsewhere
    spec = WorkloadSpec(**workload)
    path = options.write_to or recipe_path(spec.stem, Path.cwd())
    check_free(path)
    view.plan(due.plan(script))
    left = due.left if due.wanted else None
    with (
        tempfile.TemporaryDirectory(prefix="tfopt-look-", ignore_cleanup_errors=True) as folder,
        SharedProcess(SpawnRunner(limits=limits)) as shared,
    ):

        def request_for(text: str) -> Request:
            trial = Path(folder) / "trial.toml"
            trial.write_text(text, encoding="utf-8")
            with without_places(script, trial):
                request, _ = make_request(
                    str(trial), options.overrides, compares=False, keeps=False,
                    outputs=options.outputs(), debug=options.debug,
                )  # fmt: skip
            return attrs.evolve(request, folder=Path(folder) / "runs" / trial.stem)

        bare = recipe_text(
            name=spec.stem, description="", workload=elsewhere, plugins=(), measure={}
        )
        request = request_for(bare)
        with view.phases(left) as on_phase:
            on_phase(f"running {script} up to its first steps")
            installed = inspect_plugins()
            with without_places(script, Path(folder) / "trial.toml"):
                diagnosed = diagnose(request, shared, installed, on_phase, quick=True, stays=True)
        own = as_own_loop(spec, diagnosed)
        spec, elsewhere = attrs.evolve(spec, **own), {**elsewhere, **own}
        draft = draft_of(diagnosed, spec, *options.time_asked())
        view.look(draft)
        to_the_fit = diagnosed.seconds - diagnosed.measuring_seconds
        estimate = diagnosed.estimate
        whole = None if estimate is None else estimate.seconds
        due.training_seconds = whole
        tries = itertools.count()

        def attempt(draft: Draft) -> Tried:
            trial = request_for(attrs.evolve(draft, workload=elsewhere).text())
            seconds = try_seconds(estimate, diagnosed.measuring_seconds)
            shared.limits = attrs.evolve(limits, called_off=_after(seconds, 0.0))
            with due.trying():
                try:
                    prepared, resolved = prepare(trial, shared, quick=True, follows=True)
                except CannotShare:
                    called_off = _after(seconds, to_the_fit)
                    limited = SpawnRunner(limits=attrs.evolve(limits, called_off=called_off))
                    prepared, resolved = prepare(trial, limited, quick=True)
            prepared = attrs.evolve(prepared, training_seconds=whole)
            with_stack, now = prepared.stack_estimate, prepared.baseline_estimate
            if with_stack is not None and now is not None and estimate is not None:
                with_stack = with_stack.at_pace(estimate, now)
            return Tried(
                (prepared, resolved), with_stack, prepared.not_applied, prepared.resolved,
                {plugin.name: plugin.math for plugin in prepared.plugins},
            )  # fmt: skip

        with view.phases(left) as on_phase:
            found = screened(
                draft, attempt, lambda plugin: on_phase(f"trying {plugin}, with its settings"),
                why_not_try=lambda found, adds: due.why_not_try(
                    next(tries), found=found, adds=adds
                ),
                measure_anyway=options.measure_anyway,
            )  # fmt: skip
    draft, tried, extended = found.draft, found.tried, found.extended
    if tried is not None and extended is not None:
        table = measure_table(diagnosed, *options.time_asked(), adds=True)
        draft = attrs.evolve(draft, measure=table)
    if tried is None:
        tried, extended = extended, None
    if tried is not None:
        check_free(path)
        write_text(path, draft.text(), replace=True)
        view.written(draft, path)
    return Contact(
        draft, path, None if tried is None else tried.prepared,
        None if extended is None else extended.prepared,
    )  # fmt: skip


def _after(seconds: float, to_the_fit: float) -> Callable[[], str | None]:
    """Return a function that returns why to stop a trial, None if it may go on.

    :param to_the_fit: seconds that the script takes to reach its fit.
    """
    end = monotonic() + to_the_fit + seconds

    def late() -> str | None:
        return f"it took more than {seconds:.0f} s to try" if monotonic() > end else None

    return late


def prepared_for(contact: Contact, request: Request) -> tuple[Prepared, Request]:
    """Return the dry build from trying the draft, for the request that is measured."""
    assert contact.prepared is not None
    prepared, resolved = contact.prepared
    if not contact.draft.stack:
        # the recipe holds them as comments
        prepared = attrs.evolve(prepared, warnings=(*prepared.warnings, NOTHING_EXACT))
    added = () if contact.extended is None else contact.extended[1].plugins
    return prepared, attrs.evolve(
        request, plugins=resolved.plugins, machine=resolved.machine, added=added,
        forks=prepared.forks,
    )  # fmt: skip


def keep_outcome(contact: Contact, results: Results) -> None:
    """Write the verdict into the recipe that was measured, unless the user has changed it."""
    from tfopt_core.diagnosis.recipe_seal import is_unchanged

    try:
        if not is_unchanged(contact.path.read_text(encoding="utf-8")):
            return
    except (OSError, UnicodeDecodeError):
        return
    comparison = results.comparison
    lines = [f"Measured as {results.id}: {comparison.headline}."]
    if comparison.quality is not None:
        lines.append(f"{comparison.quality.statement}.")
    if results.addition is not None:
        lines.append(f"{results.addition.statement}.")
    write_text(contact.path, contact.draft.text(lines), replace=True)
