"""Count the nodes of a trained model's step before and after the graph optimizer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import attrs

from tfopt_core.training.graphs.operations import optimized_graph, traced_step

# How the names of operations begin that the optimizer makes of several, such as `_FusedMatMul`.
FUSED = ("_Fused", "_MklFused", "_MklNativeFused")


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
    import tensorflow as tf

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
    return OptimizedNodes(*(Counter(n.op for n in nodes) for nodes in (graph.before, graph.after)))


def _zeros(spec: Any) -> Any:
    import tensorflow as tf

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
