"""Run the commands of pages, and write what they print into them.

    .venv/bin/python tools/render_output.py docs/tutorial.md

A page is carried out from top to bottom in a folder of its own. A block of code below a line
`<!-- file: NAME -->` is written to that file. A bash block is run; it ends with status 0, or with
the one that a comment in it names (`# status 2`). A text block below it is replaced by what its
last command printed: by all of it, or by the parts below a line `<!-- parts: FIRST, SECOND -->`. A
part begins with a line that is not indented, and is named by the beginning of that line; what is
left out is shown as `[...]`. Blocks below `<!-- as it is -->` are left alone.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

LEFT_OUT = "[...]"
LEFT_ALONE = "as it is"

_BLOCK = re.compile(
    r"^(?:<!-- (?P<note>.+?) -->\n)?```(?P<language>\w+)\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


class Printed(NamedTuple):
    """What a command ended with and printed."""

    status: int
    out: str
    err: str


class PageError(Exception):
    """A page whose commands do not do what it says."""


Run = Callable[[str, Path], Printed]


def run_in_shell(command: str, folder: Path) -> Printed:
    """Return what bash gives, with the programs of this environment first."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return Printed(done.returncode, done.stdout, done.stderr)


def commands_of(block: str) -> Iterator[str]:
    """Yield the commands of a bash block; one that goes on behind a backslash is one."""
    joined = block.replace("\\\n", " ")
    yield from (line for line in joined.splitlines() if line.strip() and line[0] != "#")


def shown(printed: Printed, parts: Sequence[str] = ()) -> str:
    """Return what a page shows of an output.

    :param parts: the beginnings of the parts to show; none for all of it.
    :raises PageError: if there is no such part.
    """
    text = (printed.out or printed.err).strip("\n")
    if not parts:
        return text
    pieces = [piece.strip("\n") for piece in re.split(r"^(?=\S)", text, flags=re.MULTILINE)]
    for part in parts:
        if not any(piece.startswith(part) for piece in pieces):
            raise PageError(f'nothing that is printed begins with "{part}"')
    kept: list[str] = []
    for piece in filter(None, pieces):
        if piece.startswith(tuple(parts)):
            kept.append(piece)
        elif kept[-1:] != [LEFT_OUT]:
            kept.append(LEFT_OUT)
    return "\n".join(kept)


def rendered(page: str, folder: Path, run: Run = run_in_shell) -> str:
    """Return the page with what its commands print.

    :param run: carries out a command in a folder.
    :raises PageError: if a command ends with another status than the page says.
    """
    last: Printed | None = None
    (folder / "pyproject.toml").touch()  # a project of its own, whatever folder it is in

    def replaced(found: re.Match[str]) -> str:
        nonlocal last
        note, language, body = found["note"] or "", found["language"], found["body"]
        kind, _, value = note.partition(": ")
        if kind == LEFT_ALONE:
            return found[0]
        if kind == "file":
            (folder / value).write_text(body, encoding="utf-8")
        elif language == "bash":
            for command in commands_of(body):
                last = _carried_out(command, folder, run)
        elif language == "text":
            if last is None:
                raise PageError("a text block stands before any command")
            parts = value.split(", ") if kind == "parts" else ()
            before = found[0][: found.start("body") - found.start()]
            return f"{before}{shown(last, parts)}\n```"
        return found[0]

    return _BLOCK.sub(replaced, page)


def _carried_out(command: str, folder: Path, run: Run) -> Printed:
    expected = re.search(r"# status (\d+)", command)
    printed = run(command, folder)
    if printed.status != (int(expected[1]) if expected else 0):
        raise PageError(f"{command}: status {printed.status}\n{printed.out}{printed.err}")
    return printed


def main() -> int:
    """Render the pages that the arguments name."""
    for name in sys.argv[1:]:
        page = Path(name)
        with tempfile.TemporaryDirectory() as folder:
            text = rendered(page.read_text(encoding="utf-8"), Path(folder))
        page.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
