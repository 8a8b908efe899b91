"""Profile: a trace of some steps, and whose their time was."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
from attrs import validators

from tfopt_core.plugins import (
    Cluster,
    Control,
    Effect,
    FoundTable,
    Plugin,
    RunContext,
    TrainingOptions,
    hookimpl,
    plugin,
    setting,
)
from tfopt_core.toolkit import describe, keras, tf, why_without
from tfopt_observe.trace import OperationTime, Shares, operation_times, read_trace, shares

# The variant of the run that a measurement makes for observers; other trainings go on to their end.
OBSERVED = "observed"
# The last parts of an operation's name that are printed: the layer and what it computes.
NAME_PARTS = 3
TRACE_FILES = "plugins/profile/*/*.xplane.pb"


def share_table(found: Shares) -> FoundTable:
    """Return the table of whose time it was."""
    meanings = {
        "input": "the step waited for a batch",
        "host": "Python, Keras, starting operations",
        "device": "operations computed",
        "memory": "copies to and from devices",
    }
    rows = tuple(
        (f"{part}: {meaning}", _milliseconds(seconds), f"{seconds / found.total:.0%}")
        for part, meaning in meanings.items()
        for seconds in [getattr(found, part)]
    )
    return FoundTable("Whose time it was", ("", "ms", "share"), rows)


def operation_table(times: Sequence[OperationTime], shown: int, steps: int) -> FoundTable:
    """Return the table of the operations that took longest."""
    whole = sum(time.seconds for time in times)
    rows = tuple(
        (
            "/".join(time.name.split("/")[-NAME_PARTS:]), time.kind, time.part,
            _milliseconds(time.seconds / steps), f"{time.seconds / whole:.1%}",
        )
        for time in times[:shown]
    )  # fmt: skip
    title = (
        f"The operations that took longest, {len(rows)} of {len(times):,}; the times of all "
        "threads count"
    )
    columns = ("operation", "kind", "part", "ms a step", "share")
    return FoundTable(title, columns, rows)


def _milliseconds(seconds: float) -> str:
    thousandths = seconds * 1e3
    return f"{thousandths:,.0f}" if thousandths >= 100 else f"{thousandths:.3g}"


@plugin
class Profile(Plugin):
    """Traces some steps with TensorFlow's profiler, and prints whose their time was.

    What it does: joins one extra run of the whole stack that is not timed, and there has
    tf.profiler trace some steps behind the first ones. It prints the shares of input, host, device
    and memory and the operations that took longest, and keeps the trace for TensorBoard or XProf.
    The run ends with the epoch in which the trace is complete. In `tfopt train` it joins the
    training, which goes on.

    Why it helps: it names the operations that are worth replacing, and shows whether a device
    waits.

    When it does not: it makes nothing faster, and a step that is traced is slower than others, so
    no figure of a measurement comes from it. A program of XLA shows as one operation on a CPU.
    Not run on hardware: on a GPU, where kernels and copies are read from its streams.

    Mixes with: everything. A call of several steps is traced whole.

    Reference: https://www.tensorflow.org/guide/profiler
    """

    targets = ("input", "dispatch", "compute", "memory")
    role = "observer"
    equivalence = "exact"  # a trace changes no number

    steps: int = setting(default=20, validator=validators.ge(1), help="Steps to trace, at least 1.")
    skip: int = setting(
        default=10, validator=validators.ge(0), help="Steps before them, which trace and compile."
    )
    operations: int = setting(default=10, validator=validators.ge(1), help="Operations to print.")

    @hookimpl
    def configure_training(self, run: RunContext, options: TrainingOptions) -> TrainingOptions:
        """Add the callback that starts and stops the profiler."""
        if run.fit_index:
            return options
        callback = _tracing(self, run.state_of(self), run.kept / _folder(run.cluster))
        return attrs.evolve(options, callbacks=(*options.callbacks, callback))

    @hookimpl
    def on_epoch_end(self, run: RunContext, control: Control) -> None:
        """End the extra run once the trace is complete."""
        if run.variant == OBSERVED and "traced" in run.state_of(self):
            control.stop("the trace is complete")

    @hookimpl
    def report_effect(self, run: RunContext) -> Effect:
        """Read the trace, and return its tables."""
        state = run.state_of(self)
        if run.fit_index:
            return Effect.not_applied("the first fit is traced")
        if "traced" not in state:
            trained = state.get("seen", 0)
            why = state.get("reason") or (
                f"the training ended after {trained:,} steps, and {self.skip:,} are skipped; set a "
                "smaller skip"
            )
            return Effect.not_applied(why)
        missing = why_without("profiler-traces")
        kept = f"the trace is kept in {state['folder']}"
        if missing:
            return Effect.applied_as(f"{kept}; {missing}")
        files = sorted(Path(state["folder"]).glob(TRACE_FILES))
        if not files:
            return Effect.not_applied(f"the profiler wrote no trace to {state['folder']}")
        trace, steps = read_trace(files[-1]), state["traced"]
        times, whose = operation_times(trace), shares(trace)
        if not times:
            return Effect.not_applied(f"the trace holds no operation; {kept}")
        sentence = (
            f"{steps:,} steps in {_milliseconds(whose.total)} ms; {kept} (tensorboard --logdir, "
            "with the package xprof)"
        )
        return Effect.applied_as(
            sentence, share_table(whose), operation_table(times, self.operations, steps)
        )

    def by_hand(self) -> str:
        """The same in plain code."""
        batches = (self.skip + 1, self.skip + self.steps)  # the first and the last, from 1
        return f'callback = keras.callbacks.TensorBoard("logs", profile_batch={batches})'


def _folder(cluster: Cluster | None) -> str:
    """Return the name of the folder for the traces of this process. Two profilers on one machine
    that stop in the same second write one file, and TensorFlow crashes while it reads it."""
    return "profile" if cluster is None else f"profile-{cluster.job}-{cluster.index}"


def _tracing(plugin: Profile, state: dict[str, Any], folder: Path) -> Any:
    """Return the callback that traces `plugin.steps` steps after `plugin.skip`."""

    class Tracing(keras.callbacks.Callback):  # type: ignore[misc]
        begun_at: int | None = None
        first = 0

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            self.first = batch
            if "reason" in state or "traced" in state or self.begun_at is not None:
                return
            if state.get("seen", 0) >= plugin.skip:
                folder.mkdir(parents=True, exist_ok=True)
                try:
                    tf.profiler.experimental.start(str(folder))
                except Exception as error:  # such as another profiler that runs already
                    state["reason"] = f"the profiler did not start: {describe(error)}"
                    return
                self.begun_at = state.get("seen", 0)

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            # a call of several steps begins with its first batch and ends with its last
            state["seen"] = state.get("seen", 0) + batch - self.first + 1
            if self.begun_at is not None and state["seen"] - self.begun_at >= plugin.steps:
                self._stop()

        def on_train_end(self, logs: Any = None) -> None:
            if self.begun_at is not None:
                self._stop()

        def _stop(self) -> None:
            traced, self.begun_at = state["seen"] - self.begun_at, None
            tf.profiler.experimental.stop()
            if traced:
                state.update(traced=traced, folder=str(folder))

    return Tracing()
