"""The lookup tables that a function reads, and whether one of them changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from tfopt_core.toolkit import tf

# The operations that call functions of the graph, and how many of their inputs are no arguments.
_CALLS = {
    "PartitionedCall": 0, "StatefulPartitionedCall": 0, "While": 0, "StatelessWhile": 0,
    "If": 1, "StatelessIf": 1, "Case": 1, "StatelessCase": 1,
}  # fmt: skip


@attrs.frozen(eq=False)
class LookupTables:
    """The tables that a function looks up, each with the entries that it had.

    A look-up gives the same for the same key as long as nothing is inserted. Nothing tells a table
    that can change from one that cannot, so the entries are compared. `unknown` says that there are
    tables which were not found.
    """

    found: tuple[tuple[Any, Any, Any, dict[str, Any]], ...] = ()
    unknown: bool = False

    @classmethod
    def of(cls, graph: Any) -> LookupTables:
        """Return the tables that a function's graph captures."""
        definition = graph.as_graph_def()
        functions = {one.signature.name: one for one in definition.library.function}
        captured = {inner.op.name: outside for outside, inner in graph.captures}
        found: dict[int, tuple[Any, Any, Any, dict[str, Any]]] = {}
        unknown = False
        for handle, keys, values in _looked_up(definition.node, captured, functions):
            if handle is None:
                unknown = True
            elif id(handle) not in found:
                found[id(handle)] = (handle, keys, values, _entries(handle, keys, values))
        return cls(tuple(found.values()), unknown)

    @property
    def changed(self) -> bool:
        """Whether a table holds other entries now."""
        return any(_entries(*table) != entries for *table, entries in self.found)


def _looked_up(
    nodes: Iterable[Any], handles: Mapping[str, Any], functions: Mapping[str, Any]
) -> Iterator[tuple[Any, Any, Any]]:
    """Yield the handle, None where it is unknown, and the types of each look-up, those in functions
    that are called too.

    :param handles: by name, what comes from outside.
    """
    for node in nodes:
        inputs = [handles.get(name.split(":")[0]) for name in node.input]
        if node.op == "LookupTableFindV2":
            keys, values = (tf.as_dtype(node.attr[name].type) for name in ("Tin", "Tout"))
            yield inputs[0], keys, values
        for name in _called(node):
            function = functions[name]
            arguments = (one.name for one in function.signature.input_arg)
            given = dict(zip(arguments, inputs[_CALLS.get(node.op, len(inputs)) :], strict=False))
            yield from _looked_up(function.node_def, given, functions)


def _called(node: Any) -> Iterator[str]:
    for value in node.attr.values():
        for function in (value.func, *value.list.func):
            if function.name:
                yield function.name


def _entries(handle: Any, keys: Any, values: Any) -> dict[str, Any]:
    # other types than those of the table end the process
    table = tf.raw_ops.LookupTableExportV2(table_handle=handle, Tkeys=keys, Tvalues=values)
    names = map(repr, table.keys.numpy().tolist())  # a key may be a vector
    return dict(zip(names, table.values.numpy().tolist(), strict=True))
