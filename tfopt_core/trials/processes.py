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
from tfopt_core.statistics.timing.summary import summed_up
from tfopt_core.training.checkpoints.config import CheckpointConfig
from tfopt_core.training.job import Job
from tfopt_core.training.runtime import process_environment
from tfopt_core.workers.clusters.roles import is_role_folder
from tfopt_core.workers.spawn import OUTPUT_FILE, ProcessOutcome, Runner
from tfopt_core.workers.task import Task

# The functions of worker processes, see `Task`.
FACTORY = "tfopt_core.trials.factories:carry_out"
SCRIPT = "tfopt_core.trials.scripts.carry_out:carry_out"
PREPARED = "tfopt_core.trials.looks:prepared"
REPLAYED = "tfopt_core.trials.looks:replayed"
# What a run leaves in its folder for later: its output, and the model if one was asked for.
MODEL_FILE = "model.keras"
KEPT = (OUTPUT_FILE, MODEL_FILE)
# A script may print a million lines, in each of eight runs: beginning and end are kept.
OUTPUT_BYTES = 2**20
OUTPUT_LINES = 12
# What TensorFlow writes when it starts, before any log level counts.
_NOISE = re.compile(r"WARNING: All log messages before absl|[IWE]0000 \d\d:\d\d:|[IWE]\d{4} \d\d:")
CRASH_LINES = 8

Tell = Callable[[dict[str, Any]], None]


@attrs.frozen(kw_only=True)
class Processes:
    """Starts the processes of one measurement.

    :param folder: holds a private folder for each process.
    :param environment: the environment that processes start from.
    :param alike: whether all variants start from the same one.
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
        """Resolve the stack and build it dry.

        :param estimate: time some steps without the stack too.
        :param detail: look at each stage of the data, and at the memory of a run, too.
        :param quick: time some steps with the stack too.
        :raises InputError: for what the user can mend.
        :raises PreparationFailed: for what would fail in every run.
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
        """Train one turn of the schedule; failures are results too.

        :param save: keep the trained model in the run's folder.
        :param longest_seconds: stop once the step time is known, and after so many seconds of timed
            steps in any case; None trains to the end.
        :param adapt: find the fastest exact loop in the first seconds, and keep it.
        :param checkpoints: where and when to write checkpoints.
        :param facts: what all processes of the training compare before it.
        :param as_it_is: a training of the user's own: a script runs in its own folder, not in a
            copy.
        :param own_seeds: a script's own seeds stay.
        """
        folder = run_folder(self.folder, turn.round, turn.position, turn.variant.name)
        # what a killed run left there, the lock of a disk cache say, would harm this one
        shutil.rmtree(folder, ignore_errors=True)
        task, environment = self._task("run", turn.variant, turn.seed, folder)
        task = attrs.evolve(
            task, longest_seconds=longest_seconds, adapt=adapt, checkpoints=checkpoints
        )
        task = attrs.evolve(task, facts=facts or {}, measured=not as_it_is, own_seeds=own_seeds)
        if save:
            task = attrs.evolve(task, save_to=folder / MODEL_FILE)
        outcome = self.runner(task, environment, tell)
        _tidy(folder)
        result = RunResult(
            id=run_id, variant=turn.variant.name, round=turn.round, position=turn.position,
            seed=turn.seed, status="failed", process_seconds=outcome.seconds,
            started=outcome.started,
            output_path=str(outcome.output_path) if outcome.output_path else None,
        )  # fmt: skip
        result = _with_outcome(result, outcome, self.recipe.measure.target)
        return attrs.evolve(result, notes=(*result.notes, *_ended(outcome, "a run")))

    def replay(self, variant: Variant, seed: int, shared: Path) -> Replayed | str:
        """Replay a short training, the variant without plugins first; or why that failed.

        :param shared: the folder in which both variants' processes leave what is compared.
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
        except Exception as error:  # whatever the pipe brought, it is the replay that failed
            return f"sent no valid replay: {error}"

    def diagnose(
        self,
        plugins: tuple[StackedPlugin, ...],
        seed: int,
        asked: tuple[str, ...],
        tell: Tell,
        look: str,
        *,
        quick: bool = False,
    ) -> ProcessOutcome:
        """Take a step of the training with these plugins apart.

        :param look: the function that does it, see `Task`.
        :param asked: the plugins that are asked what they would do.
        :param quick: in seconds, with an in-run contrast of loops.
        """
        folder = self.folder / "diagnose"
        name = FULL if plugins else BASELINE
        task, environment = self._task("diagnose", Variant(name, plugins), seed, folder, look)
        task = attrs.evolve(task, asked=asked, quick=quick)
        outcome = self.runner(task, environment, tell)
        _tidy(folder)
        return outcome

    def _task(
        self, kind: Any, variant: Variant, seed: int, folder: Path, look: str = ""
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
            kind=kind, job=job, function=function, look=look, debug=self.debug, alike=self.alike
        )
        return task, process_environment(self.environment, runtime, debug=self.debug)


def _ended(outcome: ProcessOutcome, what: str) -> tuple[str, ...]:
    """Return what is to be said of the processes that outlived this one."""
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
    said = dict(message["run"])
    wrong = _why_script_failed(said)
    if wrong is not None:
        result = attrs.evolve(result, error=wrong, output_tail=tail)
    try:
        status = "ok" if wrong is None else "failed"
        figures = summed_up(said, target)
        told = {**attrs.asdict(result, recurse=False), **figures, "status": status}
        return structure(told, RunResult)
    except Exception as error:  # whatever the pipe brought, it is the run that failed
        return attrs.evolve(result, error=f"sent no valid result: {error}", output_tail=tail)


def _why_script_failed(said: dict[str, Any]) -> str | None:
    """Return why a script's run counts for nothing though it came to an end, None if it counts."""
    error, diverged = said.pop("script_error", None), said.pop("diverged", None)
    if error is not None:
        return str(error)
    if said.get("exit_status") and said.get("after_fits") is None:
        return f"the script ended with status {said['exit_status']}"
    return None if diverged is None else str(diverged)


def last_words(output: str) -> list[str]:
    """Return the lines of an output that tell how it ended: its crash, else the last ones."""
    lines = [line for line in output.splitlines() if not _NOISE.match(line)]
    crash = next((i for i, line in enumerate(lines) if line.startswith("Fatal Python error")), None)
    if crash is None:
        return lines[-OUTPUT_LINES:]
    # what faulthandler says of the thread that crashed, innermost frame first; a long list of
    # modules follows
    dump = lines[crash:]
    thread = next((i for i, line in enumerate(dump) if line.startswith("Current thread")), 1)
    return [dump[0], *dump[thread : thread + CRASH_LINES]]


def _tidy(folder: Path) -> None:
    """Remove what a process left in its private folder, such as the files of a disk cache."""
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
    """Keep the first and the last half of what is allowed of an output."""
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
    """Return the private folder of one run, below that of its measurement."""
    return folder / f"{round_:02d}-{position}-{variant}".replace(" ", "-")


def replace_file(source: Path, target: Path) -> None:
    """Copy the model that a run has left to where the user wants it: wholly or not at all.

    :raises InputError: if the target cannot be written; says where the source lies.
    """
    try:
        write_whole(target, pieces_of(source))
    except OSError as error:
        raise InputError(
            f'cannot write "{target}": {error.strerror or error}; it is kept as "{source}"'
        ) from error
