"""Train once with the stack, without a baseline, for production; resume from a checkpoint."""

from __future__ import annotations

import os
import random
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs
from cattrs import structure, unstructure

from tfopt_core.commands.check import refuse_script
from tfopt_core.commands.request import check_none_described, cluster_of, make_request
from tfopt_core.errors import InputError
from tfopt_core.files import replace_file
from tfopt_core.hooks.stack import Stack
from tfopt_core.measurement.fingerprint import (
    OF_THE_PLACE,
    differences,
    fingerprint,
    portable_facts,
    recipe_differences,
)
from tfopt_core.statistics.runs import FULL, RunResult
from tfopt_core.training.job import CheckpointConfig, ResumePoint
from tfopt_core.training.messages import ClusterJoining, EpochDone, Message, Note
from tfopt_core.trials.outcomes import MODEL_FILE, run_folder
from tfopt_core.trials.processes import Processes, prepare
from tfopt_core.trials.request import Prepared, Request, ScheduledRun, Variant, with_prepared
from tfopt_core.workers import fork, spawn
from tfopt_core.workers.interrupts import sigterm_interrupts
from tfopt_core.workers.spawn import Runner
from tfopt_core.workers.supervise import NO_LIMITS

FOLDER = "checkpoints"
OnEpoch = Callable[[int, int, Mapping[str, float]], None]


def train_once(
    request: Request, quiet: Runner, runner: Runner, on_epoch: OnEpoch,
    point: ResumePoint | None = None, on_note: Callable[[str], None] = lambda text: None,
) -> tuple[RunResult, Path | None]:  # fmt: skip
    """Resolve the stack's settings, then train; a resumed training has its settings already.

    Return the run, and where this process saved the model: None if saving was not requested, the
    training failed, or another worker saved it.

    :param quiet: runner of the dry build.
    :param runner: runner of the training; without capture its output is shown.
    :param on_epoch: called after each epoch with its number from 1, their count, and its metrics.
    :param point: the checkpoints of the training, None to write none.
    :param on_note: called with notes on state that no checkpoint holds, and on untimed loops.
    :raises InputError, PreparationFailed: before the training starts.
    """
    with sigterm_interrupts(), _removed_at_the_end(request.folder):
        resuming = checkpoints = None
        if point is not None:
            resuming = resumed(point, request)
        prepared, request = resuming or prepare(request, quiet)
        if point is not None:
            about = {
                "recipe": request.recipe.to_dict(),
                "fingerprint": dict(point.code),
                "prepared": unstructure(prepared),
            }
            checkpoints = CheckpointConfig(folder=point.folder, start=point.start, about=about)
        for text in prepared.search_notes if resuming is None else ():
            on_note(text)

        def tell(message: Message) -> None:
            match message:
                case EpochDone():
                    on_epoch(message.epoch + 1, prepared.epochs, message.metrics)
                case Note():
                    on_note(message.text)
                case ClusterJoining(cluster=cluster):
                    others = (f"{name} ({address})" for name, address in cluster.others.items())
                    on_note(f"this is {cluster.name}; joining {', '.join(others)}")

        facts: dict[str, str] = {}
        if cluster_of(request) is not None:  # what must be the same on all its machines
            root = str(request.recipe.directory.resolve())
            facts = {
                "recipe": request.recipe.sha256(),
                **portable_facts(fingerprint(request), root),
            }
        run = Processes(request, runner).run(
            _scheduled(request), request.folder.name, tell,
            save=request.save_to is not None, checkpoints=checkpoints, facts=facts, measured=False,
        )  # fmt: skip
        # of several workers, only the chief has saved it
        return run, _saved(request, must=not facts) if run.ok else None


def train_script(request: Request, quiet: Runner, runner: Runner) -> RunResult:
    """Run a script once with the stack, in its own folder, with its own seeds and exit status.

    Settings of "auto" are resolved first, in a temporary private folder.

    :param quiet, runner: see `train_once`.
    :raises InputError, PreparationFailed: before the script runs.
    """
    notes: tuple[str, ...] = ()
    with _removed_at_the_end(request.folder):
        if any("auto" in stacked.settings.values() for stacked in request.plugins):
            prepared, request = prepare(request, quiet)
            notes = prepared.search_notes
        run = Processes(request, runner).run(
            _scheduled(request), request.folder.name, lambda message: None,
            save=request.save_to is not None, measured=False, own_seeds=request.seed is None,
        )  # fmt: skip
        _saved(request)
    return attrs.evolve(run, output_path=None, notes=(*notes, *run.notes))


def make_cluster_request(
    target: str, overrides: Sequence[str], *, workers: int | None, parameter_servers: int | None,
    save_to: Path | None = None, debug: bool = False,
) -> Request:  # fmt: skip
    """Return the request of a training whose processes are all started on this machine.

    :param workers, parameter_servers: the number of each; None for those of the recipe.
    :raises InputError: for errors in the recipe, and for a stack that trains in one process.
    """
    check_none_described(os.environ, "launch")
    refuse_script(target, "tfopt launch")

    def make(overrides: Sequence[str]) -> Request:
        return make_request(target, overrides, compares=False, save_to=save_to, debug=debug)[0]

    request = make(overrides)
    stack = Stack(request.plugins)
    stack.configure_runtime(request.machine, request.recipe)
    owners = [one.plugin for one in stack.all_changes if one.after.cluster != one.before.cluster]
    if not owners:
        raise InputError(
            '"launch" needs a plugin that trains over several processes; add one to the stack '
            "(`tfopt plugins` lists them), or use `tfopt train`"
        )
    counts = {"workers": workers, "parameter_servers": parameter_servers}
    changes = [f"plugins.{owners[0]}.{key}={n}" for key, n in counts.items() if n is not None]
    return make([*overrides, *changes]) if changes else request


