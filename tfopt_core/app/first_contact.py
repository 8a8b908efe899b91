"""`tfopt apply train.py`: propose and write a recipe for a script that has none."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import attrs

from tfopt_core.errors import InputError, RecipeError

if TYPE_CHECKING:
    from tfopt_core.app.script_options import ScriptOptions
    from tfopt_core.app.view import View
    from tfopt_core.diagnosis.draft import Draft
    from tfopt_core.recipe import WorkloadSpec
    from tfopt_core.records.dry_build import Prepared
    from tfopt_core.records.results import Results
    from tfopt_core.trials.request import Request
    from tfopt_core.workers.supervise import Limits


def is_script(target: str) -> bool:
    """Return whether the target of a command is a script."""
    return target.endswith(".py")


@attrs.frozen(kw_only=True)
class NewScript:
    """A script without a recipe, and the options of the command.

    :param workload: keys of the recipe's `[workload]`, the script among them.
    :param write_to: the file of the recipe; None for the working directory.
    :param measure_anyway: whether to measure a plugin even if none seems to save time.
    """

    script: str
    workload: Mapping[str, object]
    budget: str | None = None
    pairs: int | None = None
    write_to: Path | None = None
    measure_anyway: bool = False
    debug: bool = False


@attrs.frozen
class Contact:
    """A draft recipe that was written and can be measured. If no proposed plugin is left,
    `prepared` is None and nothing is written."""

    draft: Draft
    path: Path
    prepared: tuple[Prepared, Request] | None


def first_contact(new: NewScript, overrides: Sequence[str], limits: Limits, view: View) -> Contact:
    """Look at a script for some seconds, and write the recipe that is worth measuring.

    :param view: shows the progress and the findings.
    :raises InputError: for a script without a fit to look at, and for an existing recipe that was
        changed by hand.
    """
    from tfopt_core.app.request import make_request
    from tfopt_core.diagnosis.draft import (
        Tried,
        check_free,
        draft_of,
        recipe_path,
        screened,
        try_seconds,
    )
    from tfopt_core.diagnosis.request import diagnose
    from tfopt_core.hooks.installed.inspection import inspect_plugins
    from tfopt_core.recipe.writing import write_file
    from tfopt_core.trials.request import prepare
    from tfopt_core.workers.spawn import SpawnRunner

    path = new.write_to or recipe_path(Path(new.script), Path.cwd())
    check_free(path)
    with tempfile.TemporaryDirectory(prefix="tfopt-look-") as folder:

        def request_for(text: str) -> Request:
            trial = Path(folder) / "trial.toml"
            trial.write_text(text, encoding="utf-8")
            request, _ = make_request(
                str(trial), overrides, compares=False, keeps=False, debug=new.debug
            )
            return attrs.evolve(request, folder=Path(folder) / "runs" / trial.stem)

        request = request_for(_bare(new))
        with view.phases() as on_phase:
            on_phase(f"running {new.script} up to its first fit")
            installed = inspect_plugins()
            try:
                diagnosed = diagnose(
                    request, SpawnRunner(limits=limits), installed, on_phase, quick=True
                )
            except RecipeError as error:
                # the recipe is ours, so the places mean nothing to the user
                message = "; ".join(problem.message for problem in error.problems)
                raise InputError(f"{new.script}: {message}") from error
        draft = draft_of(diagnosed, _spec(new), new.budget, new.pairs)
        view.look(draft)
        to_the_fit = diagnosed.seconds - diagnosed.measuring_seconds

        def attempt(draft: Draft) -> Tried:
            trial = attrs.evolve(draft, workload=_whole_paths(new))
            called_off = _after(try_seconds(diagnosed.estimate), to_the_fit)
            limited = SpawnRunner(limits=attrs.evolve(limits, called_off=called_off))
            prepared, resolved = prepare(request_for(trial.text()), limited, quick=True)
            estimate = diagnosed.estimate
            whole = None if estimate is None else estimate.seconds
            prepared = attrs.evolve(prepared, training_seconds=whole)
            return Tried((prepared, resolved), prepared.stack_estimate, prepared.not_applied)

        with view.phases() as on_phase:
            draft, tried = screened(
                draft, attempt, lambda plugin: on_phase(f"trying {plugin}, with its settings"),
                measure_anyway=new.measure_anyway,
            )  # fmt: skip
    if tried is not None:
        check_free(path)
        write_file(path, draft.text(), replace=True)
    return Contact(draft, path, None if tried is None else tried.prepared)


def _after(seconds: float, to_the_fit: float) -> Callable[[], str | None]:
    """Return a function that says why to stop a trial that takes too long.

    :param to_the_fit: seconds that the script takes to reach its fit.
    """
    end = monotonic() + to_the_fit + seconds

    def late() -> str | None:
        return f"it took more than {seconds:.0f} s to try" if monotonic() > end else None

    return late


def _spec(new: NewScript) -> WorkloadSpec:
    from tfopt_core.recipe import WorkloadSpec

    return WorkloadSpec(**new.workload)  # type: ignore[arg-type]


def _bare(new: NewScript) -> str:
    """Return the recipe of the script without plugins."""
    from tfopt_core.recipe.writing import recipe_text

    return recipe_text(
        name=Path(new.script).stem, description="", workload=_whole_paths(new), plugins=(),
        measure={},
    )  # fmt: skip


def _whole_paths(new: NewScript) -> dict[str, object]:
    """Return the workload with absolute paths, for a recipe in another folder."""
    whole = {"script": str(Path(new.script).absolute()), "folder": str(Path.cwd())}
    return {**new.workload, **whole}


def checked_script(script: str) -> str:
    """Return the script's path for a recipe in the working directory.

    :raises InputError: if there is no such file.
    """
    path = Path(script)
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "is not there"
        raise InputError(f'the script "{script}" {what}')
    absolute = path.absolute()
    here = Path.cwd()
    return str(absolute.relative_to(here) if absolute.is_relative_to(here) else absolute)


def look_at(
    target: str,
    options: ScriptOptions,
    overrides: Sequence[str],
    *,
    budget: str | None,
    pairs: int | None,
    write_to: Path | None,
    measure_anyway: bool,
    resuming: bool,
    limits: Limits,
    view: View,
    debug: bool,
) -> Contact:
    """Look at the script that a command was given, and propose a recipe.

    :raises InputError: for options that do not fit, and what `first_contact` raises.
    """

    if options.script is not None:
        raise InputError(f'"{target}" is a script itself; leave --script out, or name a recipe')
    if resuming:
        name = f"{Path(target).stem}.tfopt.toml"
        raise InputError(f"--resume goes on with a recipe: tfopt apply {name} --resume")
    script = checked_script(target)
    new = NewScript(
        script=script, workload={"script": script, **options.workload()}, budget=budget,
        pairs=pairs, write_to=write_to, measure_anyway=measure_anyway, debug=debug,
    )  # fmt: skip
    if write_to is not None and write_to.absolute().parent != Path.cwd():
        new = attrs.evolve(new, workload=_whole_paths(new))
    contact = first_contact(new, overrides, limits, view)
    view.written(contact.draft, contact.path)
    return contact


def prepared_for(contact: Contact, request: Request) -> tuple[Prepared, Request]:
    """Return the dry build from trying the draft, for the request that is measured."""
    assert contact.prepared is not None
    prepared, resolved = contact.prepared
    return prepared, attrs.evolve(request, plugins=resolved.plugins, machine=resolved.machine)


def keep_outcome(contact: Contact, results: Results) -> None:
    """Write the verdict into the recipe that was measured, unless the user has changed it."""
    from tfopt_core.diagnosis.draft import is_unchanged
    from tfopt_core.recipe.writing import write_file

    try:
        if not is_unchanged(contact.path.read_text(encoding="utf-8")):
            return
    except (OSError, UnicodeDecodeError):
        return
    comparison = results.comparison
    lines = [f"Measured as {results.id}: {comparison.statement}."]
    if comparison.quality is not None:
        lines.append(f"{comparison.quality.statement}.")
    write_file(contact.path, contact.draft.text(lines), replace=True)
