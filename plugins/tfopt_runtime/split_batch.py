"""Split batch: parts of each batch are computed on the cores at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal
from weakref import WeakKeyDictionary

import attrs

from tfopt_core.plugins import (
    Diagnosis,
    Effect,
    Machine,
    Plugin,
    PluginRefused,
    Probe,
    ProbedTraining,
    RunContext,
    RuntimeOptions,
    TrainingOptions,
    hookimpl,
    plugin,
    setting,
)
from tfopt_core.toolkit import describe, keras, number_or, tf
from tfopt_runtime.loops import LEAST_GAIN, allowed_xla
from tfopt_runtime.split_call import SplitCalls, build_before_trace

# The fewest examples of a part with which cores of its own were measured to gain.
LEAST_ROWS = 16


# The calls of the train step that was last traced for a model: a second fit of the model reuses its
# train function, and traces nothing.
_TRACED: WeakKeyDictionary[Any, SplitCalls] = WeakKeyDictionary()


def split_step(
    own: Callable[..., Any], model: Any, calls: SplitCalls, *, validates: bool = False
) -> Callable[..., Any]:
    """Return a train or test step that computes the calls of its model in parts.

    The loss, the update and the metrics are those of the whole batch.

    :param validates: whether it is a test step, which is left whole where the train step was.
    """

    def step(data: Any) -> Any:
        if not validates:
            _TRACED[model] = calls
        elif model in _TRACED and _TRACED[model].reason:
            return own(data)
        build_before_trace(model, keras.utils.unpack_x_y_sample_weight(data)[0])
        with calls.within(model):
            return own(data)

    return step


def why_not_in_parts(training: ProbedTraining, parts: int) -> str:
    """Return why a train step cannot be computed in parts, "" if it can; it is traced, not run."""
    calls = SplitCalls(parts, jit_compile=False)
    step = split_step(training.train_step, training.model, calls)
    try:
        tf.function(step, autograph=False).get_concrete_function(training.batch)
    except Exception as error:
        return f"the train step {describe(error)}"
    return calls.why_whole


def fastest(seconds: Sequence[float]) -> int:
    """Return the index of the fastest; the first one unless another gains more than noise."""
    best = min(range(len(seconds)), key=seconds.__getitem__)
    return best if seconds[best] < seconds[0] * (1 - LEAST_GAIN) else 0


@plugin
class SplitBatch(Plugin):
    """Computes parts of each batch on the cores at once, and makes one update of all.

    What it does: splits the model's inputs into parts, each computed forward and backward by a
    function of its own in the same graph, which TensorFlow runs at once. Loss, update and metrics
    are those of the whole batch. With own_cores each operation of the process computes on as many
    threads as there are CPUs for a part, so that parts do not wait for each other's. With xla each
    part is compiled; a loop that the stack asks XLA to compile as a whole is then not compiled,
    since such a program runs on one core.

    Why it helps: on a CPU small operations, a kernel for a whole sequence and what XLA compiles
    use one core each. Larger operations, convolutions among them, are shared among the cores, but
    the cores wait for each other at the end of each one; parts wait once a step. Measured on two
    CPUs with own_cores, as the time of an epoch without this plugin over that with it: 1.26 in a
    small CNN in bfloat16, 1.11 in one over pictures from files; without own_cores over with them:
    1.25 with a GRU, 1.09 with an LSTM.

    When it does not: on one core; on a GPU. Without own_cores, where each operation fills the cores
    already, as convolutions do. Small batches make small parts, whose operations cost more for each
    example. auto times it, but not with own_cores, since a process cannot change its threads: parts
    are then as many as usable CPUs, of 16 examples or more. Updates compute on these threads too,
    and what a script evaluates or predicts itself; validations within fit are computed in parts as
    well. Examples that meet within the model are refused by name: batch normalization, and what
    else changes its state from the whole batch; losses that a layer adds; states that are carried
    on. What meets only in training mode, beside dropout and without a state, is not seen.

    Mixes with: fused-recurrent, whose kernel uses one core; resident and chunked; mixed-precision.
    Dropout draws other random numbers: each part has a seed of its own. Not under a strategy of
    several replicas.

    Reference: https://www.tensorflow.org/guide/intro_to_graphs
    """

    targets = ("compute",)
    conflicts = ("xla",)
    after = ("chunked", "resident", "steps-per-execution")
    # gradients are summed part by part; dropout draws another stream of random numbers
    equivalence = "rounding"

    parts: int | Literal["auto"] = number_or(
        "auto", "Parts of a batch; auto times one, and one for each usable CPU."
    )
    xla: bool | Literal["auto"] = setting(
        default="auto",
        help="Whether XLA compiles each part; auto times both.",
    )
    own_cores: bool = setting(
        default=False,
        help="Whether operations compute on as many threads as there are CPUs for a part.",
    )

    def suggest(self, diagnosis: Diagnosis) -> dict[str, Any] | None:
        """Worth trying on several CPUs, unless examples meet; with a core for each part, unless XLA
        compiles the steps, whose program takes what it is given."""
        if diagnosis.machine.gpus or diagnosis.machine.cpu_count < 2:
            return None
        if "BatchNormalization" in diagnosis.layers:
            return None
        return {} if diagnosis.jit_compile else {"xla": False, "own_cores": True}

    def resolve(self, probe: Probe) -> SplitBatch:
        """Time whole batches, parts, and parts that XLA compiles, in turns.

        With own_cores whole batches are not timed, since this process has the threads of a part,
        and a model that cannot be computed in parts keeps all threads.
        """
        is_open = "auto" in (self.parts, self.xla)
        if not (is_open or self.own_cores):
            return self
        parts = _most_parts(probe, self.own_cores) if self.parts == "auto" else self.parts
        whole = attrs.evolve(self, parts=1, xla=False)
        if parts < 2:
            return whole
        if self.own_cores and (reason := why_not_in_parts(probe.training(whole), parts)):
            probe.note(f"1 part: {reason}")
            return whole
        if not is_open:
            return self
        asked = allowed_xla(self.xla, probe)
        compiled = (False, True) if asked == "auto" else (asked,)
        split = [attrs.evolve(self, parts=parts, xla=xla) for xla in compiled]
        times_whole = self.parts == "auto" and not self.own_cores
        candidates = [whole, *split] if times_whole else split
        if len(candidates) == 1:
            return candidates[0]
        seconds = probe.step_seconds(candidates)
        if min(seconds) == math.inf:
            raise PluginRefused(
                "no loop could be timed with it; set parts and xla, or leave it out"
            )
        return candidates[fastest(seconds)]

    @hookimpl
    def configure_runtime(self, machine: Machine, options: RuntimeOptions) -> RuntimeOptions:
        """Set the threads within an operation, where parts have cores of their own."""
        if not self.own_cores or self.parts == 1 or machine.gpus:
            return options
        parts = machine.cpu_count if self.parts == "auto" else self.parts
        return attrs.evolve(options, intra_op_threads=max(1, machine.cpu_count // parts))

    @hookimpl
    def configure_training(
        self, run: RunContext, model: Any, options: TrainingOptions
    ) -> TrainingOptions:
        """Wrap the train step, and have the parts compiled in place of the whole."""
        state = run.state_of(self)
        state["reason"] = self._why_not(run, model)
        if state["reason"] or self.parts == "auto":
            return options
        calls = state["calls"] = SplitCalls(self.parts, self.xla is True)
        state["whole"] = options.jit_compile is True
        wrapped = options.with_wrapped_step(lambda step: split_step(step, model, calls))
        if self.own_cores:
            # each operation of a validation has the threads of a part too
            tests = state["tests"] = SplitCalls(self.parts, jit_compile=False)
            wrapped = wrapped.with_wrapped_test_step(
                lambda step: split_step(step, model, tests, validates=True)
            )
        return attrs.evolve(wrapped, jit_compile=False)

    def _why_not(self, run: RunContext, model: Any) -> str:
        if self.parts == 1:
            return "1 part is the whole batch"
        if run.replicas > 1:
            return f"the batch is shared among {run.replicas} replicas already"
        if run.machine.gpus:
            return "on a GPU each operation fills the device"
        return "the model runs eagerly" if getattr(model, "run_eagerly", False) else ""

    @hookimpl
    def report_effect(self, run: RunContext, model: Any) -> Effect:
        """Read back whether the model was traced in parts, in this fit or an earlier one."""
        state = run.state_of(self)
        if state["reason"]:
            return Effect.not_applied(state["reason"])
        calls: SplitCalls = _TRACED.get(model, state["calls"])
        if calls.why_whole:
            return Effect.not_applied(calls.why_whole)
        how = ", each compiled by XLA" if calls.jit_compile else ""
        in_place = ", in place of the whole step" if state["whole"] else ""
        tested = ", in validations too" if "tests" in state and state["tests"].traced else ""
        threads = f"; {_threads_in_words()}" if self.own_cores else ""
        return Effect.applied_as(
            f"{calls.parts} parts of each batch{tested}{how}{in_place}{threads}"
        )

    def by_hand(self) -> str:
        """The same in plain code."""
        return "# the calls of the model are replaced while the step is traced: only tfopt does it"


def _most_parts(probe: Probe, own_cores: bool) -> int:
    """Return a part for each usable CPU; those with cores of their own are never timed, and are not
    smaller than what was measured."""
    cpus = probe.machine.cpu_count
    size = probe.plan().batch_size if own_cores else None
    return cpus if size is None else max(1, min(cpus, size // LEAST_ROWS))


def _threads_in_words() -> str:
    """Return what TensorFlow says of the threads within an operation."""
    count = tf.config.threading.get_intra_op_parallelism_threads()
    return f"{count} thread{'s' * (count != 1)} for each operation (0 is TensorFlow's own choice)"
