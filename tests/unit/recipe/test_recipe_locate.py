"""The key locator against tomllib: the same keys, each on the line that holds it."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
import tomlkit
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tfopt_core.recipe.toml import locate
from tfopt_core.recipe.tree import join_path, split_path

# A loaded machine is slow at drawing, which says nothing about the locator.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

Path = tuple[str | int, ...]


def paths_in(value: Any, path: Path = ()) -> set[Path]:
    """The path of every key and element of data."""
    found: set[Path] = {path} if path else set()
    if isinstance(value, dict):
        for key, item in value.items():
            found |= paths_in(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found |= paths_in(item, (*path, index))
    return found


# Keys and strings made of what could mislead a scanner.
nasty = st.text(alphabet="ab-._ #[]{}=,'\"\\\n\té", max_size=8)
keys = st.one_of(st.text(alphabet="abc-_1", min_size=1, max_size=4), nasty)
scalars = st.one_of(st.booleans(), st.integers(-99, 99), st.floats(-1, 1), nasty, st.dates())
data = st.recursive(
    st.dictionaries(keys, scalars, max_size=4),
    lambda inner: st.dictionaries(
        keys,
        st.one_of(inner, scalars, st.lists(inner, max_size=3), st.lists(scalars, max_size=3)),
        max_size=4,
    ),
    max_leaves=12,
)


@unhurried
@given(data)
def test_a_document_of_tomlkit_has_the_keys_that_tomllib_sees(value: dict[str, Any]) -> None:
    text = tomlkit.dumps(value)
    assert set(locate(text)) == paths_in(tomllib.loads(text))


def basic(text: str) -> str:
    """A string in double quotes; JSON's escapes are TOML's too."""
    return json.dumps(text, ensure_ascii=False)


class Writer:
    """Writes data as TOML in random formatting and notes the line of each key as it goes."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.text = ""
        self.lines: dict[Path, int] = {}

    def pick(self, *options: str) -> str:
        return self.draw(st.sampled_from(options))

    def put(self, text: str) -> None:
        self.text += text

    def note(self, path: Path) -> None:
        self.lines.setdefault(path, self.text.count("\n") + 1)

    def noise(self) -> None:
        self.put(self.pick("", "", "\n", "# a = [ \" '''\n", "   \n\t"))

    def key(self, key: str) -> None:
        bare = key and all(c in "abc-_1" for c in key)
        self.put(key if bare and self.pick("bare", "quoted") == "bare" else basic(key))

    def scalar(self, value: Any) -> None:
        if isinstance(value, str):
            if "\\" not in value and '"' not in value and self.pick("one", "multi") == "multi":
                self.put(f'"""\n{value}"""')
            elif "'" not in value and "\n" not in value and self.pick("a", "b") == "b":
                self.put(f"'{value}'")
            else:
                self.put(basic(value))
        else:
            self.put(str(value).lower() if isinstance(value, bool) else str(value))

    def value(self, value: Any, path: Path) -> None:
        if isinstance(value, dict):
            self.put("{")
            for number, (key, item) in enumerate(value.items()):
                self.put(", " if number else " ")
                self.pair(key, item, path)
            self.put("}")
        elif isinstance(value, list):
            self.put("[")
            for index, item in enumerate(value):
                self.noise()
                self.note((*path, index))
                self.value(item, (*path, index))
                self.put(self.pick(",", " ,"))
            self.noise()
            self.put("]")
        else:
            self.scalar(value)

    def pair(self, key: str, value: Any, path: Path) -> None:
        path = (*path, key)
        self.note(path)
        self.key(key)
        if isinstance(value, dict) and len(value) == 1 and self.pick("dot", "brace") == "dot":
            self.put(self.pick(".", " . "))
            ((below, item),) = value.items()
            self.pair(below, item, path)
            return
        self.put(self.pick("=", " = "))
        self.value(value, path)

    def document(self, value: dict[str, Any]) -> None:
        sections = []
        for key, item in value.items():
            tables = isinstance(item, list) and item and all(isinstance(x, dict) for x in item)
            if (tables or isinstance(item, dict)) and self.pick("header", "inline") == "header":
                sections.append((key, item))
                continue
            self.noise()
            self.pair(key, item, ())
            self.put(self.pick("\n", " # = [\n"))
        for key, item in sections:
            for index, table in enumerate(item if isinstance(item, list) else [item]):
                path: Path = (key, index) if isinstance(item, list) else (key,)
                self.noise()
                self.note((key,))
                self.note(path)
                opening, closing = ("[[", "]]") if len(path) > 1 else ("[", "]")
                self.put(opening + self.pick("", " "))
                self.key(key)
                self.put(closing + self.pick("\n", " # [x]\n"))
                for name, inner in table.items():
                    self.noise()
                    self.pair(name, inner, path)
                    self.put("\n")


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, dict[Path, int]]:
    writer = Writer(draw)
    writer.document(draw(data))
    return writer.text, writer.lines


@unhurried
@given(documents())
def test_every_key_of_a_handwritten_document_is_on_its_line(
    document: tuple[str, dict[Path, int]],
) -> None:
    text, lines = document
    parsed = tomllib.loads(text)
    assert set(lines) == paths_in(parsed)  # the writer wrote what it says
    assert locate(text) == lines


@given(st.lists(st.one_of(st.integers(0, 99), keys.filter(bool))).filter(lambda p: p))
def test_a_written_path_can_be_read_back(path: list[str | int]) -> None:
    assert split_path(join_path("", tuple(path))) == tuple(path)


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        ("[[a]]\n[[a.b]]\n[[a.b]]\nx = 1\n[[a]]\n[[a.b]]\nx = 2\n", ("a", 1, "b", 0, "x"), 7),
        ('a = """\n[b]\nc = 1 ""\\"\n"""""\nd = 1\n', ("d",), 5),
        ("a = '''\n# ' ''\n'''''\nd = 1\n", ("d",), 4),
        ("\r\n\r\na = 1\r\n", ("a",), 3),
    ],
)
def test_a_key_is_found_in(text: str, path: Path, line: int) -> None:
    found = locate(text)
    assert found[path] == line
    assert set(found) == paths_in(tomllib.loads(text))
