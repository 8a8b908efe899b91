"""The interface by which a use case shows its progress on a terminal or in a notebook."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from tfopt_core.diagnosis.draft import Draft
from tfopt_core.measurement.progress import Observer


class View(Protocol):
    """Shows what a use case does."""

    def phases(self) -> AbstractContextManager[Callable[[str], None]]:
        """Return something that is told each phase of a look, for as long as it goes on."""

    def measuring(self) -> AbstractContextManager[Observer]:
        """Return an observer of a measurement, for as long as it goes on."""

    def look(self, draft: Draft) -> None:
        """Show what a look at a script found and proposes."""

    def written(self, draft: Draft, path: Path) -> None:
        """Show that the proposal was written to this file."""
