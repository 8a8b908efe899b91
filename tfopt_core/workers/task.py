"""The task that a worker process is given, and the messages that it may send. No TensorFlow."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import attrs

from tfopt_core.errors import TfoptError, describe
from tfopt_core.training.checkpoints.config import CheckpointConfig
from tfopt_core.training.job import Job
from tfopt_core.training.scripts.overlay_folder import OverlayMounts

Kind = Literal["prepare", "run", "replay", "diagnose"]


@attrs.frozen(kw_only=True)
class Task:
    """One job for one process.

    "prepare" resolves the stack's settings and builds everything up to `compile`, untimed; "run"
    trains; "replay" trains a few fixed batches for the equivalence certificate, untimed;
    "diagnose" takes a step apart, and trains nothing that is kept.

    :param function: what the process calls, as "module:function"; it is given the task and `send`,
        and returns the last message.
    :param look: what a process that trains nothing calls once the workload is loaded, written
        likewise; it is given the task, `send` and what loads the workload of a job.
    :param alike: whether all variants start from the same environment.
    :param estimate: a preparation also times some steps without the stack.
    :param detail: a preparation also looks at each stage of the data and at the memory of a run.
    :param save_to: where the trained model goes, None to keep none.
    :param longest_seconds: a run ends once its step time is known, and after so many seconds of
        timed steps in any case; None trains to the end.
    :param adapt: a run looks for the fastest exact loop in its first seconds, and keeps it.
    :param checkpoints: where a run writes checkpoints, and from which it resumes; None for none.
    :param replay_folder: where a replay reads and writes what is compared.
    :param measured: whether a run is one of a measurement, and not a training of the user's own: a
        script writes into a private folder, and the end may be cut short.
    :param overlay: the mounts of that folder, which the process starts behind; None for a copy of
        it, or none.
    :param why_no_overlay: why this machine mounts none.
    :param own_seeds: whether a script's own seeds stay, and none are set for it.
    :param quick: a diagnosis takes seconds, and compares loops within the training too; a
        preparation also times some steps with the stack.
    :param facts: what must be the same for all processes of a training, by name.
    :param asked: the plugins that a diagnosis asks what they would do; each can be imported.
    """

    kind: Kind
    job: Job
    function: str
    look: str = ""
    alike: bool = True
    estimate: bool = False
    detail: bool = False
    save_to: Path | None = None
    longest_seconds: float | None = None
    adapt: bool = False
    checkpoints: CheckpointConfig | None = None
    replay_folder: Path | None = None
    measured: bool = True
    overlay: OverlayMounts | None = None
    why_no_overlay: str = ""
    own_seeds: bool = False
    quick: bool = False
    facts: Mapping[str, str] = attrs.field(factory=dict)
    asked: tuple[str, ...] = ()
    debug: bool = False

    @property
    def is_private(self) -> bool:
        """Whether a script writes into a private folder."""
        workload = self.job.recipe.workload
        return self.measured and workload.script is not None and workload.isolate is not False


# What each type of message must hold; anything else on the pipe is a failure of the run.
MESSAGES: dict[str, frozenset[str]] = {
    "joining": frozenset({"cluster", "seconds"}),
    "joined": frozenset(),
    "started": frozenset(),
    "step": frozenset({"epoch", "step"}),
    "epoch": frozenset({"epoch", "metrics"}),
    "adapted": frozenset({"adapted"}),
    "note": frozenset({"text"}),
    "prepared": frozenset({"prepared"}),
    "replayed": frozenset({"replayed"}),
    "phase": frozenset({"phase"}),
    "measured": frozenset({"diagnosed"}),
    "asking": frozenset({"plugin"}),
    "diagnosed": frozenset({"diagnosed"}),
    "result": frozenset({"run"}),
    "served": frozenset(),
    "error": frozenset({"error", "message", "exit_code"}),
}
FINAL = frozenset({"prepared", "replayed", "diagnosed", "result", "served", "error"})
# The last word of a process that did what it was asked to; one that only serves others trains
# nothing.
ANSWERS = {
    "prepare": ("prepared",), "run": ("result", "served"), "replay": ("replayed",),
    "diagnose": ("diagnosed",),
}  # fmt: skip


def named_function(name: str) -> Callable[..., Any]:
    """Import and return the function that is named "module:function"."""
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)  # type: ignore[no-any-return]


def error_message(error: BaseException) -> dict[str, Any]:
    """Return the last message of a process that failed; expected errors explain themselves."""
    expected = isinstance(error, TfoptError)
    return {
        "type": "error",
        "error": type(error).__name__,
        "message": str(error) if expected else describe(error),
        "exit_code": error.exit_code if isinstance(error, TfoptError) else 3,
    }


def checked_message(data: Any, kind: Kind) -> dict[str, Any]:
    """Return a message as the pipe brought it.

    :param kind: of the task that the process carries out.
    :raises ValueError: if it is none of the known ones, lacks a key, or answers another task.
    """
    if not isinstance(data, dict) or data.get("type") not in MESSAGES:
        raise ValueError(f"unknown message {str(data)[:80]!r}")
    missing = MESSAGES[data["type"]] - set(data)
    if missing:
        raise ValueError(f"message {data['type']!r} lacks {', '.join(sorted(missing))}")
    if data["type"] in FINAL - {"error", *ANSWERS[kind]}:
        raise ValueError(f"message {data['type']!r} is no answer to {kind!r}")
    return data
