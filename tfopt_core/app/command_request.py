"""Build the request of a measurement or training from a command's arguments."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import attrs

from tfopt_core.app.check import check_recipe
from tfopt_core.app.project import project_of
from tfopt_core.app.script_target import check_as_recipe, script_of
from tfopt_core.app.tensorflow_packages import check_versions
from tfopt_core.errors import InputError
from tfopt_core.files import write_whole
from tfopt_core.hooks import read_machine
from tfopt_core.recipe import Recipe, shipped_recipes
from tfopt_core.recipe.formats import duration
from tfopt_core.recipe.values import Invalid
from tfopt_core.training.runtime import check_environment
from tfopt_core.trials.request import Request

if TYPE_CHECKING:
    from tfopt_core.app.checkpoints import ResumePoint

RESULTS = ".tfopt"
# Its folder with the searches of `tfopt tune`.
SEARCHES = "tune"
# What tfopt keeps in the folder of results.
OWN_NAMES = frozenset({
    ".gitignore", "checkpoints", "measuring.lock", "observed", "runs", "runs.sqlite",
    "runs.sqlite-shm", "runs.sqlite-wal", SEARCHES,
})  # fmt: skip
# Files that a command will write, by the option that names each.
Outputs = Mapping[str, Path | None]


def make_request(
    target: str | Path,
    overrides: Sequence[str],
    *,
    compares: bool,
    text: str | None = None,
    keeps: bool = True,
    save_to: Path | None = None,
    outputs: Outputs = MappingProxyType({}),
    debug: bool = False,
) -> tuple[Request, Path]:
    """Check everything that can be checked without TensorFlow. Return a request.

    :param target: a recipe; or the path of a script, which has no stack.
    :param compares: whether baseline and stack will be compared.
    :param text: the recipe, if it is not written to its file yet.
    :param outputs: the files that will be written, by their options.
    :param keeps: whether anything is stored in the project.
    :returns: the request, and the folder of the project's results.
    :raises InputError: for invalid input, with all problems of a recipe at once.
    """
    check_versions()
    script = script_of(target) if isinstance(target, str) else None
    checked = (
        check_recipe(target, overrides, compares=compares, text=text)
        if script is None
        else check_as_recipe(script, overrides)
    )
    environment = {**os.environ, **checked.recipe.workload.environment}
    check_environment(environment)
    if save_to is not None and save_to.suffix != ".keras":
        raise InputError(f'--save: "{save_to}" does not end in .keras, the format of Keras 3')
    if save_to is not None and checked.recipe.workload.has_own_loop:
        raise InputError("--save: a script with a training loop of its own saves its model itself")
    for option, path in (("--save", save_to), *outputs.items()):
        if path is not None:
            check_writable(option, path)
    project = project_folder(checked.recipe)
    results = _make_ours(project) if keeps else project / RESULTS
    request = Request(
        recipe=checked.recipe,
        plugins=checked.plugins,
        observers=checked.observers,
        reading=checked.reading,
        machine=read_machine(),
        folder=results / "runs" / new_id(),
        environment=environment,
        save_to=save_to,
        debug=debug,
    )
    return request, results


@contextmanager
def temporary_request(
    target: str,
    overrides: Sequence[str],
    *,
    outputs: Outputs = MappingProxyType({}),
    debug: bool = False,
) -> Iterator[Request]:
    """Yield a request whose processes leave nothing behind, for the time of the context.

    :raises InputError: as `make_request`.
    """
    request, _ = make_request(
        target, overrides, compares=False, keeps=False, outputs=outputs, debug=debug
    )
    with tempfile.TemporaryDirectory(prefix="tfopt-") as folder:
        # as in a project, so that what observers write lies in it too: see `Request.kept`
        yield attrs.evolve(request, folder=Path(folder, "runs", new_id()))


def checkpoints_of(
    request: Request,
    results: Path,
    *,
    resume: bool,
    folder: Path | None,
) -> ResumePoint | None:
    """Return the checkpoints for the options of `tfopt train`, None if none are wanted.

    :param results: the folder of the project's results.
    :raises InputError: see `open_checkpoints`.
    """
    if not resume and folder is None:
        return None
    from tfopt_core.app.checkpoints import FOLDER, open_checkpoints

    if request.recipe.workload.is_script:
        raise InputError(
            "a script keeps its own checkpoints (keras.callbacks.BackupAndRestore); tfopt's need a "
            "factory: leave --resume and --checkpoints out"
        )
    if folder is None:
        # ".." and "." are names of recipes too
        folder = results / FOLDER / re.sub(r"[^\w.-]+|^\.+", "-", request.recipe.name)
    return open_checkpoints(request, folder, resume=resume)


def project_folder(recipe: Recipe) -> Path:
    """Return the project of the recipe, for shipped recipes that of the working directory."""
    shipped = {path.resolve() for path in shipped_recipes().values()}
    of_user = recipe.path is not None and recipe.path.resolve() not in shipped
    return project_of(recipe.directory if of_user else Path.cwd())


def results_of(folder: Path) -> Path:
    """Return the folder of the results of recipes in this folder, made if it was missing.

    :raises InputError: if it cannot be made.
    """
    return _make_ours(project_of(folder))


def new_id() -> str:
    """Return a unique id that sorts by time."""
    return f"{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def _make_ours(project: Path) -> Path:
    """Create the folder of a project's results, with a .gitignore, and return it.

    :raises InputError: if it cannot be created, or is a link to somebody else's files.
    """
    folder = project / RESULTS
    try:
        ignore = folder / ".gitignore"
        if _leads_to_others(folder, project):
            raise InputError(
                f'"{folder}" is a link out of the project, to files of others in '
                f'"{folder.resolve()}", so nothing is written there; remove the link'
            )
        folder.mkdir(parents=True, exist_ok=True)
        if not ignore.exists():
            write_whole(ignore, [b"*\n"])
    except OSError as error:
        raise InputError(
            f'results cannot be kept in "{folder}": {error.strerror or error}; run tfopt where it '
            "may write"
        ) from error
    return folder


def _leads_to_others(folder: Path, project: Path) -> bool:
    """Return whether a folder lies outside of the project and is not tfopt's, as where a link in a
    repository leads to somebody's home."""
    if not folder.is_dir() or folder.resolve().is_relative_to(project.resolve()):
        return False
    return any(entry.name not in OWN_NAMES for entry in folder.iterdir())


def check_writable(option: str, path: Path) -> None:
    """Check that a file can be written, before minutes of measuring.

    :raises InputError: naming option and path.
    """
    if str(path) == "-":
        return  # standard output
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        return  # a pipe or a device
    folder = path.absolute().parent
    if os.path.isdir(path):
        raise InputError(f'{option}: "{path}" is a folder')
    if not os.path.isdir(folder):
        raise InputError(f'{option}: there is no folder "{path.parent}"')
    try:
        with contextlib.suppress(FileNotFoundError):
            os.stat(path)  # fails for a name that no file can have, and a loop of links
        with tempfile.NamedTemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(f'{option}: cannot write "{path}": {error.strerror or error}') from error


def seconds_of(option: str, text: str) -> float:
    """Return the seconds of an option's duration.

    :raises InputError: if it is no duration.
    """
    try:
        return duration(text)
    except Invalid as error:
        fault = error.faults[0]
        raise InputError(f"{option}: {fault.message}; {fault.mend}") from error
