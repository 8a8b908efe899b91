"""Measure each plugin where it should help and where it should not, and write docs/catalogue.md.

    .venv/bin/python benchmarks/catalogue.py [--minutes 45] [--plan] [--pairs 4] [--most 8]
                                             [--plugin NAME ...] [--place NAME ...] [--smoke]

A round is one run of the baseline and one of each plugin alone, at one place, in an order that is
drawn and under one seed. All places have a round before the next one begins; what is not applied is
run once. After four rounds, rows whose verdict is open get more, up to `--most`.

A round is kept in the folder `--store` when it ends: after Ctrl-C the same command goes on where it
was, and `--minutes 0` writes the page of what is there. The store is void, and says so, once what
all runs execute has changed: the code of tfopt_core (without its commands, reports and store), of
the workloads, of catalogue_runs.py, the versions or the machine. A change of a plugin's package or
of a row voids the runs that it concerns, and they are measured again. Comments, docstrings and the
page's own code void nothing. Nothing else should run meanwhile.

With --smoke and --place (or --plugin) each of these rows runs once on little data: what is refused,
not applied or fails is seen in minutes.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import attrs
import catalogue_page
from catalogue_rounds import Catalogue
from catalogue_rows import PLACES, ROWS, Place
from catalogue_runs import ROOT, Workbench, code_settings
from options import make_parser, output, positive
from pacing import add_pacing, run_within, say, say_what_is_left
from peers.course import Store

OUT = ROOT / "docs" / "catalogue.md"
# To check that it runs: by default a plugin that is applied and one that is not, at one place.
SMOKE_PLACES, SMOKE_PLUGINS = ["prepared rows"], ["gpu-memory", "prefetch"]
SMOKE_EPOCHS, SMOKE_EXAMPLES = 2, 80
# Where the page must be linked from: the file, and a line to add.
LINKS = {
    "README.md": "- [docs/catalogue.md](docs/catalogue.md): each plugin alone, measured where it "
    "should help and where not",
    "docs/README.md": "| [catalogue.md](catalogue.md) | each plugin alone, measured where it "
    "should help and where not |",
}


def smallest(place: Place) -> Place:
    """Return the place as small as possible, for --smoke."""
    return attrs.evolve(
        place, epochs=SMOKE_EPOCHS, options={**place.options, "examples": SMOKE_EXAMPLES}
    )


def places_of(name: str) -> tuple[str, str]:
    """Return where a plugin is measured."""
    return ROWS[name].helps, ROWS[name].harms


def missing_links(root: Path) -> list[str]:
    """Return what to add where, so that readers find the page."""
    return [
        f'{name} does not link to the page; add: "{line}"'
        for name, line in LINKS.items()
        if "catalogue.md)" not in (root / name).read_text(encoding="utf-8")
    ]


def say_plan(catalogue: Catalogue) -> None:
    """Print what is left at each place."""
    for place in catalogue.places:
        count, seconds = catalogue.left_at(place)
        if count:
            say(f"  {place}: {count} runs, about {seconds / 60:.1f} minutes")


def read_options() -> Any:
    """Return the options of the command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--plugin", action="append", choices=sorted(ROWS), dest="plugins")
    parser.add_argument("--place", action="append", choices=list(PLACES), dest="places")
    parser.add_argument("--pairs", type=positive, default=4, help="rounds of each row")
    parser.add_argument("--most", type=positive, default=8, help="rounds where the verdict is open")
    add_pacing(parser)
    parser.add_argument("--store", type=Path, default=Path(".tfopt/catalogue"))
    parser.add_argument("--out", type=output, help="the page; of all rows, docs/catalogue.md")
    options = parser.parse_args()
    if options.smoke and not (options.plugins or options.places):
        options.plugins, options.places = SMOKE_PLUGINS, SMOKE_PLACES
    if not (options.out or options.plugins or options.places):
        options.out = OUT
    return options


def main() -> None:
    """Measure, print the table, and write the page."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    options = read_options()
    names = options.plugins or sorted(ROWS)
    places = {name: PLACES[name] for name in options.places or PLACES}
    names = [name for name in names if not places.keys().isdisjoint(places_of(name))]
    with tempfile.TemporaryDirectory(prefix="tfopt-catalogue-") as temporary:
        folder = Path(temporary)
        if options.smoke:
            options.pairs, options.most, options.store = 1, 1, folder
            places = {name: smallest(place) for name, place in places.items()}
        with Workbench(folder, places) as bench:
            store = Store(options.store / "rounds.jsonl", code_settings())
            catalogue = Catalogue(names, places, bench, store, options.pairs, options.most)
            say_what_is_left(catalogue)
            if options.plan:
                say_plan(catalogue)
                return
            ended = run_within(catalogue, options.minutes)
        print(catalogue_page.table(catalogue))
        if options.out is not None:
            text = catalogue_page.page(catalogue, smoke=options.smoke)
            options.out.write_text(text, encoding="utf-8")
            say(f"{options.out} was written")
    if options.out == OUT:
        for line in missing_links(ROOT):
            say(line)
    if ended == "interrupted":
        raise SystemExit(130)


if __name__ == "__main__":
    main()
