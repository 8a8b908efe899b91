"""Change single operations in tfopt_core/statistics, and see whether its tests notice.

    .venv/bin/python tools/mutants.py [--count 300] [--seed 22] [--at PLACE ...] [--json FILE]

The changes are those of cosmic-ray (numbers, comparisons, arithmetic, booleans, not, break, loops,
decorators), at drawn places; `pip install cosmic-ray` into an environment of its own and name that
in PYTHONPATH. All tests are collected and run once; then each mutant is a fork in which the code of
one function, or one constant, is another, and the tests that call it run, the fastest first, until
one fails. Prints each mutant that no test noticed, and ends with status 1 if there is one.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import random
import signal
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parent.parent
MUTATED = ROOT / "tfopt_core" / "statistics"
TESTS = ROOT / "tests" / "unit" / "statistics"
# A mutant may loop for ever: it has this many times what its tests took, and some seconds.
TIMES, SPARE_SECONDS = 5.0, 10.0
EXAMPLES = 20
# Ends of a fork.
NOTICED, SURVIVED = 1, 0


@attrs.frozen
class Mutant:
    """One change: which operator of cosmic-ray, at its which occurrence in a file.

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
        ours, theirs = (function_at(module, part.names) for module in (original, changed))
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
        and not key.startswith("__") and value != vars(original).get(key)
    }  # fmt: skip
    holders = [
        module
        for module in list(sys.modules.values())
        if getattr(module, "__name__", "").startswith("tfopt_core")
        and any(vars(module).get(key) is vars(original)[key] for key in differing)
    ]
    files = {getattr(module, "__file__", "") for module in holders}
    if not differing:
        return None

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


FUNCTION = ("__code__", "__defaults__", "__kwdefaults__")


@attrs.define(eq=False)
class Mutating:
    """A plugin of pytest: runs the tests once, then those that a mutant touches, in a fork each.

    :param count: how many mutants to draw.
    :param places: the only mutants to try, by their places; empty for drawn ones.
    """

    count: int
    seed: int
    places: tuple[str, ...]
    survivors: list[tuple[Mutant, int]] = attrs.field(factory=list)
    noticed: int = 0
    timed_out: int = 0
    of: int = 0
    broken: list[str] = attrs.field(factory=list)
    _seconds: dict[Any, float] = attrs.field(factory=dict)
    _called: dict[Any, set[tuple[str, int]]] = attrs.field(factory=dict)
    _forked: bool = False

    def pytest_runtestloop(self, session: Any) -> bool:
        """Run all tests, then the mutants."""
        for item in session.items:
            self._run(item)
        if self.broken:
            return True
        mutants = all_mutants()
        self.of = len(mutants)
        if self.places:
            mutants = [mutant for mutant in mutants if mutant.place in self.places]
        random.Random(self.seed).shuffle(mutants)
        done = 0
        for mutant in mutants:
            if done == self.count:
                break
            try:
                change = change_of(mutant)
            except LookupError:
                continue  # no function of its own
            except Exception:
                self.noticed += 1  # it cannot even be imported
                done += 1
                continue
            if change is None:
                continue
            self._try(mutant, change)
            done += 1
            if done % 25 == 0:
                print(f"\n{done} mutants, {len(self.survivors)} not noticed", flush=True)
        return True

    def pytest_runtest_logreport(self, report: Any) -> None:
        """End the fork at the first test that fails."""
        if report.failed:
            if self._forked:
                os._exit(NOTICED)
            self.broken.append(report.nodeid)

    def _run(self, item: Any) -> None:
        """Run a test, and note how long it takes and which functions it calls."""
        called: set[tuple[str, int]] = set()
        seen: set[types.CodeType] = set()
        prefix = str(MUTATED)

        def trace(frame: Any, event: str, argument: Any) -> None:
            code = frame.f_code
            if code not in seen:
                seen.add(code)
                if code.co_filename.startswith(prefix):
                    called.add((code.co_filename, code.co_firstlineno))

        begun = time.monotonic()
        sys.settrace(trace)
        try:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        finally:
            sys.settrace(None)
        self._seconds[item], self._called[item] = time.monotonic() - begun, called

    def _try(self, mutant: Mutant, change: Change) -> None:
        items = [
            item
            for item, called in self._called.items()
            if any(change.touches(*place) for place in called)
        ]
        items.sort(key=self._seconds.__getitem__)
        child = os.fork()
        if child == 0:
            self._forked = True
            for item in items[:1]:
                item.config.pluginmanager.unregister(name="terminalreporter")
            clear_caches()  # what the run without mutants has left
            change.apply()
            for item in items:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            os._exit(SURVIVED)
        end = time.monotonic() + TIMES * sum(map(self._seconds.__getitem__, items)) + SPARE_SECONDS
        while True:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > end:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                self.timed_out += 1
                return
            time.sleep(0.005)
        if status == SURVIVED:
            self.survivors.append((mutant, len(items)))
            print(f"\n{mutant.place} ({len(items)} tests)\n{mutant.difference()}", flush=True)
        else:
            self.noticed += 1


def main() -> None:
    """Try the mutants, and print those that no test noticed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=22)
    parser.add_argument("--at", action="append", default=[], metavar="PLACE", help="only this one")
    parser.add_argument(
        "--tests", action="append", default=[], help="instead of those of its folder"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the survivors' places")
    options = parser.parse_args()
    settings.register_profile(
        "mutants", deadline=None, max_examples=EXAMPLES, derandomize=True, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    plugin = Mutating(options.count, options.seed, tuple(options.at))
    pytest.main(
        ["-q", "--no-header", "-p", "no:cacheprovider", "--hypothesis-profile=mutants", "-m",
         "not thorough", f"--rootdir={ROOT}", *(options.tests or [str(TESTS)])],
        plugins=[plugin],
    )  # fmt: skip
    if plugin.broken:
        sys.exit(f"tests fail without any mutant: {', '.join(plugin.broken)}")
    left = len(plugin.survivors)
    tried = plugin.noticed + plugin.timed_out + left
    print(f"\n{tried} of {plugin.of} mutants (seed {options.seed}): {plugin.noticed} noticed, "
          f"{plugin.timed_out} never ended, {left} not noticed")  # fmt: skip
    if options.json is not None:
        options.json.write_text(json.dumps([mutant.place for mutant, _ in plugin.survivors]))
    sys.exit(left > 0)


if __name__ == "__main__":
    main()
