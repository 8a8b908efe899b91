"""Run cases again: lines of JSON, as a campaign writes them.

PYTHONPATH=tests .venv/bin/python -m support.drawn_fits [--script] [--tree DIR] < FILE
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def main() -> None:
    """Print the verdict of each line, or its script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--script", action="store_true", help="print the scripts, run nothing")
    parser.add_argument("--tree", type=Path, help="a folder with tfopt_core and plugins")
    options = parser.parse_args()
    if options.tree is not None:  # before anything of tfopt is imported
        sys.path[:0] = [str(options.tree), str(options.tree / "plugins")]
    from support.drawn_fits.campaign import Judge
    from support.drawn_fits.case import from_json, script_of
    from support.drawn_fits.training import Trainer

    judge = Judge(Trainer(options.tree))
    for line in filter(str.strip, sys.stdin):
        case, stack = from_json(line)
        if options.script:
            print(script_of(case, stack))
            continue
        [verdict] = judge(case, stack or ())
        print(f"{verdict.result} {verdict.message}\n{verdict}\n")


if __name__ == "__main__":
    main()
