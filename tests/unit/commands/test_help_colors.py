"""Help is readable on a light background too."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from tfopt_core.report.style.console import PALETTE


def test_help_leaves_no_color_to_the_terminals_theme() -> None:
    unwanted = ("NO_COLOR", "COLORTERM")
    kept = {name: value for name, value in os.environ.items() if name not in unwanted}
    # in a process of its own: rich keeps the codes of a style for the first kind of terminal
    done = subprocess.run(
        [sys.executable, "-m", "tfopt_core", "apply", "--help"],
        env={**kept, "FORCE_COLOR": "1", "TERM": "xterm-256color"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    codes = set(re.findall(r"\x1b\[([\d;]*)m", done.stdout))
    colors = {re.sub(r"^(?:[12];)*", "", code) for code in codes} - {"", "0", "1", "2"}
    assert colors
    assert colors <= {f"38;5;{color[6:-1]}" for color in PALETTE.values()}
