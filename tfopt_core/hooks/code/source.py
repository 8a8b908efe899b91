"""The source of a function or class as a file without types would hold it. No TensorFlow."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from typing import Any

WIDTH = 100

_PRAGMA = re.compile(r"[ ]{2}# (?:type: ignore|noqa)\b.*$", re.MULTILINE)
# The house imports these where they are needed; a file that trains imports them at its top.
_LAZY = {("tensorflow", "tf"), ("keras", None)}

Edit = tuple[int, int, str]


def plain_source(thing: Any) -> str:
    """The source text of a function or class, or a text as it is, without what only types need.

    Annotations, pragmas and lazy imports of TensorFlow and Keras are taken out; comments, names
    and layout stay.

    :raises OSError: if the source is not to be had.
    """
    text = textwrap.dedent(thing if isinstance(thing, str) else inspect.getsource(thing))
    text = _PRAGMA.sub("", text.strip("\n")) + "\n"
    return edited(text, _untyped(text)).strip("\n")


def edited(text: str, edits: list[Edit]) -> str:
    """The text with each span of characters replaced; spans do not overlap."""
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
            # a field of a class without a value says nothing that counts
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
    """The line `def name(arguments):`, or its arguments one a line where it would be too long."""
    begin = offsets.begin(node)
    parts = [part for part in ast.walk(node.args) if isinstance(part, ast.expr | ast.arg)]
    behind = max(
        map(offsets.end, [*parts, *([node.returns] if node.returns else [])]), default=begin
    )
    end = offsets.text.index(":\n", behind) + 2
    for part in parts:
        if isinstance(part, ast.arg):
            part.annotation = None
    said = ast.unparse(node.args)
    indent = " " * node.col_offset
    one_line = f"def {node.name}({said}):"
    if len(indent) + len(one_line) > WIDTH:
        each_line = "".join(f"{indent}    {part},\n" for part in said.split(", "))
        one_line = f"def {node.name}(\n{each_line}{indent}):"
    return begin, end, f"{one_line}\n"


class Offsets:
    """Where the nodes of a syntax tree stand in their text, counted in characters."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._lines = text.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def begin(self, node: Any) -> int:
        """The first character of a node; of a function that is decorated, that of its `def`."""
        return self._at(node.lineno, node.col_offset)

    def end(self, node: Any) -> int:
        """The character behind a node."""
        return self._at(node.end_lineno, node.end_col_offset)

    def lines(self, node: Any) -> tuple[int, int]:
        """The lines of a node, from the first character of the first to that behind the last."""
        return self._starts[node.lineno - 1], self._starts[node.end_lineno]

    def line_start(self, line: int) -> int:
        """The first character of a line, counted from 1."""
        return self._starts[line - 1]

    def _at(self, line: int, column: int) -> int:
        # columns are counted in bytes of UTF-8
        return self._starts[line - 1] + len(
            self._lines[line - 1].encode("utf-8")[:column].decode("utf-8")
        )
