"""Race the stacks that `tfopt tune` finds against the hand-made recipes of the race.

    .venv/bin/python benchmarks/tuned_stacks.py [--rounds 6] [--minutes 120] [--only mlp,gru]

On each training of `race.py`, written as a recipe without plugins, `tfopt tune` searches with its
default budget, from nothing. Then its recipe and the hand-made ones train in rounds, in turns as
those of the race do, and the seconds of its epochs are compared with those of the fastest of these:
with their validation, as `tfopt tune` counts them, and without, as the race does.
Where all of them are the same plugins with the same settings once "auto" is resolved, but for
plugins that were not applied, one round shows that, and there is nothing to compare.
A search is for a multiple of the race's epochs, so that a training takes a minute or so. On
"spectral", whose step is one decomposition after another, no plugin should help: there the search
should end within a third of its budget.

Every search and every training is kept in the folder `--store` as it ends: after Ctrl-C the same
command goes on where it was, and `--minutes 0` prints the table of what is there.
"""

from __future__ import annotations

import json
import math
import random
import re
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import attrs
from options import make_parser, output, positive
from pacing import OutOfTime, add_pacing, fits, run_within, say, say_what_is_left
from peers.course import OUT, SMOKE_TURNS_SECONDS, Store, with_what_was_written
from peers.lines import LINES, PEERS, recipe_text
from peers.processes import LIMIT_SECONDS, run_process
from peers.standings import Ratio, mean_ratio
from peers.turns import Report, Start, train_in_turns

from tfopt_core.recipe.formats import duration
from tfopt_core.statistics.intervals import log_ratios

# Epochs as a multiple of those of the race, by which stock Keras trains for about a minute.
LONGER = {"mlp": 20, "cnn": 10, "lstm": 6, "jpeg": 10, "transformer": 6, "autoencoder": 25,
          "gru": 8}  # fmt: skip
# What each trains in all turns of a round: an epoch takes seconds, and the bar is a twentieth.
ROUND_SECONDS = 16.0
# The bar: the speed of the hand-made recipe, but for a twentieth.
CLOSE = 0.95
BUDGET, SMOKE_BUDGET = "15m", "20s"
NOTHING_HELPS, SHARE_OF_NOTHING = "spectral", 1 / 3
HAND_MADE, FOUND = "hand-made", "found"
WHOLE, TRAINED = "whole_seconds", "epoch_seconds"
NOT_APPLIED = re.compile(r"^- +(\S+) +not applied", re.MULTILINE)
NOTHING = f"""name = "{NOTHING_HELPS}"
[workload]
factory = "{PEERS.parent / "networks.py"}:{NOTHING_HELPS}"
epochs = 4
batch_size = 64
"""
TITLES = ["training", "stack found", "verdict of its fresh pairs", "search s", "in all s",
          "hand-made: its epoch / found", "", "without validation"]  # fmt: skip


