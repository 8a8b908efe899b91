"""The workload `stdlib-text`: what is read, how it is split, what stands for words."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.lazy_modules import keras
from tfopt_workloads import stdlib_source, stdlib_text
from tfopt_workloads.stdlib_source import PACKAGES, VOCABULARY, held_out_files, token_ids

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


def test_examples_that_the_classes_do_not_divide_are_all_made():
    workload = stdlib_text.build(examples=100, classes=3, tokens=16)
    assert np.bincount(workload.train.source.value[1]).tolist() == [34, 33, 33]
    assert workload.validation.source.count == 4_000


def test_no_file_is_in_both_splits():
    folder = stdlib_source.stdlib_folder()
    packages = stdlib_source.read_packages(PACKAGES)
    for name, package in zip(PACKAGES, packages, strict=True):
        files = stdlib_source.source_files(folder, name)
        assert len(package.train) + len(package.validation) == len(files)
        assert package.train
        assert package.validation


def test_between_a_tenth_and_a_third_of_each_package_is_held_out():
    for package in stdlib_source.read_packages(PACKAGES):
        train, held_out = (sum(map(len, part)) for part in (package.train, package.validation))
        assert 0.1 < held_out / (train + held_out) <= 1 / 3


def test_files_are_held_out_by_their_path_and_one_too_large_is_passed_over():
    lengths = {f"p/{number}.py": 10 for number in range(10)}
    held_out = held_out_files(lengths)
    assert len(held_out) == 2
    assert held_out_files(dict(reversed(lengths.items()))) == held_out
    first = min(lengths, key=lambda path: stdlib_source.sha256(path.encode()).digest())
    assert first in held_out
    assert first not in held_out_files({**lengths, first: 1_000})


def test_words_have_the_same_numbers_in_each_process():
    code = "from tfopt_workloads.stdlib_source import token_ids; print(token_ids('def f(x): 1'))"
    roots = [str(Path(stdlib_source.__file__).parents[1]), str(Path(__file__).parents[3])]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {roots!r}; {code}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == str(token_ids("def f(x): 1"))


def test_text_becomes_words_numbers_and_signs():
    assert len(token_ids("x_1 = foo(2.5)  # naïve\n")) == 10
    a, b, c = token_ids("alpha Alpha alpha")
    assert a == c != b


def test_words_that_name_a_package_are_hidden():
    ids = token_ids("import asyncio XMLParser HTTP_OK from_json other")
    assert (ids == 0).tolist() == [False, True, True, True, True, False]


def test_tests_and_caches_are_not_read(tmp_path):
    for path in ("json/a.py", "json/tests/b.py", "json/__pycache__/c.py", "json/test/d.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("pass")
    assert [path.name for path in stdlib_source.source_files(tmp_path, "json")] == ["a.py"]


def test_a_stripped_standard_library_is_a_workload_error(tmp_path, monkeypatch):
    monkeypatch.setattr(stdlib_source, "stdlib_folder", lambda: tmp_path)
    with pytest.raises(WorkloadError, match=r'is not in .*nothing to read for "asyncio", "email"'):
        stdlib_text.build(classes=2)


def test_files_too_short_for_a_snippet_are_a_workload_error(tmp_path, monkeypatch):
    for name in PACKAGES[:2]:
        (tmp_path / name).mkdir()
        for number in range(5):
            (tmp_path / name / f"{number}.py").write_text("x = 1\n")
    monkeypatch.setattr(stdlib_source, "stdlib_folder", lambda: tmp_path)
    with pytest.raises(WorkloadError, match="too short for snippets of 64 tokens"):
        stdlib_text.build(classes=2)


def test_a_snippet_lies_within_one_file():
    files = [np.arange(10), np.arange(3), np.arange(100, 106)]
    made = stdlib_text.snippets(files, tokens=5, count=8)
    assert made.shape == (8, 5)
    assert (np.diff(made, axis=1) == 1).all()
    assert made[0, 0] == 0
    assert made[-1, -1] == 105


@pytest.mark.parametrize("tokens", [8, 512])
def test_all_packages_have_text_for_the_shortest_and_longest_snippets(tokens):
    workload = stdlib_text.build(classes=len(PACKAGES), tokens=tokens, examples=1_000)
    assert workload.train.source.value[0].shape == (1_000, tokens)
    assert np.bincount(workload.validation.source.value[1]).min() > 0


def test_the_order_of_words_reaches_the_model():
    keras.utils.set_random_seed(1)
    model = stdlib_text.small_transformer(2, 8)
    text = np.array([[1, 2, 3, 4, 5, 6, 7, 8]], np.int32)
    assert abs(model(text) - model(text[:, ::-1])).numpy().max() > 1e-4


def test_blocks_are_added_one_by_one():
    one, two = (stdlib_text.small_transformer(2, 8, blocks=blocks) for blocks in (1, 2))
    kinds = [type(layer).__name__ for layer in two.layers]
    assert kinds.count("MultiHeadAttention") == 2
    assert two.count_params() > one.count_params()
