"""The terminal view of a command while it runs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from tfopt_core.diagnosis.draft import Draft
from tfopt_core.report.first_contact import render_look, render_written
from tfopt_core.report.live import MeasurementView, make_phases
from tfopt_core.report.live_search import SearchView
from tfopt_core.report.style.console import make_console
from tfopt_core.report.style.layout import words


class Terminal:
    """A view on standard error; standard output is for results.

    :param quiet: whether to show nothing.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self.console = make_console(stderr=True, quiet=quiet)

    def phases(self) -> AbstractContextManager[Callable[[str], None]]:
        """Return a context manager that yields a function to call with each phase."""
        return make_phases(self.console)

    def plan(self, text: str) -> None:
        """Print what will be done, and how long it takes."""
        self.console.print(words(text, "dim"))

    def measuring(self) -> MeasurementView:
        """Return the live view of a measurement, to be entered before it."""
        return MeasurementView(self.console)

    def searching(self) -> SearchView:
        """Return the live view of a search, to be entered before it."""
        return SearchView(self.console)

    def look(self, draft: Draft) -> None:
        """Print what a look at a script found and proposes."""
        self.console.print(render_look(draft))

    def written(self, draft: Draft, path: Path) -> None:
        """Print that the proposal was written to this file."""
        self.console.print(render_written(draft, path))
