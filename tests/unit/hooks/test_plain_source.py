"""Source as a file without types would hold it."""

from __future__ import annotations

from typing import Any

import pytest

from tfopt_core.hooks.code.layout import wrapped
from tfopt_core.hooks.code.literals import call, keywords, literal
from tfopt_core.hooks.code.plain_code import NoPlainForm
from tfopt_core.hooks.code.source import plain_source


def with_types(first: int, *, second: list[str] | None = None) -> Any:
    """Says: "kept"."""
    import tensorflow as tf

    # kept: this comment
    found: list[int] = []
    return tf.constant(first), second, found  # type: ignore[return-value]


def around(value: Any) -> Any:
    """A function around another one."""
    import keras

    @keras.saving.register_keras_serializable()
    def inner(
        a_long_name: dict[str, list[int]], another_long_name: dict[str, list[int]], third: int
    ) -> int:
        return third

    return inner, value


class Holder:
    """A class."""

    field: int
    other: int = 3

    def method(self) -> int:
        return self.other


def test_annotations_pragmas_and_lazy_imports_go_and_all_else_stays():
    assert plain_source(with_types) == (
        "def with_types(first, *, second=None):\n"
        '    """Says: "kept"."""\n'
        "    # kept: this comment\n"
        "    found = []\n"
        "    return tf.constant(first), second, found"
    )


def test_a_signature_that_fits_on_one_line_without_types_stands_on_one():
    assert plain_source(around) == (
        "def around(value):\n"
        '    """A function around another one."""\n'
        "\n"
        "    @keras.saving.register_keras_serializable()\n"
        "    def inner(a_long_name, another_long_name, third):\n"
        "        return third\n"
        "\n"
        "    return inner, value"
    )


def test_fields_of_a_class_keep_their_values():
    assert plain_source(Holder) == (
        'class Holder:\n    """A class."""\n\n    other = 3\n\n'
        "    def method(self):\n        return self.other"
    )


def test_a_text_is_taken_as_it_is():
    assert plain_source("\n    def f(x):\n        return x\n") == "def f(x):\n    return x"


@pytest.mark.parametrize(
    ("value", "code"),
    [
        pytest.param('a "word"', '"a \\"word\\""', id="text"),
        pytest.param((1,), "(1,)", id="tuple-of-one"),
        pytest.param({"a": [1.5, None, True]}, '{"a": [1.5, None, True]}', id="nested"),
    ],
)
def test_a_plain_value_is_written_with_double_quotes(value: Any, code: str):
    assert literal(value) == code


def test_what_is_no_plain_value_is_refused():
    with pytest.raises(NoPlainForm, match="a object is no plain value"):
        literal(object())


def test_keys_that_are_no_names_are_given_behind_stars():
    assert call("f", keywords({"a-b": 1})) == 'f(**{"a-b": 1})'


def test_a_statement_that_is_too_long_has_its_arguments_one_a_line():
    arguments = {f"argument_{index}": "value" for index in range(6)}
    statement = f"    made = {call('function', **arguments)}  # why"
    lines = [f"        {name}=value," for name in arguments]
    assert wrapped(statement) == ["    # why", "    made = function(", *lines, "    )"]


def test_what_is_too_long_within_is_opened_too():
    inner = call("inner", *(f"argument_{index}" for index in range(9)))
    assert wrapped(f'config = {{**config, "key": {inner}}}') == [
        "config = {",
        "    **config,",
        '    "key": inner(',
        *(f"        argument_{index}," for index in range(9)),
        "    ),",
        "}",
    ]
