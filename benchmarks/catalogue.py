"""Measure each plugin where it should help and where it should not, and write docs/catalogue.md.

    .venv/bin/python benchmarks/catalogue.py [--plugin NAME ...] [--pairs 8] [--smoke]

A round is one run of the baseline and one of each plugin alone, in an order that is drawn, all
under one seed: one baseline serves all. What was measured is kept in .tfopt/catalogue.jsonl, so
that a second call goes on; a round that was interrupted is measured again. The whole catalogue
takes some hours; nothing else should run meanwhile.
"""

from __future__ import annotations

import functools
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import catalogue_page
import tomlkit
from catalogue_rows import PLACES, ROWS, Place, Row
from options import make_parser

HERE = Path(__file__).parent
LEAST_PAIRS = 4
BASELINE = "baseline"
# What may change a figure: other versions of these are not put into one table.
MEASURED_FOLDERS = ("tfopt_core", "plugins", "workloads")
# To check that it runs: at one place a plugin that is applied and one that is not, few examples.
SMOKE_PLACE, SMOKE_PLUGINS = "prepared rows", ("steps-per-execution", "gpu-memory")
SMOKE_EPOCHS, SMOKE_EXAMPLES = 1, 256


def recipe_text(place: Place, name: str, row: Row | None) -> str:
    """Return the recipe of the workload with one plugin, or with none."""
    recipe: dict[str, Any] = {
        "name": f"catalogue {name}",
        "workload": {
            "use": place.workload, "epochs": place.epochs, "options": dict(place.options)
        },
    }  # fmt: skip
    if row is not None:
        recipe["plugins"] = [{"use": name, **row.settings}]
    if place.target is not None:
        recipe["measure"] = {"target": dict(place.target)}
    return tomlkit.dumps(recipe)


