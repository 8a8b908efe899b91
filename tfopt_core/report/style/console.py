"""The console that everything is printed on, and the inertness of what others named."""

from __future__ import annotations

import io
import os
import sys
import unicodedata
from collections.abc import Mapping
from typing import IO, Any

from rich.console import Console

DEFAULT_WIDTH = 80

# Unicode categories that steer a terminal or break a line instead of showing a sign.
_CONTROL_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})
# They reorder what stands beside them: "Trojan Source", Boucher & Anderson 2021.
_BIDIRECTIONAL = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
_SHORT_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def plain(text: object) -> str:
    """The text with every control character spelled out, as one line: ESC becomes `\\x1b`.

    Whatever a plugin, a metric or a workload named goes through here before it is printed.
    """
    return "".join(_visible(character) for character in str(text))


def plain_lines(text: object) -> tuple[str, ...]:
    """The lines of a text, each made plain; tabs become spaces, trailing blanks go."""
    lines = (plain(line.expandtabs(4)).rstrip() for line in str(text).splitlines())
    return tuple(lines)


def _visible(character: str) -> str:
    if character.isprintable() and character not in _BIDIRECTIONAL:
        return character
    if character in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[character]
    if character in _BIDIRECTIONAL or unicodedata.category(character) in _CONTROL_CATEGORIES:
        code = ord(character)
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    return character


def make_console(
    stderr: bool = False,
    width: int | None = None,
    *,
    file: IO[str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Console:
    """A console for standard output or standard error.

    Plain text without an escape where it does not go to a terminal, with TERM=dumb and with
    NO_COLOR. Where it goes to no terminal, it is as wide as COLUMNS says, else 80.

    :param width: in columns; None for the terminal's own.
    :param file: what to write to instead, in tests.
    :param environ: the environment variables to heed; None for this process' own.
    """
    heeded: dict[str, str] = dict(os.environ if environ is None else environ)
    stream: IO[str] = file if file is not None else (sys.stderr if stderr else sys.stdout)
    _never_fail_on_a_sign(stream)
    options: dict[str, Any] = {"force_jupyter": False, "_environ": heeded}
    if heeded.get("NO_COLOR"):
        options["color_system"] = None  # rich's own NO_COLOR still writes bold and dim
    console = Console(
        file=stream, highlight=False, markup=False, emoji=False, width=width, **options
    )
    if width is None and not console.is_terminal:
        # rich would take the width of any terminal among the three streams
        console.width = _columns(heeded)
    return console


def _columns(environ: Mapping[str, str]) -> int:
    value = environ.get("COLUMNS", "")
    return int(value) if value.isdecimal() and int(value) > 0 else DEFAULT_WIDTH


def _never_fail_on_a_sign(stream: IO[str]) -> None:
    """A stream that cannot encode "µ" shows its escape instead of ending the program."""
    encoding = (getattr(stream, "encoding", None) or "utf-8").lower().replace("_", "-")
    if isinstance(stream, io.TextIOWrapper) and not encoding.startswith("utf"):
        stream.reconfigure(errors="backslashreplace")
