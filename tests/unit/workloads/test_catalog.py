"""Which data a machine has, and what importing costs."""

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

from tfopt_workloads import locations
from tfopt_workloads.catalog import data_sources


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


def test_importing_and_listing_imports_neither_tensorflow_nor_numpy():
    roots = [str(Path(locations.__file__).parents[1]), str(Path(__file__).parents[3])]
    code = (
        f"import sys; sys.path[:0] = {roots!r}; "
        "from tfopt_workloads import catalog, clipart_jpeg, fashion_mnist, flights, stdlib_text; "
        "from tfopt_workloads import weather; catalog.data_sources(); "
        "print(sorted({'tensorflow', 'keras', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
