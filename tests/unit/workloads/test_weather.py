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


def test_all_windows_and_targets_are_numbers():
    workload = weather.build()
    for plan in (workload.train, workload.validation):
        assert all(np.isfinite(array).all() for array in plan.source.value)


def test_the_target_is_the_change_of_the_temperature_in_degrees_celsius(columns):
    starts = weather.window_starts(columns, 48, 6)
    _, change = weather.build(hours=48, ahead=6).train.source.value
    first = starts[0]
    fahrenheit = columns["temperature"][first + 53] - columns["temperature"][first + 47]
    assert change[0, 0] == pytest.approx(fahrenheit * 5 / 9, abs=1e-4)


def test_no_window_lies_on_both_sides_of_the_cut(columns):
    workload = weather.build(hours=48, ahead=6)
    clock = columns["hour"]
    cut = clock.min() + 0.8 * (clock.max() - clock.min())
    starts = weather.window_starts(columns, 48, 6)
    ends = clock[starts + 53]
    assert workload.train.source.count == (ends < cut).sum()
    assert workload.validation.source.count == (clock[starts] >= cut).sum()
    assert ((ends >= cut) & (clock[starts] < cut)).any()


def test_features_are_standardized_over_the_training_part_alone(columns):
    known = columns["hour"] < np.quantile(columns["hour"], 0.5)
    measured = weather.hourly_features(columns, known)[known][:, :8]
    np.testing.assert_allclose(measured.mean(axis=0), 0, atol=1e-3)
    np.testing.assert_allclose(measured.std(axis=0), 1, atol=1e-3)


def test_the_impossible_wind_speed_is_not_believed(columns):
    assert np.nanmax(columns["wind_speed"]) > 1_000
    features = weather.hourly_features(columns, np.ones(len(columns["hour"]), bool))
    assert abs(features[:, 3:5]).max() < 8  # deviations


def test_examples_are_spread_over_the_year():
    every, few = weather.build(), weather.build(examples=100)
    assert few.train.source.count == 100
    assert few.validation.source.count == every.validation.source.count == 4_372
    inputs = every.train.source.value[0]
    np.testing.assert_array_equal(few.train.source.value[0][[0, -1]], inputs[[0, -1]])


def test_no_change_errs_by_as_much_as_the_docstring_says():
    _, change = weather.build().validation.source.value
    assert abs(change).mean() == pytest.approx(2.43, abs=0.01)
