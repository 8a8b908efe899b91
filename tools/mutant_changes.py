"""The changes of cosmic-ray to tfopt_core/statistics, and how a fork puts one into effect."""

from __future__ import annotations

import ast
import difflib
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs

ROOT = Path(__file__).parent.parent
MUTATED = ROOT / "tfopt_core" / "statistics"
# What of a function is changed.
FUNCTION = ("__code__", "__defaults__", "__kwdefaults__")


@attrs.frozen
class Mutant:
    """One change: an operator of cosmic-ray and the number of its occurrence in a file.

    :param line: where it is, from 1.
    """

    path: Path
    operator: str
    occurrence: int
    line: int

    @property
    def place(self) -> str:
        """The name by which `--at` finds it again."""
        return f"{self.path.relative_to(MUTATED)}:{self.line}:{self.operator}:{self.occurrence}"

    def source(self) -> str:
        """Return the changed text of the file."""
        from cosmic_ray.mutating import mutate_code
        from cosmic_ray.plugins import get_operator

        operator = get_operator(self.operator)()
        changed: str = mutate_code(self.path.read_text(), operator, self.occurrence)
        return changed

    def difference(self) -> str:
        """Return the lines that differ."""
        lines = difflib.unified_diff(
            self.path.read_text().splitlines(), self.source().splitlines(), lineterm="", n=0
        )
        return "\n".join(line for line in list(lines)[2:] if not line.startswith("@@"))


def all_mutants() -> list[Mutant]:
    """Return each change that there could be."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    kinds = {name: get_operator(name) for name in sorted(operator_names())}
    found = []
    for path in sorted(MUTATED.rglob("*.py")):
        nodes = list(ast_nodes(get_ast(path.read_text())))
        for name, kind in kinds.items():
            if kind.arguments():
                continue  # it wants to be told more
            operator = kind()
            lines = [start[0] for node in nodes for start, _ in operator.mutation_positions(node)]
            found += [Mutant(path, name, number, line) for number, line in enumerate(lines)]
    return found


@attrs.frozen
class Part:
    """A function or method: its names from the module on, and its lines."""

    names: tuple[str, ...]
    first: int
    last: int


def parts_of(path: Path) -> list[Part]:
    """Return the functions and methods of a module, without those within functions."""

    def below(body: list[ast.stmt], names: tuple[str, ...]) -> Iterator[Part]:
        for node in body:
            if isinstance(node, ast.FunctionDef):
                first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
                yield Part((*names, node.name), first, node.end_lineno or first)
            elif isinstance(node, ast.ClassDef):
                yield from below(node.body, (*names, node.name))

    return list(below(ast.parse(path.read_text()).body, ()))


def function_at(namespace: Any, names: tuple[str, ...]) -> types.FunctionType:
    """Return the plain function behind these names, without what decorates it.

    :raises LookupError: if there is none.
    """
    found = namespace
    for name in names:
        found = vars(found)[name]
    for _ in range(5):
        if isinstance(found, types.FunctionType) and not hasattr(found, "__wrapped__"):
            return found
        for inner in ("fget", "__func__", "func", "__wrapped__"):
            if getattr(found, inner, None) is not None:
                found = getattr(found, inner)
                break
    raise LookupError(".".join(names))


@attrs.define
class Change:
    """How a mutant is put into effect in a fork, and where it can be noticed.

    :param apply: changes the loaded modules.
    :param touches: tells of a file and the line of a function that is called whether it is changed.
    """

    apply: Callable[[], None]
    touches: Callable[[str, int], bool]


def change_of(mutant: Mutant) -> Change | None:
    """Return how to carry out a mutant; None if the code that runs would be the same.

    :raises Exception: whatever the changed module raises while it is imported.
    """
    path = str(mutant.path)
    name = ".".join(mutant.path.relative_to(ROOT).with_suffix("").parts)
    name = name.removesuffix(".__init__")
    original, changed = sys.modules[name], types.ModuleType(name)
    changed.__file__ = path
    exec(compile(mutant.source(), path, "exec"), vars(changed))
    part = next((p for p in parts_of(mutant.path) if p.first <= mutant.line <= p.last), None)
    if part is not None:
        try:
            ours, theirs = (function_at(module, part.names) for module in (original, changed))
        except LookupError:
            return None  # no function of its own
        if all(getattr(ours, each) == getattr(theirs, each) for each in FUNCTION):
            return None

        def swap() -> None:
            for each in FUNCTION:
                setattr(ours, each, getattr(theirs, each))

        return Change(swap, lambda file, line: file == path and part.first <= line <= part.last)
    differing = {
        key: value
        for key, value in vars(changed).items()
        if isinstance(value, (int, float, str, tuple, frozenset, dict))
        and not key.startswith("__") and key in vars(original) and value != vars(original)[key]
    }  # fmt: skip
    if not differing:
        return None
    holders = [
        module
        for module in list(sys.modules.values())
        if getattr(module, "__name__", "").startswith("tfopt_core")
        and any(vars(module).get(key) is vars(original)[key] for key in differing)
    ]
    files = {getattr(module, "__file__", "") for module in holders}

    def replace() -> None:
        for key, value in differing.items():
            was = vars(original)[key]
            for module in holders:
                if vars(module).get(key) is was:
                    setattr(module, key, value)

    return Change(replace, lambda file, line: file in files)


def clear_caches() -> None:
    """Empty the caches of all functions that are mutated."""
    for name, module in list(sys.modules.items()):
        if name.startswith("tfopt_core.statistics"):
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()
