"""Run `tfopt apply train.py` on scripts of real length: what is found, and how long that takes.

    .venv/bin/python benchmarks/first_contact.py [--rounds 1] [--minutes 60] [--plan]
    .venv/bin/python benchmarks/first_contact.py --only vae_fashion --screen vae_fashion

The scripts are those of tests/integration/scripts, with more data and epochs, so that one training
takes one to five minutes on two cores; one of them has its own loop in place of `fit`. Each is
first run alone, as its author would: that is one training. Then come rounds of first contacts, each
in a new folder. Columns: one training; the look, until its proposal is printed; the first verdict,
which is due after two minutes or half of one training, whichever is more; the whole command, also
as a share of one training; then verdict, interval and stack of the last round.

Every run is kept in the folder `--store` as it ends: after Ctrl-C the same command goes on where it
was, and `--minutes 0` prints the table of what is there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from options import make_parser, output, positive
from pacing import OutOfTime, say
from peers.course import Store
from peers.processes import run_process
from scripts import SCRIPTS, SMOKE_OPTIONS, SMOKE_SCRIPT, line_of

# When the first verdict is due, as a promise to users: it does not follow the code.
DUE_SECONDS, DUE_SHARE = 120.0, 0.5
# The verdicts that count as a gain, and those that nothing that was proposed should get.
GAINS, LOSSES = ("faster", "steps faster", "quality open"), ("slower", "steps slower", "worse")
# About what a training and a first contact take, before one was run.
PLAIN_SECONDS, CONTACT_SECONDS = 120.0, 300.0
# What the command prints at the end of its look, and at a first verdict that more runs follow.
LOOKED = ("A step of ", "An update in the loop of ")
FIRST_VERDICT = ("first verdict, after ", "a pair of whole trainings, for")


@attrs.frozen(kw_only=True)
class Lengthened:
    """A script with more data and epochs.

    :param changes: texts of the script, each with what takes its place.
    :param arguments: the script's own.
    """

    changes: Mapping[str, str] = attrs.field(factory=dict)
    arguments: Sequence[str] = ()

    def text(self, script: str) -> str:
        """Return the text of the longer script.

        :raises SystemExit: if one of its texts is not there.
        """
        text = (SCRIPTS / f"{script}.py").read_text(encoding="utf-8")
        for old, new in self.changes.items():
            if old not in text:
                sys.exit(f"{script}.py has no {old!r} to lengthen")
            text = text.replace(old, new)
        return text


LONG = {
    "sequential_fashion": Lengthened(changes={"[:2500]": "[:10000]", "epochs = 3": "epochs = 80"}),
    "functional_tfdata": Lengthened(changes={"[:2000": "[:10000", "EPOCHS = 2": "EPOCHS = 50"}),
    "vae_fashion": Lengthened(changes={"[:2000]": "[:10000]", "epochs=3": "epochs=80"}),
    "gan_fashion": Lengthened(changes={"[:1500": "[:10000", "epochs=2": "epochs=24"}),
    "text_transformer": Lengthened(
        changes={"read(900)": "read(9000)", "[:1400]": "[:12000]", "[1400:]": "[12000:]",
                 "epochs=2": "epochs=40"}
    ),
    "text_vectorized": Lengthened(changes={"epochs=5": "epochs=80"}),
    "weather_lstm": Lengthened(
        changes={"[:4000]": "[:8700]", "train_split = 3000": "train_split = 7000",
                 "epochs=3": "epochs=100"}
    ),
    "unet_silhouettes": Lengthened(
        changes={'"train", 960': '"train", 9600', '"validation", 320': '"validation", 1600',
                 "epochs=2": "epochs=15"}
    ),
    "multi_output_flights": Lengthened(arguments=("--epochs", "400")),
    "gradient_tape_loop": Lengthened(changes={"[:4000]": "[:10000]", "range(2)": "range(300)"}),
}  # fmt: skip


@attrs.define
class Contacts:
    """The scripts with their runs.

    :param until: the monotonic time after which no run is begun that would end later.
    """

    scripts: Mapping[str, Lengthened]
    store: Store
    rounds: int
    options: Sequence[str] = ()
    until: float = float("inf")

    def run(self) -> None:
        """Run all that the store lacks: each script alone, then first contacts in rounds.

        :raises OutOfTime: if the time ends before that.
        """
        for key, script, seconds in self.left():
            if time.monotonic() + seconds > self.until:
                raise OutOfTime
            say(f"{key}, about {seconds / 60:.1f} minutes")
            alone = key == plain_key(script)
            run = trained_alone if alone else first_contact
            options = () if alone else self.options
            self.store.keep(key, run(script, self.scripts[script], options))

    def left(self) -> Iterator[tuple[str, str, float]]:
        """Yield the key, the script and about the seconds of each run that the store lacks."""
        for script in self.scripts:
            if self.store.get(plain_key(script)) is None:
                yield plain_key(script), script, PLAIN_SECONDS
        for number in range(self.rounds):
            for script in self.scripts:
                if self.store.get(contact_key(script, number)) is None:
                    yield contact_key(script, number), script, CONTACT_SECONDS

    def rows(self) -> list[Row]:
        """Return a row for each script that was run alone and in a round."""
        rows = []
        for script in self.scripts:
            found = [self.store.get(contact_key(script, number)) for number in range(self.rounds)]
            contacts, plain = [one for one in found if one], self.store.get(plain_key(script))
            if contacts and plain and "failed" not in plain:
                rows.append(Row(script, plain["process_seconds"], contacts))
        return rows


@attrs.frozen
class Row:
    """What was seen of one script.

    :param training_seconds: of one training, the whole process.
    """

    script: str
    training_seconds: float
    contacts: Sequence[Mapping[str, Any]]

    @property
    def last(self) -> Mapping[str, Any]:
        """The first contact of the last round."""
        return self.contacts[-1]

    @property
    def due_seconds(self) -> float:
        """The seconds after which a first verdict is due."""
        return max(DUE_SECONDS, DUE_SHARE * self.training_seconds)

    @property
    def late(self) -> bool:
        """Whether the verdict of a round came too late."""
        return any(one["verdict_seconds"] > self.due_seconds for one in self.contacts)

    def cells(self) -> list[str]:
        """Return the cells of its row, the slowest round for the seconds."""
        look, verdict, whole = (
            max(one[name] or 0.0 for one in self.contacts)
            for name in ("look_seconds", "verdict_seconds", "seconds")
        )
        return [
            self.script, f"{self.training_seconds:.0f}", f"{look:.0f}" if look else "",
            f"{verdict:.0f} of {self.due_seconds:.0f}{' (late)' if self.late else ''}",
            f"{whole:.0f}", f"{whole / self.training_seconds:.1f}", self.last["verdict"],
            self.last["speedup"], self.last["stack"],
        ]  # fmt: skip


TITLES = ["script", "one training s", "look s", "first verdict s", "in all s", "share",
          "verdict", "interval", "stack"]  # fmt: skip


def plain_key(script: str) -> str:
    """Return the store's key of a script that is run alone."""
    return f"{script} alone"


