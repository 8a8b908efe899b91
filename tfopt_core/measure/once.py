"""One training with the stack, without a baseline: production use."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Mapping
from typing import Any

from cattrs import structure

from tfopt_core.errors import InputError
from tfopt_core.measure.adapted import Adapted
from tfopt_core.measure.isolate import Runner
from tfopt_core.measure.prepared import Prepared
from tfopt_core.measure.processes import MODEL_FILE, replace_file, run_folder
from tfopt_core.measure.request import Request, prepare, processes_of
from tfopt_core.measure.schedule import FULL, Turn, Variant
from tfopt_core.store.results import RunResult

OnEpoch = Callable[[int, int, Mapping[str, float]], None]
OnAdapted = Callable[[Adapted], None]


def train_once(
    request: Request,
    quiet: Runner,
    runner: Runner,
    on_epoch: OnEpoch,
    on_adapted: OnAdapted | None = None,
) -> tuple[RunResult, Prepared]:
    """Resolve the stack's settings, then train.

    :param quiet: carries out the dry build.
    :param runner: carries out the training; one that does not capture lets output through.
    :param on_epoch: told of each epoch: its number from 1, how many, and its metrics.
    :param on_adapted: has the training compare exact loops, and is told which one it keeps.
    :raises InputError, PreparationFailed: before the training starts.
    """
    try:
        prepared, request = prepare(request, quiet)

        def tell(message: dict[str, Any]) -> None:
            if message["type"] == "epoch":
                on_epoch(message["epoch"] + 1, prepared.epochs, message["metrics"])
            elif message["type"] == "adapted" and on_adapted is not None:
                on_adapted(structure(message["adapted"], Adapted))

        seed = request.seed or random.SystemRandom().randrange(1, 2**31)
        turn = Turn(0, 0, Variant(FULL, request.plugins), seed)
        processes = processes_of(request, runner)
        run = processes.run(
            turn, request.folder.name, tell,
            save=request.save_to is not None, adapt=on_adapted is not None,
        )  # fmt: skip
        if run.ok and request.save_to is not None:
            trained = run_folder(request.folder, 0, 0, FULL) / MODEL_FILE
            replace_file(trained, request.save_to)
    except InputError:
        raise  # what could not be saved lies in the folder still
    except BaseException:
        shutil.rmtree(request.folder, ignore_errors=True)
        raise
    shutil.rmtree(request.folder, ignore_errors=True)
    return run, prepared
