"""The workload `weather`: windows, gaps, missing values, the split by time."""

import numpy as np
import pytest
from tfopt_workloads import bundled, weather

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def columns():
    return bundled.load("weather")


def table(hours, airports=None, temperature=None):
    """Columns of made-up hours."""
    size = len(hours)
    return {
        "hour": np.array(hours, np.int32),
        "airport": np.zeros(size, np.uint8) if airports is None else np.array(airports, np.uint8),
        "temperature": (
            np.arange(size, dtype=np.float32)
            if temperature is None
            else np.array(temperature, np.float32)
        ),
    }


def test_windows_fit_the_model():
    workload = weather.build(examples=10, hours=24)
    inputs, change = workload.train.source.value
    assert (inputs.shape, inputs.dtype) == ((10, 24, len(weather.FEATURES)), "float32")
    assert (change.shape, change.dtype) == ((10, 1), "float32")
    assert workload.build_model()(inputs).shape == (10, 1)


def test_a_window_never_spans_a_gap():
    made = table([0, 1, 2, 3, 5, 6, 7, 8])
    assert weather.window_starts(made, hours=3, ahead=1).tolist() == [0, 4]


def test_a_window_never_spans_two_airports():
    made = table([0, 1, 2, 3, 4, 5, 6, 7], airports=[0, 0, 0, 0, 1, 1, 1, 1])
    assert weather.window_starts(made, hours=2, ahead=1).tolist() == [0, 1, 4, 5]


def test_no_target_is_made_of_a_missing_temperature():
    made = table(range(6), temperature=[1, 2, 3, np.nan, 5, 6])
    # the last hours are rows 1 to 4, the targets rows 2 to 5: row 3 is missing
    assert weather.window_starts(made, hours=2, ahead=1).tolist() == [0, 3]


def test_missing_values_are_the_last_known_of_the_same_airport():
    values = np.array([1, np.nan, np.nan, 4, np.nan, 6, np.nan])
    airport = np.array([0, 0, 0, 0, 1, 1, 1])
    filled = weather.last_known(values, airport)
    np.testing.assert_array_equal(filled, [1, 1, 1, 4, np.nan, 6, 6])


def test_no_window_lies_on_both_sides_of_the_cut(columns):
    workload = weather.build(hours=48, ahead=6)
    clock = columns["hour"]
    cut = clock.min() + 0.8 * (clock.max() - clock.min())
    starts = weather.window_starts(columns, 48, 6)
    ends = clock[starts + 53]
    assert workload.train.source.count == (ends < cut).sum()
    assert workload.validation.source.count == (clock[starts] >= cut).sum()
    assert ((ends >= cut) & (clock[starts] < cut)).any()
