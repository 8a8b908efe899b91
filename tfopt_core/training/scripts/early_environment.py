"""Note what a script changes in the environment before it imports TensorFlow. No TensorFlow.

TensorFlow and Keras read it when they are imported: a script that changes it cannot run in the fork
of a process that has imported them. What it changes otherwise (`os.putenv`, the CPUs it may run on)
is not seen.
"""

from __future__ import annotations

import os

import attrs

# What a script may set and change nothing with it: messages, and values that tfopt sets itself.
HARMLESS_NAMES = frozenset({"TF_CPP_MIN_LOG_LEVEL", "TF_CPP_MIN_VLOG_LEVEL"})
HARMLESS = frozenset({("KERAS_BACKEND", "tensorflow")})


@attrs.define
class EarlyEnvironment:
    """The variables that are changed while the libraries are still to be imported.

    :param changed: their names.
    """

    changed: tuple[str, ...] = ()
    _before: dict[str, str] | None = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Watch from here on, until `note`: the next import is the script's."""
        self._before = dict(os.environ)

    def note(self) -> None:
        """Note the changes, just before a library is imported."""
        if self._before is None:
            return  # within the import of the other library, which may change it itself
        changes = (self._before.items() ^ os.environ.items()) - HARMLESS
        names = {name for name, _ in changes} - HARMLESS_NAMES
        self.changed = tuple(sorted(names.union(self.changed)))
        self._before = None
