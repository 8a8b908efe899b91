"""Changes of a recipe that are given as Python data."""

from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from tfopt_core.api import _as_texts
from tfopt_core.errors import InputError
from tfopt_core.recipe.layers import parse_overrides


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"classes": 5, "deep": {"a b": [1, "x=y"]}}, {"classes": 5, "deep": {"a b": [1, "x=y"]}}),
        ([{"a": 1}, {"b": 2.5}], [{"a": 1}, {"b": 2.5}]),
        (MappingProxyType({}), {}),
        (np.int64(3), 3), (np.float32(0.5), 0.5), (np.bool_(True), True),
        ({"rates": np.array([1, 2])}, {"rates": [1, 2]}),
        ((1, (2, 3)), [1, [2, 3]]),
        (Path("a/b"), "a/b"), ('two\nlines "quoted"', 'two\nlines "quoted"'), ("3", "3"),
        (True, True), (10**30, 10**30), ([], []), ("", ""),
    ],
)  # fmt: skip
def test_python_data_are_read_as_they_were_given(given: Any, read: Any) -> None:
    problems: list[Any] = []
    [override] = parse_overrides(_as_texts({"workload.options": given}), problems)
    value = override.root.plain()["workload"]["options"]
    assert (override.path, value) == (("workload", "options"), read)
    assert type(value) is type(read)
    assert not problems


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, "workload.options is a NoneType"),
        ({"depth": None}, "workload.options.depth is a NoneType"),
        ({"rates": [0.1, {1}]}, r"workload.options.rates\[1\] is a set"),
        ({"loss": print}, "workload.options.loss is a builtin_function_or_method"),
    ],
)
def test_what_a_recipe_cannot_hold_is_an_error_that_names_its_path(given: Any, words: str) -> None:
    with pytest.raises(InputError, match=f"^overrides: {words}, which a recipe cannot hold"):
        _as_texts({"workload.options": given})


@pytest.mark.parametrize("given", ["measure.pairs=4", [("measure.pairs", 4)], 4])
def test_overrides_that_are_no_mapping_are_texts(given: Any) -> None:
    with pytest.raises(InputError, match=r'overrides are .*\["measure.pairs=4"\]'):
        _as_texts(given)
