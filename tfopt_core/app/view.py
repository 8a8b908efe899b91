"""The interface by which a use case shows its progress, on a terminal or in a notebook."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from tfopt_core.diagnosis.draft import Draft
from tfopt_core.measurement.progress import Observer
from tfopt_core.tuning.progress import SearchObserver


class View(Protocol):
    """The display of a use case."""

    def phases(self) -> AbstractContextManager[Callable[[str], None]]:
        """Return a context manager that yields a function to call with each phase."""

    def plan(self, text: str) -> None:
        """Show what will be done, and how long it takes."""

    def measuring(self) -> AbstractContextManager[Observer]:
        """Return the observer of a measurement, to be entered before it."""

    def look(self, draft: Draft) -> None:
        """Show what a look at a script found and proposes."""

    def written(self, draft: Draft, path: Path) -> None:
        """Show that the proposal was written to this file."""

    def searching(self) -> AbstractContextManager[SearchObserver]:
        """Return the observer of a search, to be entered before it."""
