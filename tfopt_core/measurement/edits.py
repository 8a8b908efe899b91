"""Notice that the workload's code is edited while it is measured."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import attrs

from tfopt_core.errors import EditedMeanwhile
from tfopt_core.measurement.fingerprint import workload_files
from tfopt_core.recipe import Recipe

# Size and time of the last change: what tells without reading that a file may have changed.
Stamp = tuple[int, int] | None


@attrs.frozen
class CodeAtStart:
    """The workload's files as they were when its measuring began.

    Files that appear later are not watched: a workload may write some.

    :param files: stamp and digest of each file, with its name in messages.
    """

    files: Mapping[Path, tuple[str, Stamp, str]]

    @classmethod
    def of(cls, recipe: Recipe) -> CodeAtStart:
        """Read the files of a recipe's workload."""
        return cls({
            path: (name, _stamp(path), _digest(path))
            for name, paths in workload_files(recipe).items()
            for path in paths
        })  # fmt: skip

    def check(self, runs: int) -> None:
        """Check that no file has changed.

        :param runs: how many runs are stored, for the message.
        :raises EditedMeanwhile: naming those that have.
        """
        changed = [
            name
            for path, (name, stamp, digest) in self.files.items()
            if _stamp(path) != stamp and _digest(path) != digest
        ]
        if changed:
            raise EditedMeanwhile(tuple(dict.fromkeys(changed)), runs)


def _stamp(path: Path) -> Stamp:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""
