"""What a script's author would change for a measured gain, as plain data. No TensorFlow."""

from __future__ import annotations

import attrs


@attrs.frozen
class ChangedLines:
    """Lines of the script that are replaced, from `line` on, counted from 1."""

    line: int
    removed: tuple[str, ...]
    added: tuple[str, ...]


@attrs.frozen(kw_only=True)
class PlainForm:
    """What a script's author would change for the same gain without tfopt.

    :param recipe: the recipe that was measured, as a path for a command.
    :param file: the file to change.
    :param left_out: plugins without a plain form, each with the reason.
    :param why_not: why there are no lines, "" if there are.
    """

    recipe: str
    file: str
    changes: tuple[ChangedLines, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    why_not: str = ""

    @property
    def added(self) -> int:
        """The number of lines that are added or changed."""
        return sum(len(change.added) for change in self.changes)
