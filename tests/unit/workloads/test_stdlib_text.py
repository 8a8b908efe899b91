"""The workload `stdlib-text`: what is read, how it is split, what stands for words."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tfopt_workloads import stdlib_source, stdlib_text
from tfopt_workloads.stdlib_source import PACKAGES, VOCABULARY, token_ids

from tfopt_core.errors import WorkloadError

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def workload():
    return stdlib_text.build()


def test_snippets_fit_the_model(workload):
    text, labels = workload.train.source.value
    assert (text.shape, text.dtype, labels.dtype) == ((20_000, 64), "int32", "int32")
    assert 0 <= text.min() < text.max() < VOCABULARY
    assert workload.build_model()(text[:2]).shape == (2, 8)


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
    roots = [str(Path(stdlib_source.__file__).parents[1]), str(Path(__file__).parents[3])]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {roots!r}; {code}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
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
