"""Numbers as a person reads them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfopt_core.report.style import units

SCALES = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
SIZES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}


def seconds_again(text: str) -> float:
    parts = text.replace(",", "").split()
    return sum(float(n) * SCALES[unit] for n, unit in zip(parts[::2], parts[1::2], strict=True))


def bytes_again(text: str) -> float:
    amount, unit = text.replace(",", "").split()
    return float(amount) * SIZES[unit]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0123, "12.3 ms"), (83, "1 min 23 s"), (0.00053, "530 µs"), (0, "0 s"), (1, "1.00 s"),
        (0.9996, "1.00 s"), (59.97, "1 min"), (3599.7, "1 h"), (7500, "2 h 5 min"),
        (-0.5, "-500 ms"), (1e-12, "<1 ns"), (math.nan, "n/a"), (math.inf, "n/a"),
    ],
)  # fmt: skip
def test_seconds_read_as_a_person_says_them(value: float, text: str) -> None:
    assert units.seconds_text(value) == text


@given(st.floats(min_value=1e-9, max_value=1e7))
def test_seconds_keep_the_value_within_a_hundredth(value: float) -> None:
    assert seconds_again(units.seconds_text(value)) == pytest.approx(value, rel=0.01)


@given(st.integers(min_value=0, max_value=2**55))
def test_bytes_keep_the_value_within_a_hundredth(count: int) -> None:
    assert bytes_again(units.bytes_text(count)) == pytest.approx(count, rel=0.01)


@pytest.mark.parametrize(
    ("value", "text"),
    [(812 * 2**20, "812 MiB"), (1.24 * 2**30, "1.24 GiB"), (512, "512 B"), (0, "0 B")],
)
def test_bytes_read_in_binary_units(value: float, text: str) -> None:
    assert units.bytes_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.25, "1.25x"), (0.8, "0.80x"), (0.0071, "0.0071x"), (120.4, "120x"), (99.999, "100x")],
)
def test_ratios_show_what_matters(value: float, text: str) -> None:
    assert units.ratio_text(value) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.12, "+12%"), (-0.08, "-8%"), (0.001, "0%"), (-0.001, "0%"), (12.5, "+1,250%")],
)
def test_percentages_are_signed(share: float, text: str) -> None:
    assert units.percent_text(share) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.90123, "0.9012"), (12.3456, "12.35"), (0, "0"), (1.234e-7, "1.234e-07"),
     (9.99996, "10.00"), (123456.7, "123,457"), (math.nan, "nan"), (-math.inf, "-inf")],
)  # fmt: skip
def test_metrics_have_four_significant_digits(value: float, text: str) -> None:
    assert units.metric_text(value) == text


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [(0.9012, 0.9024, "+0.0012"), (0.9012, 0.9, "-0.0012"), (0.5, 0.5, "0"),
     (0.5, 0.5000001, "0"), (1e-6, 2e-6, "+1.0e-06"), (math.nan, 0.5, "-")],
)  # fmt: skip
def test_differences_have_the_digits_of_their_values(
    before: float, after: float, text: str
) -> None:
    assert units.difference_text(before, after) == text
