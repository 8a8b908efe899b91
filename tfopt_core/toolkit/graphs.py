"""Trace the step of a model as a graph, and read what the graph optimizer makes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from tfopt_core.lazy import tf
from tfopt_core.private_api import why_without


@attrs.frozen(eq=False)
class StepGraph:
    """A train step, traced for one batch: its graph, and how to run it once on that batch."""

    graph: Any
    run: Callable[[], Any]


def traced_step(model: Any, batch: Any) -> StepGraph:
    """Trace the model's train step for this very batch, so that shapes are known.

    :raises Exception: whatever the step raises while it is traced.
    """
    function = tf.function(model.train_step, autograph=False)
    concrete = function.get_concrete_function(batch)
    return StepGraph(concrete.graph, lambda: function(batch))


def optimized_graph(run: Callable[[], Any]) -> tuple[list[Any], list[Any]] | None:
    """Return the nodes of a function's graph before and after the graph optimizer, functions
    inlined; None if unknown.

    :param run: calls the function, which must not have run before.
    """
    if why_without("optimized-graphs"):
        return None
    from tensorflow.python.eager import context

    try:
        context.enable_run_metadata()
        context.context().enable_graph_collection()
        try:
            # discard what other functions have left
            context.export_run_metadata()
            run()
            metadata = context.export_run_metadata()
        finally:
            context.context().disable_graph_collection()
            context.disable_run_metadata()
        largest = max(
            metadata.function_graphs,
            key=lambda graphs: len(graphs.post_optimization_graph.node),
            default=None,
        )
        if largest is None or not largest.post_optimization_graph.node:
            return None
        return (
            list(largest.pre_optimization_graph.node), list(largest.post_optimization_graph.node),
        )  # fmt: skip
    except Exception:  # no public interface: other versions may differ
        return None
