"""What charts and the page share: a chart's frame, the colors of variants, the raw numbers."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Iterable

import attrs

from tfopt_core.records.results import Results
from tfopt_core.records.variants import BASELINE, FULL
from tfopt_core.report.html.svg import FONT, WIDTH, Chart, Scale, tick_text, ticks
from tfopt_core.report.results.as_json import to_json
from tfopt_core.report.style import units

LEFT, RIGHT, TOP, BOTTOM = 48.0, 10.0, 24.0, 32.0
HEIGHT = 190.0
# Colors for variants besides the baseline and the full stack; more share the last.
OTHERS = 6


@attrs.frozen
class Frame:
    """A chart with its two scales."""

    chart: Chart
    x: Scale
    y: Scale

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Return the place of a point of the data."""
        return self.x(x), self.y(y)


def make_frame(
    title: str,
    x_range: tuple[float, float],
    y_range: tuple[float, float],
    x_name: str,
    y_text: Callable[[float], str] = tick_text,
) -> Frame:
    """Return a chart with its title, grid and labels, to be drawn on.

    :param x_name: what the horizontal axis counts, in whole numbers.
    :param y_text: makes the labels of the vertical axis.
    """
    chart = Chart(HEIGHT, title)
    x = Scale(*x_range, LEFT, WIDTH - RIGHT)
    y = Scale(*y_range, HEIGHT - BOTTOM, TOP)
    chart.text((LEFT, FONT + 2), title, "title")
    for value in ticks(*y_range):
        chart.line((LEFT, y(value)), (WIDTH - RIGHT, y(value)), "grid")
        chart.text((LEFT - 5, y(value) + FONT / 3), y_text(value), "", "end")
    for value in ticks(*x_range):
        if value == int(value):
            chart.text((x(value), HEIGHT - BOTTOM + FONT + 3), tick_text(value), "", "middle")
    chart.line((LEFT, HEIGHT - BOTTOM), (WIDTH - RIGHT, HEIGHT - BOTTOM), "axis")
    chart.text((WIDTH - RIGHT, HEIGHT - 3), x_name, "dim", "end")
    return Frame(chart, x, y)


def variants_of(results: Results) -> list[str]:
    """Return the variants with runs that count: baseline, full stack, then each plugin left out, in
    the order of the stack."""
    names = {run.variant for run in results.runs if run.ok and run.fits}
    isolated = [f"without {name}" for name in results.resolved]
    known = [name for name in (BASELINE, FULL, *isolated) if name in names]
    return [*known, *sorted(names.difference(known))]


def colors_of(variants: Iterable[str]) -> dict[str, str]:
    """Return the class of the color of each variant."""
    others = (name for name in variants if name not in (BASELINE, FULL))
    colors = {name: f"c{min(index, OTHERS - 1)}" for index, name in enumerate(others)}
    return {BASELINE: "cb", FULL: "cf", **colors}


# A page stays under 500 KB, of which charts and text take up to 200.
PLAIN_BYTES = 150_000
PACKED_BYTES = 200_000


@attrs.frozen
class Download:
    """A file within the page: its name, its address ("data:..."), and its size in words."""

    name: str
    address: str
    size: str


def download_of(results: Results) -> Download | None:
    """Return the JSON of a measurement as a link, packed if it is long; None if it is too long even
    so."""
    text = json.dumps(to_json(results), allow_nan=False, separators=(",", ":")).encode()
    name = f"tfopt-{results.id}.json"
    size = units.bytes_text(len(text))
    if len(text) <= PLAIN_BYTES:
        return Download(name, _address("application/json", text), size)
    # no time stamp: the same results make the same page
    packed = gzip.compress(text, mtime=0)
    if len(packed) > PACKED_BYTES:
        return None
    size = f"{units.bytes_text(len(packed))}, {size} unpacked"
    return Download(f"{name}.gz", _address("application/gzip", packed), size)


def _address(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"