@attrs.define
class Searches:
    """The searches, and the rounds of what they found.

    :param until: the monotonic time after which nothing is begun that would end later.
    """

    names: Sequence[str]
    folder: Path
    store: Store
    rounds: int
    budget: str
    smoke: bool
    until: float = math.inf

    def run(self) -> None:
        """Run all that the store lacks.

        :raises OutOfTime: if the time ends before that.
        """
        for key, name, seconds in self._missing():
            if not fits(self.until, seconds):
                raise OutOfTime
            say(f"{key}, about {seconds / 60:.1f} minutes")
            _, what, number = key.split()
            report = self._search(name) if what == "search" else self._round(name, int(number))
            self.store.keep(key, report)
            if "failed" in report:
                say(f"  failed: {str(report['failed'])[-300:]}")

    def left(self) -> tuple[int, float]:
        """Return how many runs are left and about how many seconds they take."""
        missing = list(self._missing())
        return len(missing), sum(seconds for _, _, seconds in missing)

    def _missing(self) -> Iterator[tuple[str, str, float]]:
        """Yield the key, the training and about the seconds of what the store lacks; a search
        before the rounds of what it finds."""
        for name in self.names:
            if self.store.get(f"{name} search 0") is None:
                yield f"{name} search 0", name, duration(self.budget)
            if name == NOTHING_HELPS or "failed" in (self.store.get(f"{name} search 0") or {}):
                continue
            for number in range(self.rounds):
                if number and self._is_decided(name):
                    break
                if self.store.get(f"{name} round {number}") is None:
                    yield f"{name} round {number}", name, 90.0

    def _is_decided(self, name: str) -> bool:
        """Return whether the first round shows that there is nothing to compare."""
        first = self.store.get(f"{name} round 0")
        return first is not None and all_same_stack(first)

    def _search(self, name: str) -> Report:
        """Return what `tfopt tune` said of a training; its recipe is kept in its folder."""
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "pyproject.toml").touch()
        (folder / "plain.toml").write_text(self._recipe(name, ""), encoding="utf-8")
        if name != NOTHING_HELPS:
            for number, hand_made in enumerate(LINES[name].recipes):
                text = self._recipe(name, hand_made)
                (folder / f"{HAND_MADE}-{number}.toml").write_text(text, encoding="utf-8")
        done = run_process(
            [sys.executable, "-m", "tfopt_core", "tune", "plain.toml", "--budget", self.budget,
             "--write", "found.toml", "--json", "found.json", "--fresh"],
            folder, {}, limit_seconds=2 * duration(self.budget),
        )  # fmt: skip
        if "failed" not in done:
            done["found"] = json.loads((folder / "found.json").read_text(encoding="utf-8"))
        return done

    def _round(self, name: str, number: int) -> Report:
        """Return the reports of the found recipe and the hand-made ones, which train in turns."""
        folder = self.folder / name
        # where nothing was found, nothing is what a user would train with
        found = "found.toml" if (folder / "found.toml").exists() else "plain.toml"
        hand_made = [f"{HAND_MADE}-{one}" for one in range(len(LINES[name].recipes))]
        if number and (first := self.store.get(f"{name} round 0")) is not None:
            hand_made = distinct(first, hand_made)
        recipes = {FOUND: found, **{one: f"{one}.toml" for one in hand_made}}
        draw = random.Random(f"{name} {number}")
        keys = draw.sample(sorted(recipes), len(recipes))
        starts = [_start(folder / key, folder / recipes[key], number + 1) for key in keys]
        seconds = SMOKE_TURNS_SECONDS if self.smoke else ROUND_SECONDS
        reports = train_in_turns(starts, draw, seconds, LIMIT_SECONDS)
        return {
            key: with_what_was_written(report, folder / key)
            | ({} if number or "failed" in report else _stack(folder, key, recipes[key]))
            for key, report in zip(keys, reports, strict=True)
        }

    def _recipe(self, name: str, plugins: str) -> str:
        if name == NOTHING_HELPS:
            return NOTHING
        epochs = 2 if self.smoke else LINES[name].epochs * LONGER[name]
        return recipe_text(name, plugins, epochs, 256 if self.smoke else None)

    def rows(self) -> list[list[str]]:
        """Return the cells of each training that was searched."""
        return [self._row(name) for name in self.names if self.store.get(f"{name} search 0")]

    def _row(self, name: str) -> list[str]:
        search = self.store.get(f"{name} search 0") or {}
        if "failed" in search:
            return [name, "", f"failed: {search['failed'].splitlines()[-1]}", *[""] * 5]
        found = search["found"]
        proof = found["proof"]
        verdict = proof["comparison"]["statement"] if proof else found["why_not_written"]
        cells = [
            name, ", ".join(f"`{one['name']}`" for one in found["stack"]) or "none", verdict,
            f"{found['search_seconds']:.0f}", f"{search['process_seconds']:.0f}",
        ]  # fmt: skip
        if name == NOTHING_HELPS:
            due = SHARE_OF_NOTHING * duration(self.budget)
            met = not found["stack"] and search["process_seconds"] <= due
            return [*cells, f"due after {due:.0f} s", "met" if met else "missed", ""]
        runs = [self.store.get(f"{name} round {number}") for number in range(self.rounds)]
        if self._is_decided(name):
            return [*cells, "1x: the same plugins and settings", "met", ""]
        # fewer rounds decide nothing: who may stop early finds what he looks for
        compared, trained = (
            ratio([run for run in runs if run], kind) if all(runs) else None
            for kind in (WHOLE, TRAINED)
        )
        if compared is None or trained is None:
            return [*cells, *[""] * 3]
        return [*cells, *in_words(compared), in_words(trained)[0]]