def contact_key(script: str, number: int) -> str:
    """Return the store's key of a first contact; rounds count from 0."""
    return f"{script} round {number + 1}"


def trained_alone(script: str, long: Lengthened, _: Sequence[str]) -> dict[str, Any]:
    """Return the seconds of one training, of the script alone."""
    with written(script, long) as folder:
        command = [sys.executable, f"{script}.py", *long.arguments]
        return run_process(command, Path(folder), {})


def first_contact(script: str, long: Lengthened, options: Sequence[str]) -> dict[str, Any]:
    """Return what `tfopt apply` on the script found, and when it said so.

    :param options: further options of the command.
    """
    with written(script, long) as name:
        folder = Path(name)
        out = folder / "out.json"
        program = [sys.executable, "-m", "tfopt_core", "apply", f"{script}.py", "--json", out.name]
        arguments = ["--", *long.arguments] if long.arguments else []
        # the time of a file is that of the wall's clock
        begun = time.time()
        with subprocess.Popen(
            [*program, *options, *arguments], cwd=folder, stdout=subprocess.PIPE, text=True,
            stderr=subprocess.STDOUT, env={**os.environ, "PYTHONUNBUFFERED": "1"},
        ) as process:  # fmt: skip
            assert process.stdout is not None
            lines = [(time.time() - begun, line.rstrip()) for line in process.stdout]
        seconds = time.time() - begun
        screen = [line for _, line in lines]
        looked = _when(lines, *LOOKED)
        if not out.exists():
            said = " ".join(" ".join(screen[-4:]).split())
            found = {"verdict": f"status {process.returncode}: {said[-150:]}", "speedup": "",
                     "stack": "", "failed": said}  # fmt: skip
            ended = seconds
        else:
            line = line_of(script, json.loads(out.read_text(encoding="utf-8")), seconds)
            found = {"verdict": line.verdict, "speedup": line.speedup, "stack": line.stack}
            # what is written after the verdict is no part of it
            ended = out.stat().st_mtime - begun
    first = _when(lines, *FIRST_VERDICT)
    return {
        **found, "look_seconds": looked, "verdict_seconds": ended if first is None else first,
        "seconds": seconds, "screen": screen,
    }  # fmt: skip


