"""Train once with the stack, without a baseline, for production."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
from cattrs import structure

from tfopt_core.app.clustered import cluster_of
from tfopt_core.errors import InputError
from tfopt_core.hooks import Cluster
from tfopt_core.measurement.fingerprint import fingerprint, shared_facts
from tfopt_core.records.dry_build import Prepared
from tfopt_core.records.in_run import Adapted
from tfopt_core.records.results import RunResult
from tfopt_core.records.resume_point import ResumePoint
from tfopt_core.records.variants import FULL, Turn, Variant
from tfopt_core.training.strategy.addresses import from_dict
from tfopt_core.trials.processes import MODEL_FILE, replace_file, run_folder
from tfopt_core.trials.request import Request, prepare, processes_of
from tfopt_core.workers.spawn import Runner

OnEpoch = Callable[[int, int, Mapping[str, float]], None]
OnAdapted = Callable[[Adapted], None]
OnNote = Callable[[str], None]


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
    on_adapted: OnAdapted | None = None,
    point: ResumePoint | None = None,
    on_note: OnNote = lambda text: None,
) -> Trained:
    """Resolve the stack's settings, then train; a resumed training has its settings already.

    :param quiet: runner of the dry build.
    :param runner: runner of the training; without capture its output is shown.
    :param on_epoch: called after each epoch with its number from 1, their count, and its metrics.
    :param on_adapted: if given, the training compares exact loops and calls it with the result.
    :param point: the checkpoints of the training, None to write none.
    :param on_note: called with notes on state that no checkpoint holds, and on untimed loops.
    :raises InputError, PreparationFailed: before the training starts.
    """
    from tfopt_core.app.checkpoints import checkpoint_config, resumed  # reads files by NumPy

    try:
        taken_up = None if point is None else resumed(point, request)
        prepared, request = taken_up or prepare(request, quiet)
        for text in prepared.not_timed if taken_up is None else ():
            on_note(text)

        def tell(message: dict[str, Any]) -> None:
            if message["type"] == "epoch":
                on_epoch(message["epoch"] + 1, prepared.epochs, message["metrics"])
            elif message["type"] == "adapted" and on_adapted is not None:
                on_adapted(adapted_of(message))
            elif message["type"] == "note":
                on_note(message["text"])
            elif message["type"] == "joining":
                on_note(joining_in_words(from_dict(message["cluster"])))

        seed = request.seed or random.SystemRandom().randrange(1, 2**31)
        facts = facts_of(request) if cluster_of(request) is not None else {}
        turn = Turn(0, 0, Variant(FULL, request.plugins), seed)
        processes = processes_of(request, runner)
        run = processes.run(
            turn, request.folder.name, tell,
            save=request.save_to is not None, adapt=on_adapted is not None,
            checkpoints=None if point is None else checkpoint_config(point, request, prepared),
            facts=facts, as_it_is=True,
        )  # fmt: skip
        saved_to = None
        model = run_folder(request.folder, 0, 0, FULL) / MODEL_FILE
        # only the chief of several workers saves it
        if run.ok and request.save_to is not None and (model.exists() or not facts):
            replace_file(model, request.save_to)
            saved_to = request.save_to
    except InputError:
        raise  # the folder still holds the model that could not be saved
    except BaseException:
        shutil.rmtree(request.folder, ignore_errors=True)
        raise
    shutil.rmtree(request.folder, ignore_errors=True)
    return Trained(run=run, prepared=prepared, saved_to=saved_to)


def adapted_of(message: Mapping[str, Any]) -> Adapted:
    """Return the result of a training that compares loops, from its message."""
    return structure(message["adapted"], Adapted)


def facts_of(request: Request) -> dict[str, str]:
    """Return what must be the same on all machines of this training."""
    root = str(request.recipe.directory.resolve())
    return shared_facts(fingerprint(request), request.recipe.sha256(), root)


def joining_in_words(cluster: Cluster) -> str:
    """Return `this is worker 0 of 2; joining worker 1 (10.0.0.2:2222)`."""
    others = ", ".join(f"{name} ({address})" for name, address in cluster.others.items())
    return f"this is {cluster.name}; joining {others}"
