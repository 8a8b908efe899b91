"""The command line that all benchmarks share."""

from __future__ import annotations

import argparse


def make_parser(doc: str | None) -> argparse.ArgumentParser:
    """Return a parser with `--smoke`, described by the first line of the benchmark's docstring.

    With `--smoke` a benchmark runs each of its parts once and as small as possible, so that tests
    can check that it still runs. The figures then mean nothing.
    """
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument(
        "--smoke", action="store_true", help="only see whether it runs; its figures mean nothing"
    )
    return parser
