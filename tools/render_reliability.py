"""Render docs/reliability.md from the tests that are marked with a promise.

    .venv/bin/python tools/render_reliability.py [--check]

reads `@pytest.mark.promise(number, injected="...")` in tests/ without importing them, and the
promises in tests/support/promises.py. With --check it writes nothing, and ends with status 1 if
the page is stale.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reliability.md"
MARK = "<!-- Rendered by tools/render_reliability.py from the tests: edit those. -->"
INTRODUCTION = """\
# Reliability

What tfopt promises where something goes wrong, and the tests that hold it. Each of them injects the
fault that stands beside it, a real one where a test can: a process kills itself, a small disk is
mounted and filled, a pseudo-terminal sends Ctrl-C. The outcome is the claim of the test, which
fails if it is not so. Tests in *italics* take long: `make test-all` and the workflow on GitHub run
them, `make test` does not.

Principles: a finished run is never lost, it is in the results' file before the next begins. The run
that is under way in a crash is thrown away and repeated. An error is one or a few lines with
place, cause and mend; a traceback is shown with `--debug` only, or for a bug in tfopt.

Three tools are run by hand, for a chosen time: drawn input (`tools/fuzz.py`), a hundred runs and
applies (`benchmarks/soak.py`), and changes to the statistics that its tests must notice
(`tools/mutants.py`). The figures stand in
[decision 27](decisions/0027-tests-and-long-runs.md).
"""


class Held(NamedTuple):
    """A test that holds a promise."""

    number: int
    injected: str
    path: Path
    line: int
    name: str
    thorough: bool

    @property
    def claim(self) -> str:
        """The name of the test in words."""
        return self.name.removeprefix("test_").replace("_", " ")


def held_promises(folder: Path = ROOT / "tests") -> list[Held]:
    """Return all marked tests, by number, file and line.

    :raises SystemExit: for a mark that is not a number and `injected`, as plain values.
    """
    found = []
    for path in sorted(folder.rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        whole = any(_is_mark(node, "thorough") for node in _module_marks(tree))
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                found += _held_by(function, path, thorough=whole)
    return sorted(found, key=lambda test: (test.number, test.path, test.line))


def _held_by(function: ast.FunctionDef, path: Path, *, thorough: bool) -> Iterator[Held]:
    thorough = thorough or any(_is_mark(mark, "thorough") for mark in function.decorator_list)
    for mark in function.decorator_list:
        if not _is_mark(mark, "promise"):
            continue
        try:
            assert isinstance(mark, ast.Call)
            [number] = map(ast.literal_eval, mark.args)
            [(name, injected)] = [(k.arg, ast.literal_eval(k.value)) for k in mark.keywords]
            assert name == "injected"
        except (AssertionError, ValueError):
            sys.exit(f"{path}:{mark.lineno}: write @pytest.mark.promise(NUMBER, injected=TEXT)")
        yield Held(number, injected, path, function.lineno, function.name, thorough)


def _module_marks(tree: ast.Module) -> Iterator[ast.expr]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "pytestmark":
            yield from node.value.elts if isinstance(node.value, ast.List) else [node.value]


def _is_mark(node: ast.expr, name: str) -> bool:
    """Return whether an expression is `pytest.mark.NAME`, called or not."""
    function = node.func if isinstance(node, ast.Call) else node
    return ast.unparse(function) == f"pytest.mark.{name}"


def render(held: list[Held], promises: dict[int, Any]) -> str:
    """Return the page.

    :raises SystemExit: for a promise without a test, and for a mark without a promise.
    """
    unheld = sorted(set(promises) - {test.number for test in held})
    unknown = sorted({test.number for test in held} - set(promises))
    if unheld or unknown:
        sys.exit(f"promises without a test: {unheld}; marks without a promise: {unknown}")
    lines = [MARK, INTRODUCTION]
    for group in dict.fromkeys(promise.group for promise in promises.values()):
        lines += [f"## {group}", ""]
        lines += ["| | if | then | injected | outcome |", "|---|---|---|---|---|"]
        for number, promise in promises.items():
            if promise.group != group:
                continue
            of_it = [test for test in held if test.number == number]
            first = f"| {number} | {_cell(promise.fault)} | {_cell(promise.promise)} |"
            for test in of_it:
                lines.append(f"{first} {_cell(test.injected)} | {_outcome(test)} |")
                first = "| | | |"
        lines.append("")
    return "\n".join(lines)


def _outcome(test: Held) -> str:
    place = test.path.relative_to(ROOT).as_posix()
    link = f"[{_cell(test.claim)}](../{place})"
    return f"*{link}*" if test.thorough else link


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("`&lt;", "`<")


def load_promises() -> dict[int, Any]:
    """Return the promises by number."""
    path = ROOT / "tests" / "support" / "promises.py"
    spec = importlib.util.spec_from_file_location("promises", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return dict(module.PROMISES)


def main() -> None:
    """Write the page, or check it."""
    text = render(held_promises(), load_promises())
    if "--check" in sys.argv[1:]:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
            sys.exit(f"{PAGE} is stale; run: .venv/bin/python tools/render_reliability.py")
        return
    PAGE.write_text(text, encoding="utf-8")
    print(f"{len(text.splitlines())} lines in {PAGE}")


if __name__ == "__main__":
    main()
