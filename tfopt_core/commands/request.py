"""Build the request of a measurement or training from a command's arguments.

And the project that it belongs to: the folder of its results, in which one process at a time
measures.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path

import attrs
from rich.console import Console

from tfopt_core.commands.check import check_recipe, recipe_of_script, script_of
from tfopt_core.commands.doctor import check_versions
from tfopt_core.commands.output import check_writable
from tfopt_core.errors import InputError
from tfopt_core.files import write_whole
from tfopt_core.hooks.context import ClusterOptions
from tfopt_core.hooks.machine import read_machine
from tfopt_core.hooks.stack import Stack
from tfopt_core.recipe.formats import duration
from tfopt_core.recipe.model import Recipe
from tfopt_core.recipe.reading import UnwrittenRecipe
from tfopt_core.recipe.shipped import shipped_recipes
from tfopt_core.recipe.values import Invalid
from tfopt_core.store.lock import measuring_alone
from tfopt_core.training.runtime import check_environment
from tfopt_core.trials.request import Request

# Files that mark the root of a project.
MARKERS = (".tfopt", ".git", "pyproject.toml", "setup.py")
RESULTS = ".tfopt"
# Its folder with the searches of `tfopt tune`.
SEARCHES = "tune"
# What tfopt keeps in the folder of results.
OWN_NAMES = frozenset({
    ".gitignore", "checkpoints", "measuring.lock", "observed", "runs", "runs.sqlite",
    "runs.sqlite-shm", "runs.sqlite-wal", SEARCHES,
})  # fmt: skip
# Variables that give a process its role in a cluster that was started by others.
DESCRIBE_A_CLUSTER = ("TF_CONFIG", "SLURM_PROCID")


def make_request(
    target: str | Path | UnwrittenRecipe,
    overrides: Sequence[str],
    *,
    compares: bool,
    keeps: bool = True,
    save_to: Path | None = None,
    debug: bool = False,
) -> tuple[Request, Path]:
    """Check everything that can be checked without TensorFlow. Return a request.

    :param target: a recipe; or the path of a script, which has no stack.
    :param compares: whether baseline and stack will be compared.
    :param keeps: whether anything is stored in the project.
    :returns: the request, and the folder of the project's results.
    :raises InputError: for invalid input, with all problems of a recipe at once.
    """
    check_versions()
    if isinstance(target, str) and (script := script_of(target)) is not None:
        target, compares = recipe_of_script(script), False
    checked = check_recipe(target, overrides, compares=compares)
    environment = {**os.environ, **checked.recipe.workload.environment}
    check_environment(environment)
    if save_to is not None and save_to.suffix != ".keras":
        raise InputError(f'--save: "{save_to}" does not end in .keras, the format of Keras 3')
    if save_to is not None and checked.recipe.workload.has_own_loop:
        raise InputError("--save: a script with a training loop of its own saves its model itself")
    check_writable("--save", save_to)
    project = project_of(folder_of(checked.recipe))
    results = results_of(project) if keeps else project / RESULTS
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
    target: str | Path | UnwrittenRecipe, overrides: Sequence[str], *, debug: bool = False
) -> Iterator[Request]:
    """Yield a request whose processes leave nothing behind, for the time of the context.

    :raises InputError: as `make_request`.
    """
    request, _ = make_request(target, overrides, compares=False, keeps=False, debug=debug)
    with tempfile.TemporaryDirectory(prefix="tfopt-") as folder:
        # as in a project, so that what observers write lies in it too: see `Request.kept`
        yield attrs.evolve(request, folder=Path(folder, "runs", new_id()))


def cluster_of(request: Request) -> ClusterOptions | None:
    """Return the cluster options of the stack; None for a training in a single process."""
    return Stack(request.plugins).configure_runtime(request.machine, request.recipe).cluster


def check_none_described(environment: Mapping[str, str], command: str) -> None:
    """Refuse to start a cluster in a process that already belongs to one.

    :raises InputError: naming the variable.
    """
    for name in DESCRIBE_A_CLUSTER:
        if environment.get(name):
            raise InputError(
                f"{name} is set, and `tfopt {command}` starts all workers on this machine; unset "
                "it, or run `tfopt train` on each machine"
            )


def folder_of(recipe: Recipe) -> Path:
    """Return the folder of a recipe; for one that ships or has no file the working directory."""
    shipped = (path.resolve() for path in shipped_recipes().values())
    of_user = recipe.path is not None and recipe.path.resolve() not in shipped
    return recipe.directory if of_user else Path.cwd()


def project_of(start: Path) -> Path:
    """Return the nearest project root, from this folder upwards; this folder if there is none."""
    for folder in (start, *start.parents):
        if any((folder / marker).exists() for marker in MARKERS):
            return folder
    return start


@contextmanager
def alone_in_project(
    results: Path, command: str, console: Console, *, no_wait: bool = False
) -> Iterator[None]:
    """Wait until no other measurement is under way in a project, and keep others waiting.

    :param results: the folder of the project's results.
    :param command: the command of this process, for those that wait.
    :param console: shows who is waited for.
    :param no_wait: do not wait.
    :raises InputError: with `no_wait`, naming the process that measures.
    :raises StoreError: if the folder cannot be written.
    """
    from tfopt_core.report.live import make_phases

    with ExitStack() as shown:
        on_phase: Callable[[str], None] | None = None

        def wait(other: str) -> None:
            nonlocal on_phase
            other = other or "another tfopt"  # it has the lock and has not written its name yet
            if no_wait:
                raise InputError(
                    f'{other} is measuring in "{results.parent}"; leave --no-wait out to wait for '
                    "it"
                )
            on_phase = on_phase or shown.enter_context(make_phases(console))
            on_phase(f"waiting for {other}, which is measuring in this project")

        with measuring_alone(results, f'process {os.getpid()} ("{command}")', wait):
            shown.close()
            yield


def new_id() -> str:
    """Return a unique id that sorts by time."""
    return f"{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def results_of(project: Path) -> Path:
    """Return the folder of a project's results, made with a .gitignore if it was missing.

    :raises InputError: if it cannot be created, or is a link to somebody else's files.
    """
    folder = project / RESULTS
    try:
        ignore = folder / ".gitignore"
        # such as a link in a repository that leads to somebody's home
        elsewhere = folder.is_dir() and not folder.resolve().is_relative_to(project.resolve())
        if elsewhere and any(entry.name not in OWN_NAMES for entry in folder.iterdir()):
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


def seconds_of(option: str, text: str | None) -> float | None:
    """Return the seconds of an option's duration, None without one.

    :raises InputError: if it is no duration.
    """
    try:
        return None if text is None else duration(text)
    except Invalid as error:
        raise InputError(f"{option}: {error}") from error