@contextmanager
def runners_of(request: Request) -> Iterator[tuple[Runner, Runner]]:
    """Yield the runners of the dry build and of the training, which prints as it goes."""
    aloud = spawn.SpawnRunner(capture=False, limits=NO_LIMITS)
    # a process of a cluster, and that of a script, must be the first to use TensorFlow
    if request.recipe.workload.is_script or cluster_of(request) is not None:
        yield spawn.SpawnRunner(), aloud
        return
    # the dry build and the training are forks of one process, which starts TensorFlow once
    with fork.ForkRunner(spawn.SpawnRunner()) as quiet:
        yield quiet, quiet.with_spawn(aloud)


def _scheduled(request: Request) -> ScheduledRun:
    seed = request.seed or random.SystemRandom().randrange(1, 2**31)
    return ScheduledRun(0, 0, Variant(FULL, request.plugins), seed)


def _saved(request: Request, *, must: bool = False) -> Path | None:
    """Move the model to its requested path. Return that, None if this process saved none."""
    model = run_folder(request.folder, 0, 0, FULL) / MODEL_FILE
    if request.save_to is None or not (must or model.exists()):
        return None
    replace_file(model, request.save_to)
    return request.save_to


@contextmanager
def _removed_at_the_end(folder: Path) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise  # the folder still holds what could not be saved
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)


def resumed(point: ResumePoint, request: Request) -> tuple[Prepared, Request] | None:
    """Return the dry build of the training to resume, and the request with its seed and settings.

    Return None if there is no checkpoint.
    """
    if point.start is None:
        return None
    prepared = structure(point.values["about"]["prepared"], Prepared)
    gpus = request.machine.gpus if point.moved else prepared.gpus
    prepared = attrs.evolve(prepared, gpus=gpus)
    request = attrs.evolve(request, seed=point.values["seed"])
    return prepared, with_prepared(request, prepared)


def checkpoints_of(
    request: Request, results: Path, *, resume: bool, folder: Path | None
) -> ResumePoint | None:
    """Return the checkpoints that the options ask for, None if none are wanted.

    :param results: the folder of the project's results.
    :raises InputError: for a script, and as `open_checkpoints`.
    """
    if not resume and folder is None:
        return None
    if request.recipe.workload.is_script:
        raise InputError(
            "a script keeps its own checkpoints (keras.callbacks.BackupAndRestore); tfopt's need a "
            "factory: leave --resume and --checkpoints out"
        )
    if folder is None:
        # ".." and "." are names of recipes too
        folder = results / FOLDER / re.sub(r"[^\w.-]+|^\.+", "-", request.recipe.name)
    return open_checkpoints(request, folder, resume=resume)


def open_checkpoints(request: Request, folder: Path, *, resume: bool) -> ResumePoint:
    """Create the folder, and find the newest valid checkpoint in it.

    :param resume: whether to resume from it; otherwise there must be none.
    :raises InputError: if the folder holds other files, or checkpoints although `resume` is False,
        if all checkpoints are damaged, or if recipe, code, versions or environment have changed
        since the training began.
    """
    from tfopt_core.training.checkpoints.folder import make_ours, names_in, newest_in

    folder = folder.absolute()
    make_ours(folder)
    # independent of the project's path
    root = str(request.recipe.directory.resolve())
    code = {name.replace(root, "."): value for name, value in fingerprint(request).items()}
    if not resume:
        if names_in(folder):
            raise InputError(f'there are checkpoints already; use --resume, or remove "{folder}"')
        return ResumePoint(folder=folder, code=code)
    point = newest_in(folder)
    if point.start is None:
        if point.damaged:
            raise InputError(
                f'all checkpoints in "{folder}" are damaged ({", ".join(point.damaged)}); remove '
                "the folder to start again"
            )
        return attrs.evolve(point, code=code)
    values, about = point.values, point.values["about"]
    changed = [
        *recipe_differences(about["recipe"], request.recipe.to_dict()),
        *differences(*_parts(about["fingerprint"], code, of_the_place=False)),
    ]
    if changed:
        raise InputError(
            f'the training in "{folder}" cannot be resumed: {"; ".join(changed)}; undo that, or '
            "name another folder by --checkpoints to start again"
        )
    if request.seed not in (None, values["seed"]):
        raise InputError(
            f'the training in "{folder}" has the seed {values["seed"]}; leave --seed out'
        )
    moved = differences(*_parts(about["fingerprint"], code, of_the_place=True))
    return attrs.evolve(point, moved=moved, code=code)


def _parts(*sides: Mapping[str, str], of_the_place: bool) -> list[dict[str, str]]:
    """Return of each side the facts of the machine, or those of the training."""
    return [
        {name: value for name, value in facts.items() if (name in OF_THE_PLACE) is of_the_place}
        for facts in sides
    ]
