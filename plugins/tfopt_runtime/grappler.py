"""Grappler: single passes of TensorFlow's graph optimizer are switched on or off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import attrs

from tfopt_core.plugins import Effect, Plugin, RunContext, RuntimeOptions, hookimpl, plugin, setting
from tfopt_core.toolkit import describe, optimized_graph, tf, traced_step, why_without

# TensorFlow 2.21's own choice, RewriterConfig.DEFAULT of each.
OFF_BY_DEFAULT = frozenset({
    "auto_mixed_precision", "auto_mixed_precision_onednn_bfloat16", "debug_stripper",
    "disable_meta_optimizer", "disable_model_pruning", "pin_to_host_optimization",
    "scoped_allocator_optimization",
})  # fmt: skip
# How the names of operations begin that the optimizer makes of several, such as `_FusedMatMul`.
FUSED = ("_Fused", "_MklFused", "_MklNativeFused")
# The kinds of operation that are named, those that changed most first.
NAMED = 4


def changed_passes(passes: Mapping[str, bool | None]) -> dict[str, bool]:
    """Return the passes that are set to another value than TensorFlow's own choice."""
    return {
        name: on for name, on in passes.items() if on is not None and on is (name in OFF_BY_DEFAULT)
    }


@attrs.frozen
class OptimizedNodes:
    """The nodes of a step by operation, `before` and `after` the graph optimizer."""

    before: Mapping[str, int]
    after: Mapping[str, int]

    @property
    def removed(self) -> int:
        """How many nodes fewer there are after the optimizer."""
        return sum(self.before.values()) - sum(self.after.values())

    @property
    def fused(self) -> int:
        """How many nodes stand for several operations that were fused."""
        return sum(count for op, count in self.after.items() if op.startswith(FUSED))


def optimized_step(model: Any, element_spec: Any, options: Mapping[str, bool]) -> OptimizedNodes:
    """Return what the graph optimizer makes of a step of the model under these options.

    The step is traced and run once on zeros; variables and the optimizer's options are put back.

    :param element_spec: of a batch; axes of unknown size have 2 elements.
    :param options: of `tf.config.optimizer.set_experimental_options`.
    :raises Exception: if the step cannot run on zeros.
    :raises ValueError: if the optimized graph cannot be read.
    """
    before = tf.config.optimizer.get_experimental_options()
    batch = tf.nest.map_structure(_zeros, element_spec)
    with _variables_kept(model):
        tf.config.optimizer.set_experimental_options(dict(options))
        try:
            step = traced_step(model, batch)
            failed: list[Exception] = []

            def run() -> None:
                try:
                    step.run()
                except Exception as error:
                    failed.append(error)
                    raise

            graph = optimized_graph(run)
        finally:
            restored = {name: bool(before.get(name, not on)) for name, on in options.items()}
            tf.config.optimizer.set_experimental_options(restored)
    if failed:
        raise failed[0]
    if graph is None:
        raise ValueError("the optimized graph cannot be read")
    return OptimizedNodes(*(Counter(n.op for n in nodes) for nodes in graph))


def _zeros(spec: Any) -> Any:
    if not isinstance(spec, tf.TensorSpec) or spec.shape.rank is None:
        raise ValueError(f"no batch can be made up for {spec}")
    return tf.zeros([2 if size is None else size for size in spec.shape], spec.dtype)


@contextmanager
def _variables_kept(model: Any) -> Iterator[None]:
    """Put all variables that a step changes back at the end."""
    optimizer = getattr(model, "optimizer", None)
    variables = [
        *model.variables,
        *model.metrics_variables,
        *(optimizer.variables if optimizer else ()),
    ]
    values = [variable.numpy() for variable in variables]
    try:
        yield
    finally:
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)


def nodes_in_words(own: OptimizedNodes, changed: OptimizedNodes) -> str:
    """Return what the graph optimizer does to a step, beside its own choice; "" if the same."""
    if own.after == changed.after:
        return ""
    difference = Counter(changed.after)
    difference.subtract(own.after)
    most = sorted(difference.items(), key=lambda item: (-abs(item[1]), item[0]))[:NAMED]
    named = ", ".join(f"{count:+} {op}" for op, count in most if count)
    return (
        f"of {sum(changed.before.values()):,} nodes of a step {changed.removed:,} removed and "
        f"{changed.fused:,} fused (TensorFlow's own choice: {own.removed:,} and {own.fused:,}): "
        f"{named}"
    )


def _pass(text: str) -> Any:
    return setting(default=None, help=text)


