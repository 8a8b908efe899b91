"""Edit calls and statements in a script's source. No TensorFlow.

Edits are made at positions of the syntax tree, so comments and layout are preserved.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence

import attrs

from tfopt_core.hooks.code.layout import wrapped_all
from tfopt_core.hooks.code.source import WIDTH, Edit, Offsets, edited

_LIBRARIES = ("keras", "tensorflow")


class NoPlace(Exception):
    """There is no unambiguous place for an edit; the text says why."""


@attrs.define(eq=False)
class ScriptText:
    """The source of a script, and the edits to it.

    :raises SyntaxError: on construction, for invalid Python.
    """

    text: str
    _tree: ast.Module = attrs.field(init=False)
    _offsets: Offsets = attrs.field(init=False)
    _parents: dict[ast.AST, ast.AST] = attrs.field(init=False, factory=dict)
    _edits: list[Edit] = attrs.field(init=False, factory=list)
    _before: dict[ast.stmt, list[str]] = attrs.field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        self._tree, self._offsets = ast.parse(self.text), Offsets(self.text)
        for parent in ast.walk(self._tree):
            for child in ast.iter_child_nodes(parent):
                self._parents[child] = parent

    @property
    def result(self) -> str:
        """The text with all edits."""
        inserted = [self._insertion(node, lines) for node, lines in self._before.items()]
        return edited(self.text, [*self._edits, *inserted])

    # Finding.

    def method_call(self, method: str, line: int) -> ast.Call:
        """Return the only call of a method on this line.

        :raises NoPlace: if there is none, or there are several.
        """
        calls = [
            call for call in self._calls(method) if call.lineno <= line <= (call.end_lineno or 0)
        ]
        if len(calls) != 1:
            raise NoPlace(f"line {line} of the script does not show one call of {method}")
        return calls[0]

    def compile_of(self, fit: ast.Call) -> ast.Call:
        """Return the call of `compile` on the model of a `fit`.

        :raises NoPlace: unless there is exactly one.
        """
        receiver = self.receiver(fit)
        calls = [call for call in self._calls("compile") if self.receiver(call) == receiver]
        if len(calls) != 1:
            raise NoPlace(f"the script does not show one call of {receiver}.compile")
        [call] = calls
        if any(word.arg is None for word in call.keywords) or call.args[1:]:
            raise NoPlace("compile is not given its arguments by name")
        return call

    def receiver(self, call: ast.Call) -> str:
        """Return the source of the object that a method is called on."""
        assert isinstance(call.func, ast.Attribute)
        return self.source(call.func.value)

    def source(self, node: ast.AST) -> str:
        """Return the text of a node."""
        return self.text[self._offsets.begin(node) : self._offsets.end(node)]

    def arguments(self, call: ast.Call, names: Sequence[str]) -> dict[str, str]:
        """Return the text of each argument of a call, by name.

        :param names: of the positional arguments.
        :raises NoPlace: for unpacked arguments (`*` or `**`).
        """
        if any(isinstance(each, ast.Starred) for each in call.args) or any(
            word.arg is None for word in call.keywords
        ):
            raise NoPlace("its arguments are not written out")
        given = dict(zip(names, map(self.source, call.args), strict=False))
        return given | {str(word.arg): self.source(word.value) for word in call.keywords}

    # Changing.

    def set_arguments(self, call: ast.Call, changes: Mapping[str, str | None]) -> None:
        """Set keyword arguments of a call, or remove them (None).

        Other arguments stay as written, unless the call is a single line that becomes too long.
        """
        if self._becomes_too_long(call, changes):
            named = {str(word.arg): self.source(word.value) for word in call.keywords}
            all_named = {k: v for k, v in {**named, **changes}.items() if v is not None}
            self._rewrite(call, [*map(self.source, call.args), *_keywords(all_named)])
            return
        there = {word.arg: word for word in call.keywords}
        for name, value in changes.items():
            word = there.get(name)
            if word is not None and value is not None:
                self._replace(word.value, value)
            elif word is not None:
                self._take_out(call, word)
            elif value is not None:
                self._append(call, f"{name}={value}")

    def replace_arguments(self, call: ast.Call, arguments: Mapping[str, str]) -> None:
        """Replace all arguments of a call; the first becomes positional."""
        first, *rest = arguments.items()
        self._rewrite(call, [first[1], *_keywords(dict(rest))])

    def replace_first(self, call: ast.Call, value: str) -> None:
        """Replace the first positional argument of a call."""
        self._replace(call.args[0], value)

    def insert_before(self, node: ast.AST, lines: Iterable[str]) -> None:
        """Insert statements before the statement that holds a node."""
        self._before.setdefault(self.statement(node), []).extend(lines)

    def insert_on_top(self, lines: Sequence[str]) -> None:
        """Insert statements before everything that the script imports."""
        place = next(
            (s for s in self._tree.body if not _is_docstring(s) and not _is_future(s)), None
        )
        if place is not None and lines:
            self._before.setdefault(place, []).extend([*lines, ""])

    def insert_behind_imports(self, lines: Sequence[str]) -> None:
        """Insert text after the imports that include Keras or TensorFlow."""
        body = self._tree.body
        last = max((i for i, s in enumerate(body) if _is_import(s, _LIBRARIES)), default=None)
        if last is None:
            raise NoPlace("Keras is not imported at the top of the script")
        while last + 1 < len(body) and isinstance(body[last + 1], ast.Import | ast.ImportFrom):
            last += 1
        _, end = self._offsets.lines(body[last])
        rest = self.text[end:]
        # two blank lines after a function
        gap = max(0, 2 - (len(rest) - len(rest.lstrip("\n")))) if len(lines) > 1 else 0
        self._edits.append((end, end, "\n".join(["", *lines, ""]) + "\n" * gap))

    def binds(self, line: str) -> bool:
        """Return whether the script has this import at the top level."""
        [wanted] = ast.parse(line).body
        return any(ast.dump(wanted) == ast.dump(statement) for statement in self._tree.body)

    # How.

    def _calls(self, method: str) -> list[ast.Call]:
        return [
            node
            for node in ast.walk(self._tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == method
        ]

    def statement(self, node: ast.AST) -> ast.stmt:
        """Return the innermost statement that holds a node, if it begins a line.

        :raises NoPlace: if it follows another statement on its line.
        """
        while not isinstance(node, ast.stmt):
            node = self._parents[node]
        begin = self._offsets.begin(node)
        if self.text[self._offsets.line_start(node.lineno) : begin].strip():
            raise NoPlace(f"line {node.lineno} holds more than one statement")
        return node

    def _indent(self, statement: ast.stmt) -> str:
        return self.text[
            self._offsets.line_start(statement.lineno) : self._offsets.begin(statement)
        ]

    def _insertion(self, statement: ast.stmt, lines: Iterable[str]) -> Edit:
        indent = self._indent(statement)
        place = self._offsets.line_start(statement.lineno)
        for decorator in getattr(statement, "decorator_list", ()):
            place = min(place, self._offsets.line_start(decorator.lineno))
        laid = wrapped_all(f"{indent}{line}" if line else "" for line in lines)
        return place, place, "".join(f"{line}\n" for line in laid)

    def _becomes_too_long(self, call: ast.Call, changes: Mapping[str, str | None]) -> bool:
        if call.lineno != call.end_lineno:
            return False
        begin, end = self._offsets.lines(call)
        added = sum(len(name) + len(value) + 3 for name, value in changes.items() if value)
        return len(self.text[begin:end].rstrip()) + added > WIDTH

    def _rewrite(self, call: ast.Call, arguments: Sequence[str]) -> None:
        """Replace the arguments of a call, one on each line."""
        indent = self._indent(self.statement(call))
        lines = "".join(f"{indent}    {part},\n" for part in arguments)
        begin, end = self._offsets.end(call.func), self._offsets.end(call)
        self._edits.append((begin, end, f"(\n{lines}{indent})"))

    def _replace(self, node: ast.AST, new: str) -> None:
        self._edits.append((self._offsets.begin(node), self._offsets.end(node), new))

    def _take_out(self, call: ast.Call, word: ast.keyword) -> None:
        begin, end = self._offsets.begin(word), self._offsets.end(word)
        close = self._offsets.end(call) - 1
        rest = self.text[end:close]
        comma = rest.find(",")
        if comma >= 0:
            end += comma + 1
            end += len(self.text[end:close]) - len(self.text[end:close].lstrip(" "))
        self._edits.append((begin, end, ""))

    def _append(self, call: ast.Call, argument: str) -> None:
        close = self._offsets.end(call) - 1
        last = max(
            (self._offsets.end(each) for each in [*call.args, *call.keywords]),
            default=close,
        )
        separator = ", " if call.args or call.keywords else ""
        begin = self.text.rfind("\n", 0, last) + 1
        line = self.text[begin:last]
        if call.lineno != call.end_lineno and self.text[last : last + 2] == ",\n":
            # the other arguments are on lines of their own
            separator = ",\n" + line[: len(line) - len(line.lstrip())]
        self._edits.append((last, last, f"{separator}{argument}"))


def _keywords(arguments: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in arguments.items()]


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _is_import(statement: ast.stmt, libraries: Sequence[str]) -> bool:
    if isinstance(statement, ast.Import):
        names = [alias.name for alias in statement.names]
    elif isinstance(statement, ast.ImportFrom):
        names = [statement.module or ""]
    else:
        return False
    return any(name.partition(".")[0] in libraries for name in names)
