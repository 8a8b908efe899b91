"""Run a script once with the stack, in its own folder, with its own seeds and exit status."""

from __future__ import annotations

import random
import shutil

import attrs

from tfopt_core.app.train import OnAdapted
from tfopt_core.errors import InputError
from tfopt_core.files import replace_file
from tfopt_core.records.in_run import Adapted
from tfopt_core.records.messages import Progress
from tfopt_core.records.results import RunResult
from tfopt_core.records.variants import FULL, Turn, Variant
from tfopt_core.trials.preparation import prepare
from tfopt_core.trials.processes import MODEL_FILE, Processes, run_folder
from tfopt_core.trials.request import Request
from tfopt_core.workers.spawn import Runner


def train_script(
    request: Request, quiet: Runner, runner: Runner, on_adapted: OnAdapted | None = None
) -> RunResult:
    """Run the script once.

    Settings of "auto" are resolved first, in a copy of its folder that is thrown away.

    :param quiet, runner, on_adapted: as `train_once` takes them.
    :raises InputError, PreparationFailed: before the script runs.
    """
    notes: tuple[str, ...] = ()
    try:
        if any("auto" in stacked.settings.values() for stacked in request.plugins):
            prepared, request = prepare(request, quiet)
            notes = prepared.not_timed

        def tell(message: Progress) -> None:
            if isinstance(message, Adapted) and on_adapted is not None:
                on_adapted(message)

        seed = request.seed or random.SystemRandom().randrange(1, 2**31)
        turn = Turn(0, 0, Variant(FULL, request.plugins), seed)
        run = Processes(request, runner).run(
            turn, request.folder.name, tell,
            save=request.save_to is not None, adapt=on_adapted is not None,
            as_it_is=True, own_seeds=request.seed is None,
        )  # fmt: skip
        model = run_folder(request.folder, 0, 0, FULL) / MODEL_FILE
        if request.save_to is not None and model.exists():
            replace_file(model, request.save_to)
    except InputError:
        raise
    except BaseException:
        shutil.rmtree(request.folder, ignore_errors=True)
        raise
    shutil.rmtree(request.folder, ignore_errors=True)
    return attrs.evolve(run, output_path=None, notes=(*notes, *run.notes))
