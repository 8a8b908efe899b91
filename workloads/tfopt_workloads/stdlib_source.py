"""The source text of this Python's standard library as sequences of token numbers.

It is read where it lies and never copied, so it differs a little from one Python to the next.
"""

from __future__ import annotations

import re
import sysconfig
from hashlib import sha256
from pathlib import Path
from typing import Any
from zlib import crc32

import attrs

from tfopt_core import WorkloadError

# packages of more than one file that each Python from 3.11 to 3.13 has, the largest first;
# tkinter, idlelib, distutils, lib2to3 and their like may be missing, encodings are tables
PACKAGES = (
    "asyncio", "email", "xml", "multiprocessing", "unittest", "importlib", "http", "logging",
    "urllib", "ctypes", "wsgiref", "concurrent", "json",
)  # fmt: skip
VOCABULARY = 8_192

# the name of a package in any word is put out of sight
_HIDDEN = 0
_TOKEN = re.compile(r"[^\W\d]\w*|\d+|[^\w\s]")
_SKIPPED = frozenset(["test", "tests", "__pycache__", "site-packages"])
_LEAST_HELD_OUT = 1 / 5
_MOST_HELD_OUT = 1 / 3


@attrs.frozen
class Package:
    """The files of a package, each an array (tokens,) of int32, in two parts.

    :param train: the files to train on.
    :param validation: those held out.
    """

    train: tuple[Any, ...]
    validation: tuple[Any, ...]


def stdlib_folder() -> Path:
    """Where this Python has, or would have, the source of its standard library."""
    return Path(sysconfig.get_paths()["stdlib"])


def source_files(folder: Path, package: str) -> list[Path]:
    """The Python files of a package in the order of their names, without its tests."""
    return sorted(
        path
        for path in (folder / package).rglob("*.py")
        if _SKIPPED.isdisjoint(path.relative_to(folder).parts)
    )


def missing_packages(folder: Path) -> list[str]:
    """The packages of which the folder holds fewer than two files with source."""
    return [name for name in PACKAGES if len(source_files(folder, name)) < 2]


def read_packages(names: tuple[str, ...]) -> list[Package]:
    """The packages of this Python's standard library, each split by file.

    :raises WorkloadError: if the source is not there, as in distributions that strip it.
    """
    folder = stdlib_folder()
    missing = [name for name in missing_packages(folder) if name in names]
    if missing:
        words = ", ".join(f'"{name}"' for name in missing)
        raise WorkloadError(
            f'the source of the Python standard library is not in "{folder}": nothing to read for '
            f"{words}; this Python's distribution strips it, take another (on Debian: apt-get "
            "install libpython3-stdlib)"
        )
    try:
        return [_read(folder, name) for name in names]
    except (OSError, UnicodeDecodeError) as error:
        raise WorkloadError(
            f'the source of the Python standard library in "{folder}" cannot be read: {error}'
        ) from error


def _read(folder: Path, name: str) -> Package:
    files = {
        path.relative_to(folder).as_posix(): token_ids(path.read_text(encoding="utf-8"))
        for path in source_files(folder, name)
    }
    held_out = held_out_files({path: len(ids) for path, ids in files.items()})
    return Package(
        train=tuple(ids for path, ids in files.items() if path not in held_out),
        validation=tuple(ids for path, ids in files.items() if path in held_out),
    )


def held_out_files(lengths: dict[str, int]) -> set[str]:
    """The files for validation, by the SHA-256 of their paths.

    Files are taken until they hold a fifth of all tokens; one that would make it more than a
    third is passed over.
    """
    total = sum(lengths.values())
    held_out: set[str] = set()
    tokens = 0
    for path in sorted(lengths, key=lambda path: sha256(path.encode()).digest()):
        if tokens >= _LEAST_HELD_OUT * total:
            break
        if tokens + lengths[path] <= _MOST_HELD_OUT * total:
            held_out.add(path)
            tokens += lengths[path]
    return held_out


def token_ids(text: str) -> Any:
    """Words, numbers and signs as numbers below 8,192, (tokens,) int32.

    A word is numbered by its CRC-32, so the numbers are the same in each process; 0 stands for any
    word that contains the name of a package, which would give the answer away.
    """
    import numpy as np

    words = _TOKEN.findall(text)
    number_of = {word: _number(word) for word in set(words)}
    return np.array([number_of[word] for word in words], np.int32)


def _number(word: str) -> int:
    lowered = word.lower()
    if any(name in lowered for name in PACKAGES):
        return _HIDDEN
    return 1 + crc32(word.encode()) % (VOCABULARY - 1)
