"""The workloads stdlib-text and weather: what is read, how it is split, what stands for it."""

import subprocess
import sys

import numpy as np
import pytest
from tfopt_workloads import bundled, stdlib_source, stdlib_text, weather
from tfopt_workloads.stdlib_source import PACKAGES, token_ids

from tfopt_core.errors import WorkloadError

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def workload():
    return stdlib_text.build()


def test_both_splits_are_balanced(workload):
    for plan, each in ((workload.train, 2_500), (workload.validation, 500)):
        assert np.bincount(plan.source.value[1]).tolist() == [each] * 8


def test_no_file_is_in_both_splits():
    folder = stdlib_source.stdlib_folder()
    packages = stdlib_source.read_packages(PACKAGES)
    for name, package in zip(PACKAGES, packages, strict=True):
        files = stdlib_source.source_files(folder, name)
        assert len(package.train) + len(package.validation) == len(files)
        assert package.train
        assert package.validation


def test_words_have_the_same_numbers_in_each_process():
    code = "from tfopt_workloads.stdlib_source import token_ids; print(token_ids('def f(x): 1'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(token_ids("def f(x): 1"))


def test_words_that_name_a_package_are_hidden():
    ids = token_ids("import asyncio XMLParser HTTP_OK from_json other")
    assert (ids == 0).tolist() == [False, True, True, True, True, False]


def test_a_stripped_standard_library_is_a_workload_error(tmp_path, monkeypatch):
    monkeypatch.setattr(stdlib_source, "stdlib_folder", lambda: tmp_path)
    with pytest.raises(WorkloadError, match=r'is not in .*nothing to read for "asyncio", "email"'):
        stdlib_text.build(classes=2)


def test_a_snippet_lies_within_one_file():
    files = [np.arange(10), np.arange(3), np.arange(100, 106)]
    made = stdlib_text.snippets(files, tokens=5, count=8)
    assert made.shape == (8, 5)
    assert (np.diff(made, axis=1) == 1).all()
    assert made[0, 0] == 0
    assert made[-1, -1] == 105


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
