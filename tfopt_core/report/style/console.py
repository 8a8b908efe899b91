"""The console for all output, and the escaping of control characters in text from others."""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Mapping
from typing import IO, Any

from rich.console import Console
from rich.theme import Theme

DEFAULT_WIDTH = 80
# Of the 256-color palette, each with a contrast above 3.4 to white and to black. The basic colors
# of these names are the terminal's own: its yellow is often too light for a white background, and
# many terminals show a bold basic color as its bright one.
PALETTE = {
    "red": "color(160)",
    "green": "color(28)",
    "yellow": "color(130)",
    "magenta": "color(127)",
    "cyan": "color(30)",
}
TRACK = "color(242)"  # what is left of a progress bar
THEME = Theme(
    {
        **PALETTE,
        **{f"bold {name}": f"bold {color}" for name, color in PALETTE.items()},
        "bar.back": TRACK,
        "bar.complete": PALETTE["green"],
        "bar.finished": PALETTE["green"],
    }
)

# Unicode categories that steer a terminal or break a line instead of showing a sign.
_CONTROL_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})
# These reorder the text beside them: "Trojan Source", Boucher & Anderson 2021.
_BIDIRECTIONAL = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)


def plain(text: object) -> str:
    """Return the text as one line with control characters escaped: ESC becomes `\\x1b`.

    Every name that comes from a plugin, a metric or a workload is escaped before it is printed.
    """
    return "".join(_visible(character) for character in str(text))


def plain_lines(text: object) -> tuple[str, ...]:
    """Return the lines of a text, each escaped; tabs become spaces, trailing blanks are removed."""
    return tuple(plain(line.expandtabs(4)).rstrip() for line in str(text).splitlines())


def _visible(character: str) -> str:
    control = unicodedata.category(character) in _CONTROL_CATEGORIES
    if not control and character not in _BIDIRECTIONAL:
        return character
    return character.encode("unicode_escape").decode("ascii")


def make_console(
    stderr: bool = False,
    width: int | None = None,
    *,
    quiet: bool = False,
    file: IO[str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Console:
    """Return a console for standard output or standard error.

    The output has no escape codes if the stream is no terminal, with TERM=dumb or with NO_COLOR.
    Without a terminal, the width is COLUMNS, else 80.

    :param width: in columns; None for the terminal's own.
    :param quiet: whether to print nothing.
    :param file: what to write to instead, in tests.
    :param environ: environment variables; None for those of this process.
    """
    variables: dict[str, str] = dict(os.environ if environ is None else environ)
    stream: IO[str] = file if file is not None else (sys.stderr if stderr else sys.stdout)
    options: dict[str, Any] = {"force_jupyter": False, "_environ": variables}
    if variables.get("NO_COLOR"):
        options["color_system"] = None  # rich's own NO_COLOR still writes bold and dim
    console = Console(
        file=stream,
        highlight=False,
        markup=False,
        emoji=False,
        width=width,
        theme=THEME,
        quiet=quiet,
        **options,
    )
    if width is None and not console.is_terminal:
        # rich would take the width of any terminal among the three streams
        columns = variables.get("COLUMNS", "")
        console.width = (int(columns) if columns.isdecimal() else 0) or DEFAULT_WIDTH
    return console


def can_redraw(console: Console) -> bool:
    """Return whether lines can be redrawn: not in a log, though FORCE_COLOR may color it."""
    terminal = console.is_terminal and not console.is_dumb_terminal
    return terminal and not console.quiet and console.file.isatty()
