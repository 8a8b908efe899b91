"""A folder of pictures in a folder of each class: `<folder>/<class>/<picture>.jpg`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from zlib import crc32

from tfopt_core import WorkloadError
from tfopt_workloads.options import whole_number

# Paths of pictures, and the number of the class of each.
Labelled = tuple[list[str], list[int]]

SUFFIXES = (".jpg", ".jpeg")
# of each class: enough for one picture of five to be held out
LEAST_PICTURES = 5

_BLOCK = 10
_HELD_OUT = 2  # of each five blocks


def pictures(folder: Path) -> dict[str, list[Path]]:
    """The JPEG files of each class, classes and files in the order of their names.

    Folders without JPEG files and files in deeper folders are left out.

    :raises OSError: if the folder cannot be read.
    """
    found = {
        entry.name: sorted(path for path in entry.iterdir() if path.suffix.lower() in SUFFIXES)
        for entry in sorted(folder.iterdir())
        if entry.is_dir()
    }
    return {name: paths for name, paths in found.items() if paths}


def checked_pictures(folder: Path) -> dict[str, list[Path]]:
    """The same, if there are enough of them to train and to validate on.

    :raises WorkloadError: if the folder cannot be read, holds fewer than two classes, or a class
        holds fewer than five pictures.
    """
    try:
        found = pictures(folder)
    except OSError as error:
        raise WorkloadError(
            f'the folder of pictures "{folder}" cannot be read: {error.strerror or error}'
        ) from error
    if len(found) < 2:
        raise WorkloadError(
            f'"{folder}" needs at least two folders that hold .jpg files, it has {len(found)}'
        )
    for name, paths in found.items():
        if len(paths) < LEAST_PICTURES:
            raise WorkloadError(
                f'class "{name}" in "{folder}" needs at least {LEAST_PICTURES} pictures, '
                f"it has {len(paths)}"
            )
    return found


def train_and_validation(
    classes: Mapping[str, Sequence[Path]], examples: int | None = None
) -> tuple[Labelled, Labelled]:
    """The training and validation parts of all classes, each `in_turn`.

    :param examples: only so many training pictures, all by default.
    :raises WorkloadError: if there are not so many.
    """
    splits = {name: split(paths) for name, paths in classes.items()}
    paths, labels = in_turn({name: train for name, (train, _) in splits.items()})
    if examples is not None:
        count = whole_number("examples", examples, low=1, high=len(paths))
        paths, labels = paths[:count], labels[:count]
    return (paths, labels), in_turn({name: held_out for name, (_, held_out) in splits.items()})


def split(paths: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Training and validation part, about four to one, by the position alone.

    Every fifth block of ten neighbours is held out (smaller blocks where there are fewer than 50
    pictures), so that most series of like pictures, whose names are neighbours, stay together.
    """
    block = min(_BLOCK, -(-len(paths) // 5))
    train: list[Path] = []
    held_out: list[Path] = []
    for index, path in enumerate(paths):
        (held_out if index // block % 5 == _HELD_OUT else train).append(path)
    return train, held_out


def in_turn(classes: Mapping[str, Sequence[Path]]) -> Labelled:
    """All paths with the numbers of their classes: a picture of each class in turn.

    Within a class they are ordered by a hash of their names, so that each prefix is balanced and
    mixed.
    """
    mixed = [sorted(paths, key=_name_hash) for paths in classes.values()]
    turns = [
        (str(path), label)
        for turn in zip_longest(*mixed)
        for label, path in enumerate(turn)
        if path is not None
    ]
    return [path for path, _ in turns], [label for _, label in turns]


def _name_hash(path: Path) -> tuple[int, str]:
    return crc32(path.stem.encode("utf-8", "surrogateescape")), path.name
