"""The program that writes a store while its n-th operation goes wrong, for each n in turn.

    LD_PRELOAD=nth_operation.so python -P store_at_fault.py FOLDER KIND

KIND is fail, full, tear or kill. For each n a fork writes a measurement in FOLDER/n until it is
done or that operation ends it. One line of JSON for each: what the fork reported as stored, and how
it ended. The last n is the first at which nothing went wrong any more.
"""

import ctypes
import json
import os
import sys
import traceback
from pathlib import Path

import attrs

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.stored_measurements import FIRST_RESULTS
from tfopt_core.errors import StoreError
from tfopt_core.store.database import Store, store_path

KINDS = ("none", "fail", "full", "tear", "kill")
# Statuses of a fork.
DONE, REFUSED, BUG = 0, 3, 70
RUNS = FIRST_RESULTS.runs[:3]
preloaded = ctypes.CDLL(None)


def write_measurement(project: Path, report: int) -> None:
    """Write what `tfopt apply` writes, and report each step that the store says is done."""

    def done(what: str) -> None:
        os.write(report, f"{what}\n".encode())

    with Store(store_path(project)) as store:
        store.begin("m", "1", "r", "x", {"filler": "x" * 5000})
        done("begun")
        for run in RUNS:
            store.add_run("m", run)
            done(run.id)
        store.finish(attrs.evolve(FIRST_RESULTS, id="m"))
        done("finished")


def attempt(project: Path, number: int, kind: int) -> dict[str, object]:
    """Return what a fork stored, its exit status, and whether the operation was reached."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = DONE
        try:
            preloaded.fault_at(number, kind)
            write_measurement(project, theirs)
        except StoreError as error:
            os.write(theirs, f"error: {error}\n".encode())
            status = REFUSED
        except BaseException:
            traceback.print_exc()
            status = BUG
        if preloaded.fault_count() < number:
            os.write(theirs, b"not reached\n")
        os._exit(status)
    os.close(theirs)
    with open(ours, encoding="utf-8") as pipe:
        lines = pipe.read().splitlines()
    _, ended = os.waitpid(pid, 0)
    return {"number": number, "lines": lines, "status": os.waitstatus_to_exitcode(ended)}


def main(folder: Path, kind: str) -> None:
    """Make an attempt for each operation."""
    number, reached = 0, True
    while reached:
        number += 1
        found = attempt(folder / str(number), number, KINDS.index(kind))
        print(json.dumps(found), flush=True)
        reached = "not reached" not in found["lines"]  # type: ignore[operator]


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
