"""The command line that all benchmarks share."""

from __future__ import annotations

import argparse
from pathlib import Path


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


def positive(text: str) -> int:
    """Return a number of things to run, at least 1. For `type` of an option."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def output(text: str) -> Path:
    """Return the path of a file to write, in a folder that exists. For `type` of an option."""
    path = Path(text)
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f'there is no folder "{path.parent}"')
    return path
