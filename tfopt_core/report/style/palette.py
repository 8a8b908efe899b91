"""Colors that can be read on a light background and on a dark one."""

from __future__ import annotations

# Of the 256-color palette, each with a contrast above 3.4 to white and to black. The basic colors
# of these names are the terminal's own: its yellow is often too light for a white background, and
# many terminals show a bold basic color as its bright one.
PALETTE = {
    "red": "color(160)",
    "green": "color(28)",
    "yellow": "color(130)",
    "magenta": "color(127)",
    "cyan": "color(30)",
}
TRACK = "color(242)"  # what is left of a progress bar
