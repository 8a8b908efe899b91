"""What is bundled, in which formats, and which other data a machine has."""

import gzip
import hashlib
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest
from support.tools import load_file
from tfopt_workloads import bundled, locations
from tfopt_workloads.catalog import data_sources
from tfopt_workloads.idx import idx_length, read_idx
from tfopt_workloads.locations import BUNDLED, FASHION_MNIST_FOLDER

from tfopt_core.errors import WorkloadError

TOOLS = Path(__file__).parents[3] / "workloads" / "tools"
LIMIT_BYTES = 20_000_000
OPEN_CLIP_ART_FOLDER = Path("/usr/share/openclipart/png")


@pytest.fixture(scope="module")
def fashion():
    return bundled.load("fashion_mnist")


def hashes(images):
    return [hashlib.sha256(image.tobytes()).digest() for image in images]


def test_no_image_occurs_twice_in_or_across_the_splits(fashion):
    seen = hashes(fashion["train_images"]) + hashes(fashion["validation_images"])
    assert len(set(seen)) == 15_000


@pytest.fixture(scope="module")
def weather():
    return bundled.load("weather")


def test_weather_rows_are_ordered_by_airport_and_hour_without_repeats(weather):
    rows = list(zip(weather["airport"].tolist(), weather["hour"].tolist(), strict=True))
    assert len(rows) == 26_115
    assert rows == sorted(set(rows))
    assert weather["airport_names"].tolist() == ["EWR", "JFK", "LGA"]


def test_all_bundled_files_stay_under_20_mb():
    assert 0 < sum(path.stat().st_size for path in BUNDLED.rglob("*")) < LIMIT_BYTES


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


@pytest.mark.tensorflow
@pytest.mark.skipif(not OPEN_CLIP_ART_FOLDER.is_dir(), reason="openclipart-png is missing")
def test_the_bundled_clipart_is_what_the_tool_chooses_from_the_originals(monkeypatch):
    tool = load_tool("build_clipart", monkeypatch)
    paths = tool.largest_classes(OPEN_CLIP_ART_FOLDER, 8)
    rebuilt = tool.chosen(paths["animals"], OPEN_CLIP_ART_FOLDER, 190)
    for number, (_, picture) in enumerate(rebuilt[:20]):
        bundled_file = BUNDLED / "clipart" / "animals" / f"{number:04d}.jpg"
        assert tool.as_jpeg(picture, 192) == bundled_file.read_bytes()


def load_tool(name, monkeypatch):
    monkeypatch.syspath_prepend(TOOLS)
    return load_file(TOOLS / f"{name}.py")


# The formats of files


def test_lengths_are_read_without_unpacking(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", a=np.zeros((7, 2)), b=np.zeros(3))
    assert bundled.lengths(tmp_path / "x.npz") == {"a": 7, "b": 3}
    sizes = b"".join(size.to_bytes(4, "big") for size in (40, 2, 2))
    (tmp_path / "x.gz").write_bytes(gzip.compress(bytes([0, 0, 8, 3]) + sizes + bytes(160)))
    assert idx_length(tmp_path / "x.gz") == 40
    assert read_idx(tmp_path / "x.gz").shape == (40, 2, 2)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"plain",
        gzip.compress(b"\0\0\x08", mtime=0),
        gzip.compress(bytes([0, 0, 8, 1, 0, 0, 0, 9, 1]), mtime=0),
        gzip.compress(bytes([0, 0, 8, 3, 0, 0, 0, 9, 1]), mtime=0),
        gzip.compress(bytes([0, 0, 8, 1, 0, 0, 0, 1, 1]), mtime=0)[:-9],
    ],
)
def test_damaged_idx_files_are_refused(tmp_path, content):
    (tmp_path / "x.gz").write_bytes(content)
    with pytest.raises((ValueError, OSError), match=r".+"):
        read_idx(tmp_path / "x.gz")


# Which data a machine has


def source(name, kind):
    return next(one for one in data_sources() if (one.name, one.kind) == (name, kind))


def test_each_registered_workload_has_a_present_source():
    present = {one.name for one in data_sources() if one.present}
    ours = {
        point.name
        for point in entry_points(group="tfopt.workloads")
        if point.value.startswith("tfopt_workloads.")
    }
    assert ours <= present


def test_a_missing_package_is_listed_with_the_command_that_installs_it(tmp_path, monkeypatch):
    monkeypatch.setattr(locations, "FASHION_MNIST_FOLDER", tmp_path / "none")
    missing = source("fashion-mnist", "debian")
    assert not missing.present
    assert missing.detail == "not there"
    assert missing.how_to_get == "apt-get install dataset-fashion-mnist"


def test_the_keras_cache_is_looked_for_where_keras_keeps_it(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    cache = source("fashion-mnist", "keras")
    assert cache.path == tmp_path / "datasets" / "fashion-mnist"
    assert not cache.present


def test_a_damaged_file_is_listed_as_not_readable(tmp_path, monkeypatch):
    (tmp_path / "fashion_mnist.npz").write_bytes(b"no zip")
    monkeypatch.setattr(locations, "BUNDLED", tmp_path)
    damaged = source("fashion-mnist", "bundled")
    assert not damaged.present
    assert damaged.detail.startswith("not readable")
    assert not source("flights", "bundled").present