def _stack(folder: Path, key: str, recipe: str) -> Report:
    """Return the plugins that a training applied with their resolved settings, and the data plan,
    precision and XLA of its recipe; empty if the recipe cannot be planned."""
    output = (folder / key / "output.txt").read_text(encoding="utf-8")
    left_out = set(NOT_APPLIED.findall(output))
    done = run_process(
        [sys.executable, "-m", "tfopt_core", "plan", recipe, "--json", "plan.json"],
        folder, {}, limit_seconds=LIMIT_SECONDS,
    )  # fmt: skip
    if "failed" in done:
        return {}
    plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))["plan"]
    plugins = {one["name"]: one["settings"] for one in plan["plugins"]}
    stack = {name: plugins[name] for name in sorted(plugins) if name not in left_out}
    # the order of plugins may matter to these
    made = {key: plan[key] for key in ("data_after", "policy", "jit_compile")}
    return {"stack": {"plugins": stack, **made}}


def all_same_stack(first: Report) -> bool:
    """Return whether all recipes of a first round have the same stack."""
    stacks = [report.get("stack") for report in first.values()]
    return None not in stacks and all(stack == stacks[0] for stack in stacks)


def distinct(first: Report, keys: Sequence[str]) -> list[str]:
    """Return the keys of a first round whose stacks are distinct: of equal ones, the first."""
    stacks = [first[key].get("stack") for key in keys]
    return [key for number, key in enumerate(keys)
            if stacks[number] is None or stacks[number] not in stacks[:number]]  # fmt: skip


def ratio(rounds: Sequence[Report], kind: str) -> Ratio | None:
    """Return by how much an epoch of the found recipe is faster than one of the hand-made recipe
    that is the fastest, with the 95% interval; None if a training has failed or none was made.

    :param kind: the seconds of a report that count.
    """
    if not rounds or any("failed" in report for run in rounds for report in run.values()):
        return None
    seconds = {
        key: [median(run[key][kind][1:]) for run in rounds] for key in rounds[-1]
    }  # fmt: skip
    found = seconds.pop(FOUND)
    return mean_ratio(log_ratios(min(seconds.values(), key=median), found))


def in_words(found: Ratio) -> tuple[str, str]:
    """Return a ratio with its interval, and whether the bar is met."""
    middle, low, high = found
    if math.isnan(low):
        return f"{middle:.2f}x", "undecided"
    words = f"{middle:.2f}x ({low:.2f} to {high:.2f})"
    if low >= CLOSE:
        return words, "met"
    return words, "missed" if high < CLOSE else "undecided"


def _start(place: Path, recipe: Path, seed: int) -> Start:
    """Return how a training with a recipe is started."""
    place.mkdir(exist_ok=True)
    out = place / OUT
    out.unlink(missing_ok=True)

    def command() -> tuple[list[str], dict[str, str]]:
        return (
            [sys.executable, "-m", "tfopt_core", "train", str(recipe), "--seed", str(seed)],
            {"PEERS_STARTED": str(time.monotonic()), "PEERS_REPORT": str(out), "PEERS_EPOCHS": "2"},
        )

    return Start(place, command)


def main() -> None:
    """Search, race, print the table, and write it."""
    parser = make_parser(__doc__)
    parser.add_argument("--rounds", type=positive, default=6)
    parser.add_argument("--only", help="trainings, separated by commas")
    parser.add_argument("--budget", default=BUDGET, help="of each search")
    add_pacing(parser)
    parser.add_argument("--store", type=Path, default=Path(".tfopt/tuned-stacks"))
    parser.add_argument("--out", type=output, help="the file for the table")
    options: Any = parser.parse_args()
    known = [*LINES, NOTHING_HELPS]
    only = (options.only or ("mlp" if options.smoke else ",".join(known))).split(",")
    if unknown := set(only) - set(known):
        parser.error(f"--only: {', '.join(sorted(unknown))}: none of {', '.join(known)}")
    budget = SMOKE_BUDGET if options.smoke else options.budget
    store = Store(
        options.store / "runs.jsonl",
        {"smoke": options.smoke, "budget": budget, "seconds": ROUND_SECONDS},
    )
    searches = Searches(
        only, options.store.resolve(), store, 1 if options.smoke else options.rounds, budget,
        options.smoke,
    )  # fmt: skip
    say_what_is_left(searches)
    if options.plan:
        return
    ended = run_within(searches, options.minutes)
    cells = [TITLES, ["---"] * len(TITLES), *searches.rows()]
    table = "\n".join("| " + " | ".join(row) + " |" for row in cells)
    print(table)
    if options.out is not None:
        options.out.write_text(table + "\n", encoding="utf-8")
    if ended == "interrupted":
        sys.exit(130)


if __name__ == "__main__":
    main()
