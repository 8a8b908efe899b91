"""Recipe data in which every value carries its place, and the paths of keys: `plugins[1].size`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

import attrs

from tfopt_core.errors import Problem

KeyPath = tuple[str | int, ...]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_PART = re.compile(r'\[(?P<index>\d+)\]|(?P<quoted>"(?:\\.|[^"\\])*")|(?P<word>[^.\[\]"]+)')


@attrs.frozen
class Fault:
    """A message about a value, without file and line; `at` is the path to the wrong part of it."""

    message: str
    mend: str = ""
    at: KeyPath = ()

    def __str__(self) -> str:
        sentence = f"{self.message}; {self.mend}" if self.mend else self.message
        return f"{join_path('', self.at)}: {sentence}" if self.at else sentence


@attrs.frozen
class Place:
    """The place of a key: file as the user wrote it, line from 1 (0: none), path in that file."""

    file: str
    line: int
    path: str

    def problem(self, message: str, mend: str = "") -> Problem:
        """Return a problem at this place."""
        return Problem(self.file, self.line, self.path, message, mend)


@attrs.frozen(eq=False)
class Node:
    """A TOML value with its place; a table's values and an array's elements are nodes too."""

    value: Any
    place: Place

    def plain(self) -> Any:
        """Return the value without places."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def table(self) -> dict[str, Node]:
        """Return the keys of a table; of any other value, none."""
        return self.value if isinstance(self.value, dict) else {}

    def place_at(self, path: KeyPath) -> Place:
        """Return the place of a key below; for an absent key, the line of the nearest above it."""
        if not path:
            return self.place
        part, child = path[0], None
        if isinstance(self.value, dict):
            child = self.value.get(part)
        elif isinstance(self.value, list) and isinstance(part, int) and part < len(self.value):
            child = self.value[part]
        if child is None:
            return attrs.evolve(self.place, path=join_path(self.place.path, path))
        return cast(Node, child).place_at(path[1:])

    def problems(self, faults: Iterable[Fault]) -> list[Problem]:
        """Return faults of the value as problems, each at its place."""
        return [self.place_at(one.at).problem(one.message, one.mend) for one in faults]


NOWHERE = Node({}, Place("", 0, ""))


def place_values(
    value: object, file: str, lines: Mapping[KeyPath, int], path: KeyPath = ()
) -> Node:
    """Return plain data as nodes; `lines` is the result of `locate` for the file's text."""

    def below(item: object, part: str | int) -> Node:
        return place_values(item, file, lines, (*path, part))

    place = Place(file, lines.get(path, 0), join_path("", path))
    if isinstance(value, dict):
        return Node({key: below(item, key) for key, item in value.items()}, place)
    if isinstance(value, list):
        return Node([below(item, index) for index, item in enumerate(value)], place)
    return Node(value, place)


def join_path(prefix: str, rest: KeyPath) -> str:
    """Return `rest` written after `prefix`: keys after dots (quoted if needed), indices in []."""
    for part in rest:
        if isinstance(part, int):
            prefix += f"[{part}]"
        else:
            # JSON's escapes are TOML's too, but JSON may hold a delete sign as it is
            quoted = json.dumps(part, ensure_ascii=False).replace("\x7f", "\\u007f")
            word = part if _BARE_KEY.fullmatch(part) else quoted
            prefix = f"{prefix}.{word}" if prefix else word
    return prefix


def split_path(path: str) -> KeyPath:
    """Return the key path of a written path, the inverse of `join_path("", ...)`."""
    parts: list[str | int] = []
    for match in _PART.finditer(path):
        if match["index"]:
            parts.append(int(match["index"]))
        else:
            parts.append(json.loads(match["quoted"]) if match["quoted"] else match["word"])
    return tuple(parts)
