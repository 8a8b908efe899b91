"""Extract the source of a function or class, without types. No TensorFlow."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from typing import Any

WIDTH = 100

_PRAGMA = re.compile(r"[ ]{2}# (?:type: ignore|noqa)\b.*$", re.MULTILINE)
# tfopt imports these inside functions; an exported file imports them at the top.
_LAZY = {("tensorflow", "tf"), ("keras", None)}

Edit = tuple[int, int, str]


def plain_source(thing: Any) -> str:
    """Return the source of a function or class, or a given text, without types.

    Annotations, pragmas and lazy imports of TensorFlow and Keras are removed; comments, names and
    layout are kept.

    :raises OSError: if there is no source.
    """
    text = textwrap.dedent(thing if isinstance(thing, str) else inspect.getsource(thing))
    text = _PRAGMA.sub("", text.strip("\n")) + "\n"
    return edited(text, _untyped(text)).strip("\n")


def edited(text: str, edits: list[Edit]) -> str:
    """Return the text with spans of characters replaced; spans must not overlap."""
    for begin, end, new in sorted(edits, reverse=True):
        text = text[:begin] + new + text[end:]
    return text


def _untyped(text: str) -> list[Edit]:
    offsets = Offsets(text)
    edits: list[Edit] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            edits.append(_signature(offsets, node))
        elif isinstance(node, ast.AnnAssign):
            begin, end = offsets.end(node.target), offsets.end(node.annotation)
            # a class field without a value is only an annotation
            edits.append((begin, end, "") if node.value else (*offsets.lines(node), ""))
        elif isinstance(node, ast.Import) and _is_lazy(node) and node.col_offset:
            begin, end = offsets.lines(node)
            blank = text[end : end + 1] == "\n"
            if blank and not text[end:].lstrip().startswith(("@", "def ", "class ")):
                end += 1
            edits.append((begin, end, ""))
    return edits


def _is_lazy(node: ast.Import) -> bool:
    return all((name.name, name.asname) in _LAZY for name in node.names)


def _signature(offsets: Offsets, node: ast.FunctionDef) -> Edit:
    """Return the line `def name(arguments):`, with a line for each argument if it is too long."""
    begin = offsets.begin(node)
    parts = [part for part in ast.walk(node.args) if isinstance(part, ast.expr | ast.arg)]
    behind = max(
        map(offsets.end, [*parts, *([node.returns] if node.returns else [])]), default=begin
    )
    end = offsets.text.index(":\n", behind) + 2
    for part in parts:
        if isinstance(part, ast.arg):
            part.annotation = None
    arguments = ast.unparse(node.args)
    indent = " " * node.col_offset
    one_line = f"def {node.name}({arguments}):"
    if len(indent) + len(one_line) > WIDTH:
        each_line = "".join(f"{indent}    {part},\n" for part in arguments.split(", "))
        one_line = f"def {node.name}(\n{each_line}{indent}):"
    return begin, end, f"{one_line}\n"


class Offsets:
    """The positions of syntax tree nodes in their text, in characters."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._lines = text.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def begin(self, node: Any) -> int:
        """Return the first character of a node; of a decorated function, that of its `def`."""
        return self._at(node.lineno, node.col_offset)

    def end(self, node: Any) -> int:
        """Return the position after a node."""
        return self._at(node.end_lineno, node.end_col_offset)

    def lines(self, node: Any) -> tuple[int, int]:
        """Return the start of a node's first line and the end of its last."""
        return self._starts[node.lineno - 1], self._starts[node.end_lineno]

    def line_start(self, line: int) -> int:
        """Return the first character of a line, counted from 1."""
        return self._starts[line - 1]

    def _at(self, line: int, column: int) -> int:
        # columns are counted in bytes of UTF-8
        return self._starts[line - 1] + len(
            self._lines[line - 1].encode("utf-8")[:column].decode("utf-8")
        )
