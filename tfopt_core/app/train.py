"""Train once with the stack, without a baseline: production use."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs

from tfopt_core.app.clustered import cluster_of
from tfopt_core.errors import InputError
from tfopt_core.files import replace_file
from tfopt_core.hooks import Cluster
from tfopt_core.measurement.fingerprint import fingerprint, shared_facts
from tfopt_core.records.dry_build import Prepared
from tfopt_core.records.in_run import Adapted
from tfopt_core.records.messages import ClusterJoining, EpochDone, Note, Progress
from tfopt_core.records.results import RunResult
from tfopt_core.records.resume_point import ResumePoint
from tfopt_core.records.variants import FULL, Turn, Variant
from tfopt_core.trials.preparation import prepare
from tfopt_core.trials.processes import MODEL_FILE, Processes, run_folder
from tfopt_core.trials.request import Request
from tfopt_core.workers.spawn import Runner

OnEpoch = Callable[[int, int, Mapping[str, float]], None]
OnAdapted = Callable[[Adapted], None]
OnNote = Callable[[str], None]


@attrs.frozen(kw_only=True)
class Trained:
    """A training's run, and the dry build before it.

    :param saved_to: where this process has saved the model, None if it saved none: it was not asked
        to, the training failed, or another of several workers has.
    """

    run: RunResult
    prepared: Prepared
    saved_to: Path | None = None


def train_once(
    request: Request,
    quiet: Runner,
    runner: Runner,
    on_epoch: OnEpoch,
    on_adapted: OnAdapted | None = None,
    point: ResumePoint | None = None,
    on_note: OnNote = lambda text: None,
) -> Trained:
    """Resolve the stack's settings, then train; a training that goes on has them already.

    :param quiet: carries out the dry build.
    :param runner: carries out the training; one that does not capture lets output through.
    :param on_epoch: told of each epoch: its number from 1, how many, and its metrics.
    :param on_adapted: has the training compare exact loops, and is told which one it keeps.
    :param point: the checkpoints of the training, None to keep none.
    :param on_note: told of what no checkpoint can hold, and of loops that could not be timed.
    :raises InputError, PreparationFailed: before the training starts.
    """
    from tfopt_core.app.checkpoints import checkpoint_config, resumed  # reads files by NumPy

    try:
        taken_up = None if point is None else resumed(point, request)
        prepared, request = taken_up or prepare(request, quiet)
        for text in prepared.not_timed if taken_up is None else ():
            on_note(text)

        def tell(message: Progress) -> None:
            match message:
                case EpochDone():
                    on_epoch(message.epoch + 1, prepared.epochs, message.metrics)
                case Adapted() if on_adapted is not None:
                    on_adapted(message)
                case Note():
                    on_note(message.text)
                case ClusterJoining():
                    on_note(joining_in_words(message.cluster))

        seed = request.seed or random.SystemRandom().randrange(1, 2**31)
        facts = facts_of(request) if cluster_of(request) is not None else {}
        turn = Turn(0, 0, Variant(FULL, request.plugins), seed)
        run = Processes(request, runner).run(
            turn, request.folder.name, tell,
            save=request.save_to is not None, adapt=on_adapted is not None,
            keeping=None if point is None else checkpoint_config(point, request, prepared),
            facts=facts, as_it_is=True,
        )  # fmt: skip
        saved_to = None
        model = run_folder(request.folder, 0, 0, FULL) / MODEL_FILE
        # of several workers the chief alone has saved it
        if run.ok and request.save_to is not None and (model.exists() or not facts):
            replace_file(model, request.save_to)
            saved_to = request.save_to
    except InputError:
        raise  # what could not be saved lies in the folder still
    except BaseException:
        shutil.rmtree(request.folder, ignore_errors=True)
        raise
    shutil.rmtree(request.folder, ignore_errors=True)
    return Trained(run=run, prepared=prepared, saved_to=saved_to)


def facts_of(request: Request) -> dict[str, str]:
    """Return what must be the same wherever this training's processes are started."""
    root = str(request.recipe.directory.resolve())
    return shared_facts(fingerprint(request), request.recipe.sha256(), root)


def joining_in_words(cluster: Cluster) -> str:
    """`this is worker 0 of 2; waiting for worker 1 (10.0.0.2:2222)`."""
    others = ", ".join(f"{name} ({address})" for name, address in cluster.others.items())
    return f"this is {cluster.name}; joining {others}"
