"""Find control flow and repeated computations that TensorFlow leaves in a train step's graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tfopt_core.hooks import Finding
from tfopt_core.training.graphs.operations import (
    LOOPS,
    StepGraph,
    live_operations,
    optimized_graph,
    place_in_code,
    rounds_of,
)
from tfopt_core.training.graphs.repetitions import step_repetitions

BRANCHES = ("If", "StatelessIf", "Case", "StatelessCase")
# The operations that the runtime turns loops and branches into.
_LOWERED = ("Enter", "Exit", "Merge", "Switch", "NextIteration", *LOOPS, *BRANCHES)
# Further findings of a kind are only counted.
SHOWN = 5


def graph_findings(step: StepGraph) -> Iterator[Finding]:
    """Yield the loops, branches and repetitions that the graph optimizer leaves in this step.

    Runs the step once. Yields nothing if the optimized graph cannot be read.
    """
    graphs = optimized_graph(step.run)
    if graphs is None:
        return
    yield from _few(list(_control_flow(step.graph, graphs.after)))
    yield from _few(list(step_repetitions(step.graph, graphs.after)))


def _few(findings: Sequence[Finding]) -> Iterator[Finding]:
    unique = list(dict.fromkeys(findings))
    yield from unique[:SHOWN]
    if len(unique) > SHOWN:
        yield Finding(kind=unique[0].kind, detail=f"and {len(unique) - SHOWN} more of the kind")


def _control_flow(graph: Any, nodes: Sequence[Any]) -> Iterator[Finding]:
    left = [node.name for node in nodes if node.op in _LOWERED]
    for op in live_operations(graph):
        # the loop of a gradient belongs to the loop that it reverses
        if op.type not in LOOPS + BRANCHES or op.name.startswith("gradient_tape/"):
            continue
        if not any(name == op.name or name.startswith(f"{op.name}/") for name in left):
            continue
        name, place = op.name, place_in_code(op)
        if op.type in BRANCHES:
            yield Finding(
                kind="control-flow", place=place,
                detail=f"a branch is decided in each step ({name})",
                mend="where both sides are cheap, compute them and choose by tf.where",
            )  # fmt: skip
            continue
        rounds = rounds_of(op)
        times = "a loop" if rounds is None else f"a loop of {rounds:,} rounds"
        yield Finding(
            kind="control-flow", place=place,
            detail=f"{times} is run in each step, and its gradient's backwards ({name})",
            mend="compute whole tensors at once; unroll a short loop (unroll=True of a recurrent "
            "layer); XLA takes its overhead away",
        )  # fmt: skip
