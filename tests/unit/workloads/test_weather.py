"""The workload `weather`: windows, gaps, missing values, the split by time."""

import numpy as np
import pytest
from tfopt_workloads import bundled, weather

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def columns():
    return bundled.load("weather")


@pytest.mark.parametrize(
    ("columns", "length", "starts"),
    [
        ({"hour": [0, 1, 2, 3, 5, 6, 7, 8]}, 3, [0, 4]),  # over no gap
        ({"hour": range(8), "airport": [0, 0, 0, 0, 1, 1, 1, 1]}, 2, [0, 1, 4, 5]),
        # the last hours are rows 1 to 4, the targets rows 2 to 5: row 3 is missing
        ({"hour": range(6), "temperature": [1, 2, 3, np.nan, 5, 6]}, 2, [0, 3]),
    ],
)
def test_a_window_spans_no_gap_and_one_airport_and_has_a_target(columns, length, starts):
    size = len(columns["hour"])
    given = {"airport": np.zeros(size, np.uint8), "temperature": np.arange(size, dtype=np.float32)}
    given |= {name: np.array(values) for name, values in columns.items()}
    assert weather.window_starts(given, hours=length, ahead=1).tolist() == starts


def test_windows_fit_the_model():
    workload = weather.build(examples=10, hours=24)
    inputs, change = workload.train.source.value
    assert (inputs.shape, inputs.dtype) == ((10, 24, len(weather.FEATURES)), "float32")
    assert (change.shape, change.dtype) == ((10, 1), "float32")
    assert workload.build_model()(inputs).shape == (10, 1)


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
