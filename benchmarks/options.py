"""The command line that all benchmarks share."""

from __future__ import annotations

import argparse


def make_parser(doc: str | None) -> argparse.ArgumentParser:
    """Return a parser with `--smoke`, described by the first line of the benchmark's docstring.

    With `--smoke` a benchmark carries out each of its parts once, as small as it can: tests see
    whether it still runs. What it prints then says nothing of any speed.
    """
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument(
        "--smoke", action="store_true", help="only see whether it runs; its figures mean nothing"
    )
    return parser
