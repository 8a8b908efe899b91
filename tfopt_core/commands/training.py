"""Train once with the stack, without a baseline, for production."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from tfopt_core.commands.request import cluster_of
from tfopt_core.errors import InputError
from tfopt_core.files import replace_file
from tfopt_core.measurement.fingerprint import fingerprint, shared_facts
from tfopt_core.records.dry_build import Prepared
from tfopt_core.records.messages import ClusterJoining, EpochDone, Note, Progress
from tfopt_core.records.results import RunResult
from tfopt_core.records.variants import FULL, ScheduledRun, Variant
from tfopt_core.trials.preparation import prepare
from tfopt_core.trials.processes import Processes
from tfopt_core.trials.request import Request
from tfopt_core.trials.run_files import MODEL_FILE, run_folder
from tfopt_core.workers.interrupts import sigterm_interrupts
from tfopt_core.workers.spawn import Runner

if TYPE_CHECKING:
    from tfopt_core.training.checkpoints.config import ResumePoint

OnEpoch = Callable[[int, int, Mapping[str, float]], None]


@attrs.frozen(kw_only=True)
class Trained:
    """The run of a training, and its dry build.

    :param saved_to: where this process saved the model; None if saving was not requested, the
        training failed, or another worker saved it.
    """

    run: RunResult
    prepared: Prepared
    saved_to: Path | None = None


def train_once(
    request: Request,
    quiet: Runner,
    runner: Runner,
    on_epoch: OnEpoch,
    point: ResumePoint | None = None,
    on_note: Callable[[str], None] = lambda text: None,
) -> Trained:
    """Resolve the stack's settings, then train; a resumed training has its settings already.

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
            from tfopt_core.commands.checkpoints import checkpoint_config, resumed  # imports NumPy

            resuming = resumed(point, request)
        prepared, request = resuming or prepare(request, quiet)
        if point is not None:
            checkpoints = checkpoint_config(point, request, prepared)
        for text in prepared.search_notes if resuming is None else ():
            on_note(text)

        def tell(message: Progress) -> None:
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
            facts = shared_facts(fingerprint(request), request.recipe.sha256(), root)
        run = Processes(request, runner).run(
            _scheduled(request), request.folder.name, tell,
            save=request.save_to is not None, checkpoints=checkpoints, facts=facts, as_it_is=True,
        )  # fmt: skip
        # of several workers, only the chief has saved it
        saved_to = _saved(request, must=not facts) if run.ok else None
    return Trained(run=run, prepared=prepared, saved_to=saved_to)


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
            save=request.save_to is not None, as_it_is=True, own_seeds=request.seed is None,
        )  # fmt: skip
        _saved(request)
    return attrs.evolve(run, output_path=None, notes=(*notes, *run.notes))


@contextmanager
def runners_of(request: Request) -> Iterator[tuple[Runner, Runner]]:
    """Yield the runners of the dry build and of the training, which prints as it goes."""
    from tfopt_core.workers.fork import ForkRunner
    from tfopt_core.workers.spawn import SpawnRunner
    from tfopt_core.workers.supervise import NO_LIMITS

    aloud = SpawnRunner(capture=False, limits=NO_LIMITS)
    # a process of a cluster, and that of a script, must be the first to use TensorFlow
    if request.recipe.workload.is_script or cluster_of(request) is not None:
        yield SpawnRunner(), aloud
        return
    # the dry build and the training are forks of one process, which starts TensorFlow once
    with ForkRunner(SpawnRunner(), preloaded=()) as quiet:
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
