"""How much of a test runs in `make test`: which of its parameters, and how many examples."""

import math
from collections.abc import Callable, Collection, Iterable
from typing import Any

import pytest
from hypothesis import settings

# What hypothesis draws for a test that names no number, in `make test-all` and in `make test`.
THOROUGH_EXAMPLES = 100
EXAMPLES = 20


def mostly_thorough(
    values: Iterable[Any], kept: Collection[Any], ids: Callable[[Any], str] = str
) -> list[Any]:
    """Return every value as a parameter, marked `thorough` but for those that are kept."""
    return [
        pytest.param(value, marks=() if value in kept else pytest.mark.thorough, id=ids(value))
        for value in values
    ]


def few_examples(thorough: int, **options: Any) -> settings:
    """Return settings for a test whose examples take long.

    :param thorough: how many examples `make test-all` draws; `make test` draws a part of them, as
        it does of those of every other test.
    :param options: other settings of hypothesis.
    """
    part = settings().max_examples / THOROUGH_EXAMPLES
    return settings(max_examples=math.ceil(thorough * part), **options)
