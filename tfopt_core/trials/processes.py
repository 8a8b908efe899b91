"""Start a worker process for each task of a measurement, and turn its outcome into a result."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
from cattrs import structure

from tfopt_core.errors import InputError, PreparationFailed, WorkloadError
from tfopt_core.files import pieces_of, write_whole
from tfopt_core.hooks import Machine
from tfopt_core.hooks.defaults import Defaults
from tfopt_core.hooks.stack import Stack, StackedPlugin
from tfopt_core.recipe import Recipe, TargetSpec
from tfopt_core.records.dry_build import Prepared
from tfopt_core.records.replay import Replayed
from tfopt_core.records.results import RunResult
from tfopt_core.records.variants import BASELINE, FULL, Turn, Variant
from tfopt_core.statistics.timing.summary import with_figures
from tfopt_core.training.checkpoints.config import CheckpointConfig
from tfopt_core.training.job import Job
from tfopt_core.training.runtime import process_environment
from tfopt_core.training.scripts.overlay_folder import OverlayMounts, why_no_overlay
from tfopt_core.training.scripts.private_folder import PRIVATE
from tfopt_core.workers.clusters.roles import is_role_folder
from tfopt_core.workers.spawn import OUTPUT_FILE, ProcessOutcome, Runner
from tfopt_core.workers.task import Task

# The functions of worker processes; see `Task`.
FACTORY = "tfopt_core.trials.factories:carry_out"
SCRIPT = "tfopt_core.trials.scripts.carry_out:carry_out"
PREPARED = "tfopt_core.trials.looks:prepared"
REPLAYED = "tfopt_core.trials.looks:replayed"
# The files that a run leaves in its folder: its output, and the model if it is saved.
MODEL_FILE = "model.keras"
KEPT = (OUTPUT_FILE, MODEL_FILE)
# Of longer outputs the beginning and the end are kept: a script may print a million lines.
OUTPUT_BYTES = 2**20
OUTPUT_LINES = 12
# TensorFlow's messages at its start, before any log level takes effect.
_NOISE = re.compile(r"WARNING: All log messages before absl|[IWE]0000 \d\d:\d\d:|[IWE]\d{4} \d\d:")
CRASH_LINES = 8

Tell = Callable[[dict[str, Any]], None]


@attrs.frozen(kw_only=True)
class Processes:
    """Starts the processes of one measurement.

    :param folder: the folder that holds a private folder for each process.
    :param environment: the environment that processes start from.
    :param alike: whether all variants start from the same environment.
    """

    recipe: Recipe
    machine: Machine
    folder: Path
    environment: Mapping[str, str]
    runner: Runner
    debug: bool = False
    alike: bool = True

    def prepare(
        self,
        plugins: tuple[StackedPlugin, ...],
        seed: int,
        *,
        estimate: bool = False,
        detail: bool = False,
        quick: bool = False,
    ) -> Prepared:
        """Make the dry build of the stack and return it.

        :param estimate: also time some steps without the stack.
        :param detail: also describe each stage of the data, and the memory of a run.
        :param quick: also time some steps with the stack.
        :raises InputError: for an error that the user can correct.
        :raises PreparationFailed: for an error that would stop every run.
        """
        folder = self.folder / "prepare"
        task, environment = self._task("prepare", Variant(FULL, plugins), seed, folder, PREPARED)
        task = attrs.evolve(task, estimate=estimate, detail=detail, quick=quick)
        outcome = self.runner(task, environment, lambda message: None)
        _tidy(folder)
        message = outcome.message
        if message is not None and message["type"] == "prepared":
            prepared = structure(message["prepared"], Prepared)
            ended = (*prepared.warnings, *_ended(outcome, "the dry build"))
            return attrs.evolve(prepared, seconds=outcome.seconds, warnings=ended)
        if message is None:
            cause = f"the dry build: {outcome.cause}"
            raise PreparationFailed(cause, last_words(outcome.output_tail))
        text = message["message"]
        if self.debug and outcome.output_tail:
            text = f"{outcome.output_tail.rstrip()}\n{text}"
        if message["error"] == WorkloadError.__name__:
            raise WorkloadError(text)
        if message["exit_code"] == InputError.exit_code:
            raise InputError(text)
        raise PreparationFailed(text)

    def run(
        self,
        turn: Turn,
        run_id: str,
        tell: Tell,
        *,
        save: bool = False,
        longest_seconds: float | None = None,
        adapt: bool = False,
        checkpoints: CheckpointConfig | None = None,
        facts: Mapping[str, str] | None = None,
        as_it_is: bool = False,
        own_seeds: bool = False,
    ) -> RunResult:
        """Train one turn of the schedule and return its result; a failure is a result too.

        :param save: keep the trained model in the run's folder.
        :param longest_seconds: stop once the step time is known, or after this many seconds of
            timed steps; None trains to the end.
        :param adapt: find the fastest exact loop in the first seconds, and keep it.
        :param checkpoints: where and when to write checkpoints.
        :param facts: what all processes of the training compare before it.
        :param as_it_is: a training of the user's own: a script runs in its own folder, not in a
            copy.
        :param own_seeds: a script's own seeds stay.
        """
        folder = run_folder(self.folder, turn.round, turn.position, turn.variant.name)
        # a killed run may have left files that harm this one, such as the lock of a disk cache
        shutil.rmtree(folder, ignore_errors=True)
        task, environment = self._task("run", turn.variant, turn.seed, folder)
        task = attrs.evolve(
            task, longest_seconds=longest_seconds, adapt=adapt, checkpoints=checkpoints
        )
        task = attrs.evolve(task, facts=facts or {}, measured=not as_it_is, own_seeds=own_seeds)
        if save:
            task = attrs.evolve(task, save_to=folder / MODEL_FILE)
        outcome = self.runner(task, environment, tell)
        written = () if task.overlay is None else task.overlay.written()
        _tidy(folder)
        result = RunResult(
            id=run_id, variant=turn.variant.name, round=turn.round, position=turn.position,
            seed=turn.seed, status="failed", process_seconds=outcome.seconds,
            started=outcome.started,
            output_path=str(outcome.output_path) if outcome.output_path else None, written=written,
        )  # fmt: skip
        result = _with_outcome(result, outcome, self.recipe.measure.target)
        return attrs.evolve(result, notes=(*result.notes, *_ended(outcome, "a run")))

    def replay(self, variant: Variant, seed: int, shared: Path) -> Replayed | str:
        """Replay a short training, the variant without plugins first. Return it, or why it failed.

        :param shared: the folder that both variants' processes share.
        """
        folder = self.folder / "replay" / variant.name
        shutil.rmtree(folder, ignore_errors=True)
        task, environment = self._task("replay", variant, seed, folder, REPLAYED)
        task = attrs.evolve(task, replay_folder=shared)
        outcome = self.runner(task, environment, lambda message: None)
        _tidy(folder)
        message = outcome.message
        if message is None:
            return outcome.cause or "no cause is known"
        if message["type"] != "replayed":
            return str(message.get("message", "sent no replay"))
        try:
            return structure(message["replayed"], Replayed)
        except Exception as error:  # an invalid message is a failed replay
            return f"sent no valid replay: {error}"

    def diagnose(
        self,
        plugins: tuple[StackedPlugin, ...],
        seed: int,
        candidates: tuple[str, ...],
        tell: Tell,
        look: str,
        *,
        quick: bool = False,
    ) -> ProcessOutcome:
        """Diagnose the training with these plugins and return the process' outcome.

        :param look: the function that diagnoses, see `Task`.
        :param candidates: the plugins that are asked for suggestions.
        :param quick: whether to take only seconds, with an in-run contrast of loops.
        """
        folder = self.folder / "diagnose"
        name = FULL if plugins else BASELINE
        task, environment = self._task("diagnose", Variant(name, plugins), seed, folder, look)
        task = attrs.evolve(task, asked=candidates, quick=quick)
        outcome = self.runner(task, environment, tell)
        _tidy(folder)
        return outcome

    def _task(
        self,
        kind: Any,
        variant: Variant,
        seed: int,
        folder: Path,
        look: str = "",
        *,
        measured: bool = True,
    ) -> tuple[Task, dict[str, str]]:
        stack = Stack(variant.plugins, Defaults())
        runtime = stack.configure_runtime(self.machine, self.recipe)
        job = Job(
            recipe=self.recipe,
            plugins=variant.plugins,
            variant=variant.name,
            seed=seed,
            machine=self.machine,
            folder=folder,
            runtime=runtime,
            runtime_changes=stack.all_changes,
        )
        function = FACTORY if self.recipe.workload.script is None else SCRIPT
        task = Task(
            kind=kind, job=job, function=function, look=look, debug=self.debug, alike=self.alike,
            measured=measured,
        )  # fmt: skip
        if task.is_private:
            work, own = folder / PRIVATE, self.recipe.working_directory.resolve()
            shutil.rmtree(work, ignore_errors=True)  # of a process that was killed
            why = why_no_overlay(own, self.folder)
            overlay = OverlayMounts.of(own, work, self.folder) if why is None else None
            task = attrs.evolve(task, overlay=overlay, why_no_overlay=why or "")
        return task, process_environment(self.environment, runtime, debug=self.debug)


def _ended(outcome: ProcessOutcome, what: str) -> tuple[str, ...]:
    """Return a warning about processes that outlived this one."""
    if not outcome.left_behind:
        return ()
    named = ", ".join(f'"{command}"' for command in outcome.left_behind)
    return (f"{what} left processes in sessions of their own, which were ended: {named}",)


def _with_outcome(
    result: RunResult, outcome: ProcessOutcome, target: TargetSpec | None
) -> RunResult:
    message = outcome.message
    tail = "\n".join(last_words(outcome.output_tail)) or None
    if message is None:
        return attrs.evolve(result, error=outcome.cause, output_tail=tail)
    if message["type"] == "served":
        return attrs.evolve(result, status="served")
    if message["type"] != "result":
        return attrs.evolve(result, error=message["message"], output_tail=tail)
    run = dict(message["run"])
    failure = _why_script_failed(run)
    if failure is not None:
        result = attrs.evolve(result, error=failure, output_tail=tail)
    try:
        status = "ok" if failure is None else "failed"
        figures = with_figures(run, target)
        data = {**attrs.asdict(result, recurse=False), **figures, "status": status}
        return structure(data, RunResult)
    except Exception as error:  # an invalid message is a failed run
        return attrs.evolve(result, error=f"sent no valid result: {error}", output_tail=tail)


def _why_script_failed(run: dict[str, Any]) -> str | None:
    """Return why a script's run that ended does not count, None if it counts."""
    error, diverged = run.pop("script_error", None), run.pop("diverged", None)
    if error is not None:
        return str(error)
    if run.get("exit_status") and run.get("after_fits") is None:
        return f"the script ended with status {run['exit_status']}"
    return None if diverged is None else str(diverged)