class Store:
    """The rounds that were measured, one JSON line each.

    :raises SystemExit: if the file is of another version of the code.
    """

    def __init__(self, path: Path, version: str) -> None:
        self._path, self._version = path, version
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self.rounds: list[dict[str, Any]] = [json.loads(line) for line in lines]
        if any(one["version"] != version for one in self.rounds):
            sys.exit(f"{path} is of another version of the code; remove it to measure anew")

    def add(self, place: str, runs: Mapping[str, Any]) -> None:
        """Keep a round that is whole."""
        self.rounds.append({"version": self._version, "place": place, "runs": dict(runs)})
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(self.rounds[-1]) + "\n")

    def of(self, place: str, plugin: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Return the baseline's run and that of a plugin, of each round that has both."""
        runs = [one["runs"] for one in self.rounds if one["place"] == place]
        return [(one[BASELINE], one[plugin]) for one in runs if plugin in one]


@attrs.define
class Workbench:
    """Trains one place with one plugin or with none; what a recipe resolves to is kept.

    :param folder: for recipes and private folders.
    """

    folder: Path
    _known: dict[tuple[str, str], Any] = attrs.field(factory=dict)

    def run(self, place_name: str, place: Place, name: str, row: Row | None, seed: int) -> Any:
        """Return the facts of one run, as plain data."""
        from tfopt_core.errors import TfoptError
        from tfopt_core.records.variants import Turn, Variant

        key = place_name, name
        if key not in self._known:
            try:
                self._known[key] = self._prepared(place, name, row)
            except TfoptError as error:
                self._known[key] = f"refused: {str(error).splitlines()[0]}"
        known = self._known[key]
        if isinstance(known, str):
            return {"why_not": known}
        request = known.request
        turn = Turn(seed, 0, Variant(name, request.plugins), seed + 1)
        run = known.run(turn, request.folder.name, lambda message: None)
        return facts_of(run, request.plugins)

    def _prepared(self, place: Place, name: str, row: Row | None) -> Any:
        """Return what starts the runs of a plugin, "auto" resolved; for an observer why none do.

        :raises TfoptError: if it is refused here.
        """
        from tfopt_core.app.command_request import make_request
        from tfopt_core.trials.preparation import prepare
        from tfopt_core.trials.processes import Processes
        from tfopt_core.workers.clusters.local import LocalCluster
        from tfopt_core.workers.spawn import SpawnRunner

        # all in new processes: a plugin that changes the environment could not be forked, and the
        # baseline is that of all plugins
        runner = LocalCluster(inner=SpawnRunner(), spawn=SpawnRunner())
        path = self.folder / "recipe.toml"
        path.write_text(recipe_text(place, name, row), encoding="utf-8")
        request, _ = make_request(str(path), [], compares=False)
        if request.observers:
            return "an observer, which joins one extra, untimed run"
        return Processes(prepare(request, runner)[1], runner)


def facts_of(run: Any, plugins: Sequence[Any]) -> dict[str, Any]:
    """Return what the page needs of a run: its figures, or why there are none."""
    from tfopt_core.hooks.card import math_of

    if not run.ok:
        return {"why_not": f"failed: {(run.error or 'no cause is known').splitlines()[0]}"}
    for effect in run.effects.values():
        if not effect.applied:
            return {"why_not": effect.detail}
    return {
        "seconds": run.wall_seconds,
        "seconds_to_target": run.fit.seconds_to_target,
        "peak_rss_bytes": run.peak_rss_bytes,
        "math": next((math_of(one.name, one.plugin) for one in plugins), None),
        "disturbance": dict(run.disturbance),
    }


def lacking(store: Store, place: str, plugins: Sequence[str], pairs: int) -> list[str]:
    """Return the plugins that need another round: too few, and none that says "not applied"."""
    found = {name: store.of(place, name) for name in plugins}
    return [
        name
        for name, runs in found.items()
        if len(runs) < pairs and not any("why_not" in run for _, run in runs)
    ]


def measure(
    store: Store, bench: Workbench, places: Mapping[str, Place], names: Sequence[str], pairs: int
) -> None:
    """Measure until each plugin has its pairs at both of its places."""
    for place_name, place in places.items():
        here = [n for n in names if place_name in (ROWS[n].helps, ROWS[n].harms)]
        while needed := lacking(store, place_name, here, pairs):
            number = sum(one["place"] == place_name for one in store.rounds)
            order = [BASELINE, *needed]
            random.Random(f"{place_name} {number}").shuffle(order)
            print(f"{place_name}: round {number + 1}, {', '.join(order)}", flush=True)
            runs = {
                name: bench.run(place_name, place, name, ROWS.get(name), number) for name in order
            }
            if "why_not" in runs[BASELINE]:
                sys.exit(f"{place_name}: the baseline {runs[BASELINE]['why_not']}")
            store.add(place_name, runs)


def version_of_code() -> str:
    """Return the hashes of what is measured, and whether it was changed since."""
    git = functools.partial(subprocess.run, cwd=HERE.parent, capture_output=True, text=True)
    trees = git(["git", "rev-parse", *(f"HEAD:{name}" for name in MEASURED_FOLDERS)])
    changed = git(["git", "status", "--porcelain", "--", *MEASURED_FOLDERS])
    return " ".join(trees.stdout.split()) + (" changed" if changed.stdout.strip() else "")


def smallest(place: Place) -> Place:
    """Return the place as small as possible, for --smoke."""
    return attrs.evolve(
        place, epochs=SMOKE_EPOCHS, options={**place.options, "examples": SMOKE_EXAMPLES}
    )


def main() -> None:
    """Measure, and write the page."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    parser = make_parser(__doc__)
    parser.add_argument("--plugin", action="append", choices=sorted(ROWS), dest="plugins")
    parser.add_argument("--pairs", type=int, default=8, help="rounds of each plugin, at least 4")
    parser.add_argument("--store", type=Path, default=Path(".tfopt/catalogue.jsonl"))
    parser.add_argument("--out", type=Path, default=HERE.parent / "docs" / "catalogue.md")
    options = parser.parse_args()
    if options.pairs < LEAST_PAIRS:
        parser.error(f"--pairs {options.pairs}: an interval needs at least {LEAST_PAIRS}")
    names, places = options.plugins or sorted(ROWS), dict(PLACES)
    with tempfile.TemporaryDirectory(prefix="tfopt-catalogue-") as temporary:
        folder = Path(temporary)
        (folder / "pyproject.toml").touch()  # a project of its own
        if options.smoke:
            names = list(SMOKE_PLUGINS)
            options.pairs, options.store = 2, folder / "smoke.jsonl"
            options.out = folder / "catalogue.md"
            places = {SMOKE_PLACE: smallest(places[SMOKE_PLACE])}
        store = Store(options.store, version_of_code())
        measure(store, Workbench(folder), places, names, options.pairs)
        page = catalogue_page.page(store, names, options.pairs)
        print("\n".join(line for line in page.splitlines() if line.startswith("|")))
        options.out.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
