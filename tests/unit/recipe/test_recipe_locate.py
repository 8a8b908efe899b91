"""The key locator against tomllib: the same keys, each on the line that holds it."""

import itertools
import re
import tomllib

import pytest
import tomlkit
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tfopt_core.recipe.toml import locate
from tfopt_core.recipe.tree import join_path, split_path

# A loaded machine is slow at drawing, which says nothing about the locator.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def paths_in(value, path=()):
    """The path of every key and element of data."""
    found = {path} if path else set()
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
def test_a_document_of_tomlkit_has_the_keys_that_tomllib_sees(value):
    text = tomlkit.dumps(value)
    assert set(locate(text)) == paths_in(tomllib.loads(text))


shapes = st.recursive(
    st.none(), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.integers(0, 9), inner)
)


def marked(shape, marks):
    """Data of this shape in which no two keys and no two strings are alike."""
    if isinstance(shape, dict):
        return {f"k{next(marks)}": marked(item, marks) for item in shape.values()}
    if isinstance(shape, list):
        return [marked(item, marks) for item in shape]
    return f"v{next(marks)}"


def lines_of(value, text, path=()):
    """The line on which each key and each string of an array first stands."""
    for part, item in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(part, str) or isinstance(item, str):
            mark = re.search(rf"\b{part if isinstance(part, str) else item}\b", text)
            assert mark is not None
            yield (*path, part), text.count("\n", 0, mark.start()) + 1
        if not isinstance(item, str):
            yield from lines_of(item, text, (*path, part))


@unhurried
@given(st.dictionaries(st.integers(0, 9), shapes), st.sampled_from(["\n", "\n# = [ \" '''\n \t"]))
def test_every_key_and_element_is_on_its_line(shape, noise):
    value = marked(shape, itertools.count())
    # between lines, and between the elements of arrays
    text = tomlkit.dumps(value).replace("\n", noise)
    text = re.sub(r', (?=["\[{])', lambda _: f",{noise}", text)
    found = locate(text)
    assert set(found) == paths_in(tomllib.loads(text))
    for path, line in lines_of(value, text):
        assert found[path] == line, path


@given(st.lists(st.one_of(st.integers(0, 99), keys.filter(bool))).filter(lambda p: p))
def test_a_written_path_can_be_read_back(path):
    assert split_path(join_path("", tuple(path))) == tuple(path)


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        ("[[a]]\n[[a.b]]\n[[a.b]]\nx = 1\n[[a]]\n[[a.b]]\nx = 2\n", ("a", 1, "b", 0, "x"), 7),
        ('a = """\n[b]\nc = 1 ""\\"\n"""""\nd = 1\n', ("d",), 5),
        ("a = '''\n# ' ''\n'''''\nd = 1\n", ("d",), 4),
        ("a.b = 1\na.c = 2\n", ("a",), 1),
        ("\r\n\r\na = 1\r\n", ("a",), 3),
        ('\n"a.b" . c.d = [\n{ x.y = 1 }]\n', ("a.b", "c", "d", 0, "x", "y"), 3),
    ],
)
def test_a_key_is_found_in(text, path, line):
    found = locate(text)
    assert found[path] == line
    assert set(found) == paths_in(tomllib.loads(text))