@plugin
class Grappler(Plugin):
    """Switches passes of TensorFlow's graph optimizer on or off, by TensorFlow's names.

    What it does: calls tf.config.optimizer.set_experimental_options before the first graph. The
    passes that are not named keep TensorFlow's own choice. Equal operations are merged by
    TensorFlow whatever is set: it has no switch for common subexpressions.

    Why it helps: auto_mixed_precision_onednn_bfloat16 computes matrix products and convolutions in
    bfloat16 without a change of the model: 1.3 times as fast for a small CNN on two cores with
    avx512_bf16. Switching a pass off shows what it gains, and is the mend where one fails.

    When it does not: all passes that make a step faster safely are on already, so true changes
    nothing for most of them, and false makes it slower. XLA compiles a step without them. Graphs
    of less than 4 nodes are not optimized.

    Mixes with: everything but xla. mixed-precision sets the precision by layers, and is easier to
    see through than auto_mixed_precision.

    Reference: https://www.tensorflow.org/guide/graph_optimization
    """

    targets = ("compute",)
    equivalence = "rounding"  # fused and reordered operations round differently

    constant_folding: bool | None = _pass("Compute what is constant once, before the run.")
    layout_optimizer: bool | None = _pass("Lay tensors out as the GPU's kernels prefer.")
    shape_optimization: bool | None = _pass("Simplify computations of shapes.")
    remapping: bool | None = _pass("Fuse operations, such as MatMul, BiasAdd and Relu.")
    arithmetic_optimization: bool | None = _pass("Simplify arithmetic, merge equal operations.")
    dependency_optimization: bool | None = _pass("Remove control dependencies and no-ops.")
    loop_optimization: bool | None = _pass("Move what does not change out of loops.")
    function_optimization: bool | None = _pass("Inline functions.")
    implementation_selector: bool | None = _pass("Choose a kernel by device, as of cuDNN's LSTM.")
    scoped_allocator_optimization: bool | None = _pass("Join tensors that are communicated.")
    pin_to_host_optimization: bool | None = _pass("Keep small operations on the CPU.")
    debug_stripper: bool | None = _pass("Remove assertions, prints and checks of numerics.")
    auto_mixed_precision: bool | None = _pass("Compute in float16 on a GPU where it is safe.")
    auto_mixed_precision_onednn_bfloat16: bool | None = _pass(
        "Compute in bfloat16 on a CPU where it is safe."
    )
    disable_model_pruning: bool | None = _pass("Keep nodes that nothing needs.")
    disable_meta_optimizer: bool | None = _pass("Switch all passes off.")

    def __attrs_post_init__(self) -> None:
        if all(on is None for on in self.passes.values()):
            raise ValueError("no pass is set; name one, such as remapping = false")

    @property
    def passes(self) -> dict[str, bool | None]:
        """The settings by TensorFlow's names."""
        return {
            attribute.name: getattr(self, attribute.name) for attribute in attrs.fields(Grappler)
        }

    @hookimpl
    def configure_runtime(self, options: RuntimeOptions) -> RuntimeOptions:
        """Set the passes that differ from TensorFlow's own choice."""
        passes = {**options.grappler_options, **changed_passes(self.passes)}
        return attrs.evolve(options, grappler_options=passes)

    @hookimpl
    def report_effect(self, run: RunContext, model: Any) -> Effect:
        """Count a step's nodes after the optimizer, with TensorFlow's own choice and with this."""
        passes = changed_passes(self.passes)
        if not passes:
            return Effect.not_applied("all that is set is TensorFlow's own choice")
        options = tf.config.optimizer.get_experimental_options()
        other = [
            name
            for name, on in passes.items()
            if bool(options.get(name, name not in OFF_BY_DEFAULT)) is not on
        ]
        if other:
            return Effect.not_applied(f"TensorFlow reads back another {', '.join(other)}")
        if model.jit_compile:
            return Effect.not_applied("XLA compiles the step, and optimizes it by itself")
        if model.run_eagerly:
            return Effect.not_applied("the model runs eagerly, so a step has no graph")
        if run.replicas > 1:
            return Effect.applied_as(
                f"{_in_words(passes)}; nodes are counted for one device only, not for "
                f"{run.replicas}"
            )
        missing = why_without("optimized-graphs")
        if missing:
            return Effect.applied_as(f"{_in_words(passes)}; {missing}")
        try:
            own = optimized_step(
                model, run.element_spec, {name: not on for name, on in passes.items()}
            )
            changed = optimized_step(model, run.element_spec, passes)
        except Exception as error:
            why = describe(error)
            return Effect.applied_as(f"{_in_words(passes)}; nodes cannot be counted: {why}")
        text = nodes_in_words(own, changed)
        if not text:
            return Effect.not_applied(
                f"{_in_words(passes)} leaves the graph of a step as it is "
                f"({own.removed:,} of {sum(own.before.values()):,} nodes removed, "
                f"{own.fused:,} fused)"
            )
        return Effect.applied_as(text)

    def by_hand(self) -> str:
        """The same in plain code."""
        passes = {name: on for name, on in self.passes.items() if on is not None}
        return f"tf.config.optimizer.set_experimental_options({passes!r})"


def _in_words(passes: Mapping[str, bool]) -> str:
    return ", ".join(f"{name} = {str(on).lower()}" for name, on in passes.items())
