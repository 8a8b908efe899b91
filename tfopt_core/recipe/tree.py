"""Recipe data in which every value carries its place, which merging preserves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from tfopt_core.errors import Problem
from tfopt_core.recipe.paths import KeyPath, join_path, split_path
from tfopt_core.recipe.values import Fault


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
        node = self
        for depth, part in enumerate(path):
            child = node._child(part)
            if child is None:
                above = node.place
                return attrs.evolve(above, path=join_path(above.path, path[depth:]))
            node = child
        return node.place

    def problem(self, path: str, message: str, mend: str = "") -> Problem:
        """Return a problem at a key below, written as a path; "" for the value itself."""
        return self.place_at(split_path(path)).problem(message, mend)

    def problems(self, faults: Iterable[Fault]) -> list[Problem]:
        """Return faults of the value as problems, each at its place."""
        return [self.place_at(one.at).problem(one.message, one.mend) for one in faults]

    def _child(self, part: str | int) -> Node | None:
        if isinstance(part, str):
            return self.table().get(part)
        if isinstance(self.value, list) and part < len(self.value):
            element: Node = self.value[part]
            return element
        return None


NOWHERE = Node({}, Place("", 0, ""))


def place_values(value: object, file: str, lines: Mapping[KeyPath, int]) -> Node:
    """Return plain data as nodes; `lines` is the result of `locate` for the file's text."""

    def build(value: object, path: KeyPath) -> Node:
        place = Place(file, lines.get(path, 0), join_path("", path))
        if isinstance(value, dict):
            return Node({key: build(item, (*path, key)) for key, item in value.items()}, place)
        if isinstance(value, list):
            return Node([build(item, (*path, i)) for i, item in enumerate(value)], place)
        return Node(value, place)

    return build(value, ())
