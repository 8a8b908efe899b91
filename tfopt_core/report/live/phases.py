"""Show the current phase of a command: one redrawn line, or a line for each phase."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.text import Text

from tfopt_core.report.live.display import REDRAWS_PER_SECOND
from tfopt_core.report.style import units
from tfopt_core.report.style.console import can_redraw, plain
from tfopt_core.report.style.layout import words


@contextmanager
def make_phases(
    console: Console,
    quiet: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Callable[[str], None]]:
    """Yield a function to call with each phase, while the work goes on.

    :param console: the one of standard error; standard output is for results.
    """
    if quiet:
        yield lambda phase: None
        return
    if not can_redraw(console):
        yield lambda phase: console.print(Text(plain(phase)), soft_wrap=True)
        return
    begun, now = clock(), [""]

    def line() -> Text:
        return words(f"{now[0]} ({units.seconds_text(round(clock() - begun))})", "dim")

    with Live(
        console=console, get_renderable=line, refresh_per_second=REDRAWS_PER_SECOND,
        transient=True, redirect_stdout=False,
    ):  # fmt: skip
        yield lambda phase: now.__setitem__(0, phase)
