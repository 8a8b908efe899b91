"""Files that are no TOML, or too much of it: one problem, with its place."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tfopt_core.errors import RecipeError
from tfopt_core.recipe.reading import read_recipe
from tfopt_core.recipe.toml import parse_toml

MINIMAL = '[workload]\nuse = "mnist"\n'


@pytest.mark.promise(
    26, injected="bare CR, a key twice, an unclosed array, 5,000 levels, a number of 5,000 digits"
)
@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("this is no toml\n", "recipe.toml:1:6: ", "expected '=' after a key"),
        ("a = 1\nb = 2\rc = 3\n", "recipe.toml:2:6: ", "a bare carriage return"),
        ("\na = 1\na = 2\n", "recipe.toml:3:", "give each key once in a table"),
        ("a = [1,\n2\n", "recipe.toml:3:1: ", "at the end of the file"),
        ("x = 1\na = " + "[" * 5000 + "]" * 5000, "recipe.toml:2:5: ", "nested deeper than 100"),
        ("a = " + "{b=" * 5000 + "1" + "}" * 5000, "recipe.toml: ", "nested deeper than 100"),
        ("x = 1\n" + "a." * 400_000 + "a = 1", "recipe.toml:2:1: ", "a key of more than 100 parts"),
        ("x = 1\n y = " + "7" * 5000, "recipe.toml:2:6: ", "a number has too many digits"),
    ],
)
def test_the_place_of_a_syntax_error_is_named(complaints, text, place, said):
    (line,) = complaints(text)
    assert line.startswith(place)
    assert said in line
    assert len(line) < 200


def test_nesting_of_100_levels_is_read(complaints):
    nested = "[workload.options]\na = " + "[" * 97 + "]" * 97
    assert complaints(MINIMAL + nested) == []


def test_bytes_that_are_not_utf8_are_named_with_offset_and_line(complaints):
    (line,) = complaints(b'name = "a"\nx = "\xe9"\n')
    assert line == "recipe.toml:2: byte 16 is not UTF-8; save the file as UTF-8"


def test_a_byte_order_mark_is_accepted(complaints):
    assert complaints(b"\xef\xbb\xbf" + MINIMAL.encode()) == []


def test_windows_line_ends_are_accepted_and_counted(complaints):
    (line,) = complaints(MINIMAL.replace("\n", "\r\n") + "epoch = 3\r\n")
    assert line.startswith("recipe.toml:3: workload.epoch: unknown key")


@pytest.mark.promise(26, injected="one byte more than 1 MiB")
def test_a_file_of_1_mib_is_read_and_one_byte_more_is_not(complaints):
    text = MINIMAL + "#" * (1024 * 1024 - len(MINIMAL))
    assert complaints(text) == []
    (line,) = complaints(text + "#")
    assert line == "recipe.toml: the file is larger than 1 MiB; is it a recipe?"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_read_permission_says_so(folder):
    (folder / "recipe.toml").touch(mode=0)
    (problem,) = read_recipe("recipe.toml").problems
    assert "permission" in problem.message


def test_a_path_that_no_file_can_have_is_a_problem(folder):
    for target in ("a\0b", "x" * 5000, "", "nothing/here.toml"):
        (problem,) = read_recipe(target).problems
        assert problem.message.startswith("there is no such file")
        (problem,) = read_recipe(Path(target or "gone")).problems
        assert problem.message


@pytest.mark.promise(26, injected="any bytes, drawn by hypothesis")
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.one_of(st.binary(max_size=60), st.text("a.=[]{}\"'\n\r #,1", max_size=60).map(str.encode))
)
def test_any_bytes_give_data_or_one_problem(data):
    try:
        node = parse_toml(data, "recipe.toml")
    except RecipeError as error:
        [problem] = error.problems  # (either outcome is right)
        assert problem.message
    else:
        assert isinstance(node.value, dict)


def test_a_key_of_earlier_recipes_is_refused_with_the_one_in_its_place(complaints):
    (line,) = complaints(MINIMAL + '[measure]\nlength = "auto"\n')
    assert "measure.length: unknown key; say how long each run trains: seconds = 5" in line