def written(script: str, long: Lengthened) -> tempfile.TemporaryDirectory[str]:
    """Return a temporary folder that holds the longer script."""
    folder = tempfile.TemporaryDirectory(prefix="tfopt-contact-")
    (Path(folder.name) / f"{script}.py").write_text(long.text(script), encoding="utf-8")
    (Path(folder.name) / "pyproject.toml").touch()
    return folder


def _when(lines: Sequence[tuple[float, str]], *words: str) -> float | None:
    """Return when the first line with one of these words was printed, None if none was."""
    return next((when for when, line in lines if any(one in line for one in words)), None)


def table(rows: Sequence[Row]) -> str:
    """Return the table, and what it says about the promises of a first contact."""
    cells = [TITLES, *(row.cells() for row in rows)]
    lines = ["| " + " | ".join(row) + " |" for row in cells]
    lines.insert(1, "|" + " --- |" * len(TITLES))
    gains = sum(row.last["verdict"] in GAINS for row in rows)
    losses = [row.script for row in rows if row.last["verdict"] in LOSSES]
    late = [row.script for row in rows if row.late]
    return "\n".join([
        *lines, "",
        f"{gains} of {len(rows)} scripts train faster; slower as proposed: "
        f"{', '.join(losses) or 'none'}; first verdict too late: {', '.join(late) or 'none'}",
    ])  # fmt: skip


def main() -> None:
    """Run what is left, print the table, and write it."""
    parser = make_parser(__doc__)
    parser.add_argument("--rounds", type=positive, default=1)
    parser.add_argument("--only", help="scripts, separated by commas")
    parser.add_argument("--minutes", type=float, help="begin no run that would end later")
    parser.add_argument("--plan", action="store_true", help="only say what is left to run")
    parser.add_argument("--retry", action="store_true", help="run again what failed before")
    parser.add_argument("--screen", metavar="SCRIPT", help="print what its last round printed")
    parser.add_argument("--store", type=Path, default=Path(".tfopt/first-contact"))
    parser.add_argument("--out", type=output, help="the file for the table")
    options = parser.parse_args()
    known = {SMOKE_SCRIPT: Lengthened()} if options.smoke else LONG
    only = (options.only or ",".join(known)).split(",")
    if unknown := set(only) - set(known):
        parser.error(f"--only: {', '.join(sorted(unknown))}: none of {', '.join(known)}")
    scripts = {name: known[name] for name in only}
    texts = {name: attrs.asdict(long) for name, long in known.items()}
    # through JSON, as the store keeps it
    settings = json.loads(json.dumps({"smoke": options.smoke, "scripts": texts}))
    store = Store(options.store / "runs.jsonl", settings, retry=options.retry)
    contacts = Contacts(scripts, store, options.rounds, SMOKE_OPTIONS if options.smoke else ())
    left = list(contacts.left())
    minutes = sum(seconds for _, _, seconds in left) / 60
    say(f"{len(left)} runs are left, about {minutes:.0f} minutes on two idle cores")
    if options.plan:
        return
    if options.minutes is not None:
        contacts.until = time.monotonic() + 60 * options.minutes
    ended = ""
    try:
        contacts.run()
    except OutOfTime:
        ended = f"{options.minutes:g} minutes are over"
    except KeyboardInterrupt:
        ended = "interrupted"
    if ended:
        say(f"{ended}; {len(list(contacts.left()))} runs are left, and the same command goes on")
    rows = contacts.rows()
    for script in scripts:
        if why := (store.get(plain_key(script)) or {}).get("failed"):
            say(f"{script} failed alone: {why.splitlines()[-1]}")
    print(table(rows))
    if options.out is not None:
        options.out.write_text(table(rows) + "\n", encoding="utf-8")
    for row in rows:
        if row.script == options.screen:
            print("\n".join(row.last["screen"]))
    if ended == "interrupted":
        sys.exit(130)


if __name__ == "__main__":
    main()
