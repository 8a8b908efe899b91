"""Split a map that draws random numbers: what it computes before it draws, and the rest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import attrs

from tfopt_core.data.dissect.walk import TracedFunction
from tfopt_core.data.functions import Map, changing_ops
from tfopt_core.data.plan import DataPlan
from tfopt_core.lazy import tf

# A part that holds nothing but these is not worth a stage of its own.
_CHEAP = frozenset({
    "Add", "AddV2", "Assert", "Cast", "ConcatV2", "Const", "Equal", "ExpandDims", "Fill",
    "Greater", "GreaterEqual", "Identity", "Less", "LessEqual", "LogicalAnd", "Maximum", "Minimum",
    "Mul", "NoOp", "Pack", "Placeholder", "Rank", "RealDiv", "Reshape", "Shape", "Slice", "Split",
    "Squeeze", "StridedSlice", "Sub", "Unpack", "ZerosLike",
})  # fmt: skip
_PARTS: WeakKeyDictionary[TracedFunction, tuple[TracedFunction, ...]] = WeakKeyDictionary()


def split_map(plan: DataPlan, index: int) -> DataPlan | None:
    """Return the plan with the map at `index` as two: what it computes of an element before it
    draws random numbers, reads a variable or calls Python, and the rest. Together they make the
    same operations in the same order, and draw the same.

    :returns: None if that is not worth it, or the stage is no map whose graph is known.
    """
    stage = plan.stages[index]
    if not isinstance(stage, Map) or not isinstance(stage.function, TracedFunction):
        return None
    if stage.function not in _PARTS:
        try:
            _PARTS[stage.function] = _parts(stage.function)
        except (ValueError, TypeError):  # an operation of it cannot be imported in another graph
            _PARTS[stage.function] = ()
    maps = [attrs.evolve(stage, function=part) for part in _PARTS[stage.function]]
    return plan.replace(index, *maps) if maps else None


def _parts(function: TracedFunction) -> tuple[TracedFunction, ...]:
    graph = function.concrete.graph
    found = _Operations.of(graph)
    if not found.late or not {op.type for op in found.early} - _CHEAP:
        return ()
    captured = [inside for _, inside in graph.captures]
    arguments = graph.inputs[: len(graph.inputs) - len(captured)]
    passed = found.passed_on(graph.outputs)
    if any(tensor.dtype in (tf.resource, tf.variant) for tensor in passed):
        return ()
    specs = tuple(tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in passed)
    early = _imported(graph, found.early | found.constant, arguments, passed)
    late = _imported(graph, found.late | found.constant, passed, graph.outputs)
    name, place = function.__name__, function.place
    return (
        TracedFunction(early, function.input_spec, specs, f"{name}, before it draws", place),
        TracedFunction(late, specs, function.output_spec, f"{name}, from its draws on", place),
    )


@attrs.frozen(eq=False)
class _Operations:
    """The operations of a function's graph.

    :param constant: those that depend on no argument, what it has captured among them.
    :param early: those that yield the same whenever the arguments are the same.
    :param late: those that do not, and all that depend on one.
    """

    constant: set[Any] = attrs.field(factory=set)
    early: set[Any] = attrs.field(factory=set)
    late: set[Any] = attrs.field(factory=set)

    @classmethod
    def of(cls, graph: Any) -> _Operations:
        """Return those of a graph, in which each stands behind those that it depends on."""
        found, changing = cls(), _Changing.of(graph)
        captured = {inside.op for _, inside in graph.captures}
        arguments = {tensor.op for tensor in graph.inputs} - captured
        for op in graph.get_operations():
            before = {tensor.op for tensor in op.inputs} | set(op.control_inputs)
            if before & found.late or changing.is_in(op.node_def):
                found.late.add(op)
            elif op in arguments or before & found.early:
                found.early.add(op)
            else:
                found.constant.add(op)
        return found

    def passed_on(self, outputs: Sequence[Any]) -> list[Any]:
        """Return the tensors of early operations that late ones or the results are made of."""
        needed = [*(tensor for op in self.late for tensor in op.inputs), *outputs]
        unique = {tensor.name: tensor for tensor in needed if tensor.op in self.early}
        return [unique[name] for name in sorted(unique)]


@attrs.frozen(eq=False)
class _Changing:
    """Which nodes of a graph may yield something else the next time.

    :param types: the types of the operations that do.
    :param library: the nodes of each function that the graph calls.
    """

    types: frozenset[str]
    library: dict[str, Sequence[Any]]

    @classmethod
    def of(cls, graph: Any) -> _Changing:
        """Return those of a graph."""
        functions = graph.as_graph_def().library.function
        library = {one.signature.name: one.node_def for one in functions}
        return cls(frozenset(changing_ops(graph)), library)

    def is_in(self, node: Any) -> bool:
        """Return whether a node is one, or calls a function that holds one."""
        return node.op in self.types or any(
            self.is_in(inner) for name in _called(node) for inner in self.library.get(name, ())
        )


def _called(node: Any) -> Iterable[str]:
    for value in node.attr.values():
        yield from (value.func.name, *(one.name for one in value.list.func))


def _imported(graph: Any, kept: set[Any], arguments: Sequence[Any], outputs: Sequence[Any]) -> Any:
    """Return a function of these arguments, which makes the `kept` operations of a graph as they
    are there, with the seeds of its draws."""
    captured = {inside.name: outside for outside, inside in graph.captures}
    given = [tensor.name for tensor in arguments] + list(captured)
    names = {name: f"given_{number}:0" for number, name in enumerate(given)}

    def renamed(tensor: Any) -> str:
        return str(names.get(tensor.name, tensor.name))

    definition = tf.compat.v1.GraphDef()
    for tensor in [*arguments, *(inside for _, inside in graph.captures)]:
        node = definition.node.add(name=names[tensor.name].partition(":")[0], op="Placeholder")
        node.attr["dtype"].type = tensor.dtype.as_datatype_enum
    for op in graph.get_operations():
        if op not in kept or any(tensor.name in names for tensor in op.outputs):
            continue
        node = definition.node.add()
        node.CopyFrom(op.node_def)
        del node.input[:]
        node.input.extend(renamed(tensor) for tensor in op.inputs)
        node.input.extend(f"^{before.name}" for before in op.control_inputs if before in kept)
    _add_library(definition, graph.as_graph_def())

    def part(*values: Any) -> list[Any]:
        here = tf.compat.v1.get_default_graph()
        values = (*values, *(here.capture(outside) for outside in captured.values()))
        results = tf.graph_util.import_graph_def(
            definition, dict(zip(names.values(), values, strict=True)),
            [renamed(tensor) for tensor in outputs], name="part",
        )  # fmt: skip
        for result, tensor in zip(results, outputs, strict=True):
            result.set_shape(tensor.shape)
        return list(results)

    specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in arguments]
    return tf.function(part, autograph=False).get_concrete_function(*specs)


def _add_library(definition: Any, whole: Any) -> None:
    """Add to the definition of a graph the functions that its nodes call, of the whole graph's."""
    functions = {one.signature.name: one for one in whole.library.function}
    definition.versions.CopyFrom(whole.versions)
    nodes = list(definition.node)
    while nodes:
        for name in _called(nodes.pop()):
            if (function := functions.pop(name, None)) is not None:
                definition.library.function.append(function)
                nodes += function.node_def
