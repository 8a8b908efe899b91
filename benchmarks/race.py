"""Race tfopt's recipes against stock and hand-set Keras, Keras on JAX, and PyTorch.

    make bench-peers
    .venv/bin/python benchmarks/race.py [--rounds 4] [--minutes 55] [--only mlp,lstm] [--plan]

Seven trainings: five with recipes that ship, and two ("autoencoder", "gru") on which nothing was
tuned. Every contestant trains the same data, model, optimizer and number of epochs, in a process
of its own. First each peer's own options are tried on a part of the data and the fastest taken, in
float32 and in any precision; then the chosen ones run in rounds. In a round they train in turns of
a second or two, one while the others are stopped (`peers/turns.py`). A round goes over all lines
before the next one begins, so that a race which ends early has the same rounds everywhere.
`peers/page.py` says by which rule a row is void and who is ahead.

Every run is kept in the folder `--store` as it ends: after Ctrl-C the same command goes on where it
was, and `--minutes 0` writes the page of what is there. Where a recipe of tfopt's has changed, the
rounds of its line are run again; what its peers' options did is kept.
"""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from options import make_parser, output, positive
from pacing import add_pacing, run_within, say_what_is_left
from peers import page
from peers.course import Course, Store
from peers.files import Files
from peers.limits import Limits, Work
from peers.lines import LINES
from peers.rounds import Race

from tfopt_core.hooks.machine import read_machine

HERE = Path(__file__).resolve().parent
SMOKE_EXAMPLES, SMOKE_EPOCHS = 256, 2
OURS_VERSIONS = ("tfopt", "tensorflow", "keras")
PEER_VERSIONS = ("jax", "keras", "torch")


def versions(peers: Path) -> dict[str, str]:
    """Return the versions of the systems in both environments."""
    found = {"Python": sys.version.split()[0], **{name: version(name) for name in OURS_VERSIONS}}
    if peers.exists():
        program = "import sys, importlib.metadata as m; print(*map(m.version, sys.argv[1:]))"
        done = subprocess.run([peers, "-c", program, *PEER_VERSIONS], capture_output=True,
                              text=True, check=True)  # fmt: skip
        for name, number in zip(PEER_VERSIONS, done.stdout.split(), strict=True):
            found[f"{name} (peers)" if name in found else name] = number
    return found


def whole_page(race: Race, peers: Path) -> str:
    """Return the page of all lines that have run."""
    machine = read_machine()
    limits = race.store.get("limits")
    lines = {name: rows for name in race.courses if (rows := race.rows(name))}
    compiled = {name: Files(race.courses[name].folder, 0).read_compiled() for name in lines}
    notes = [] if race.has_peers else ["Keras on JAX and PyTorch were not raced: not installed."]
    if race.smoke:
        notes.append("**Only a try of the benchmark on little data: its figures mean nothing.**")
    return page.page(page.Race(
        lines=lines,
        grids={name: race.tried(name) for name in lines},
        works={name: Work.of(each) for name, each in compiled.items()},
        limits=None if limits is None else Limits(**limits),
        machine=f"{machine.cpu_model}, {machine.cpu_count} CPUs, "
                f"{machine.memory_bytes / 2**30:.0f} GiB of memory, {machine.system}",
        versions=versions(peers),
        date=f"{datetime.now(UTC):%-d %B %Y}",
        notes=notes,
    ))  # fmt: skip


def main() -> None:
    """Race, print the tables, and write the page."""
    parser = make_parser(__doc__)
    parser.add_argument("--rounds", type=positive, default=4)
    parser.add_argument("--left-out-rounds", type=positive, default=3, metavar="N",
                        help="leave plugins out in the first N rounds")  # fmt: skip
    parser.add_argument("--only", help="lines, separated by commas")
    add_pacing(parser)
    parser.add_argument("--retry", action="store_true", help="run again what failed before")
    parser.add_argument("--store", type=Path, default=Path(".tfopt/race"))
    parser.add_argument("--peers", type=Path, default=HERE.parent / ".venv-peers/bin/python")
    parser.add_argument("--out", type=output, help="the page to write")
    options = parser.parse_args()
    only = (options.only or ("mlp" if options.smoke else ",".join(LINES))).split(",")
    if unknown := set(only) - set(LINES):
        parser.error(f"--only: {', '.join(sorted(unknown))}: none of {', '.join(LINES)}")
    rounds = min(2, options.rounds) if options.smoke else options.rounds
    courses = {
        name: Course(
            name, (options.store / name).resolve(), options.peers.absolute(),
            SMOKE_EPOCHS if options.smoke else LINES[name].epochs, range(1, rounds + 1),
            SMOKE_EXAMPLES if options.smoke else None,
        )
        for name in only
    }  # fmt: skip
    store = Store(
        options.store / "runs.jsonl",
        {"smoke": options.smoke, "in turns": True},
        retry=options.retry,
    )
    race = Race(
        courses, store, rounds, options.smoke, options.peers.exists(), options.left_out_rounds
    )
    say_what_is_left(race)
    if options.plan:
        return
    ended = run_within(race, options.minutes)
    if any(race.rows(name) for name in courses):
        text = whole_page(race, options.peers)
        print(text)
        if options.out is not None:
            options.out.write_text(text, encoding="utf-8")
    if ended == "interrupted":
        sys.exit(130)


if __name__ == "__main__":
    main()