def last_words(output: str) -> list[str]:
    """Return the lines of an output that show how it ended: its crash, else the last lines."""
    lines = [line for line in output.splitlines() if not _NOISE.match(line)]
    crash = next((i for i, line in enumerate(lines) if line.startswith("Fatal Python error")), None)
    if crash is None:
        return lines[-OUTPUT_LINES:]
    # faulthandler's frames of the crashed thread, innermost first; a list of modules follows
    dump = lines[crash:]
    thread = next((i for i, line in enumerate(dump) if line.startswith("Current thread")), 1)
    return [dump[0], *dump[thread : thread + CRASH_LINES]]


def _tidy(folder: Path) -> None:
    """Remove the files that a process left in its private folder, such as those of a disk cache."""
    for entry in folder.iterdir() if folder.is_dir() else ():
        if entry.name == OUTPUT_FILE:
            _shorten(entry)
        if entry.name in KEPT:
            continue
        if entry.is_dir() and not entry.is_symlink() and is_role_folder(entry.name):
            _tidy(entry)
        elif entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


def _shorten(output: Path) -> None:
    """Keep the beginning and the end of a long output, half of the limit each."""
    size, half = output.stat().st_size, OUTPUT_BYTES // 2
    if size <= OUTPUT_BYTES:
        return
    with output.open("rb") as file:
        head = file.read(half)
        file.seek(size - half)
        tail = file.read()
    left_out = f"\n... {size - 2 * half:,} bytes left out ...\n".encode()
    output.write_bytes(head + left_out + tail)


def run_folder(folder: Path, round_: int, position: int, variant: str) -> Path:
    """Return the private folder of one run, within that of its measurement."""
    return folder / f"{round_:02d}-{position}-{variant}".replace(" ", "-")


def replace_file(source: Path, target: Path) -> None:
    """Copy a run's model to the path that the user wants, completely or not at all.

    :raises InputError: if the target cannot be written, naming the source.
    """
    try:
        write_whole(target, pieces_of(source))
    except OSError as error:
        raise InputError(
            f'cannot write "{target}": {error.strerror or error}; it is kept as "{source}"'
        ) from error
