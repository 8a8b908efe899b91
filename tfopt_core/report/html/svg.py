"""Draw a chart as inline SVG: scales, ticks, marks; all text is escaped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from xml.etree import ElementTree

import attrs

from tfopt_core.report.style.console import plain

Point = tuple[float, float]

# The width of every chart in its own units, about CSS pixels on a telephone: a page shows two side
# by side where there is room, so that text never shrinks below its size.
WIDTH = 380.0
FONT = 11.0


@attrs.frozen
class Scale:
    """Maps [low, high] to [start, end] in the chart's units, on request by logarithms."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        """Return the place of a value; a value outside of the range is put at its end."""
        low, high, at = self.low, self.high, min(max(value, self.low), self.high)
        if self.logarithmic:
            low, high, at = math.log(low), math.log(high), math.log(at)
        share = 0.5 if high == low else (at - low) / (high - low)
        return self.start + share * (self.end - self.start)


def ticks(low: float, high: float) -> list[float]:
    """Return about four round numbers in [low, high]; none for an empty range."""
    if not math.isfinite(high - low) or high <= low:
        return []
    raw = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(raw))
    step = next((factor * power for factor in (1, 2, 2.5, 5) if factor * power >= raw), 10 * power)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)]


def tick_text(value: float) -> str:
    """Return a tick's label in at most seven signs: `0.25`, `1,000`, `12.5k`, `2.5e-7`."""
    if value and not 1e-4 <= abs(value) < 1e15:
        mantissa, _, exponent = f"{value:.1e}".partition("e")
        return f"{mantissa.removesuffix('.0')}e{int(exponent)}"
    for factor, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= max(factor, 1e4):
            return f"{value / factor:.4g}{unit}"
    return f"{value:,.4f}".rstrip("0").rstrip(".")


class Chart:
    """An SVG image that is filled from back to front; colors come from the page's classes.

    :param label: what the chart shows, for readers who do not see it.
    """

    def __init__(self, height: float, label: str) -> None:
        view = f"0 0 {_number(WIDTH)} {_number(height)}"
        shown = {"viewBox": view, "role": "img", "aria-label": plain(label)}
        self._root = ElementTree.Element("svg", shown)

    def line(self, start: Point, end: Point, css: str) -> None:
        """Draw a straight line."""
        places = dict(zip(("x1", "y1", "x2", "y2"), (*start, *end), strict=True))
        self._add("line", css, **places)

    def curve(self, points: Sequence[Point], css: str) -> None:
        """Draw a line through points; nothing for fewer than two."""
        if len(points) > 1:
            path = "L".join(f"{_number(x)} {_number(y)}" for x, y in points)
            self._add("path", css, d=f"M{path}")

    def box(self, corner: Point, width: float, height: float, css: str, title: str = "") -> None:
        """Draw a rectangle; its title is shown when the pointer rests on it."""
        x, y = corner
        element = self._add("rect", css, x=x, y=y, width=max(0.0, width), height=height)
        if title:
            ElementTree.SubElement(element, "title").text = plain(title)

    def dot(self, center: Point, css: str, radius: float = 2.5) -> None:
        """Draw a small circle."""
        self._add("circle", css, cx=center[0], cy=center[1], r=radius)

    def text(self, at: Point, text: str, css: str = "", anchor: str = "start") -> None:
        """Write one line of text with its baseline at a point."""
        element = self._add("text", css, x=at[0], y=at[1])
        element.set("text-anchor", anchor)
        element.text = plain(text)

    def svg(self) -> str:
        """Return the image as SVG for an HTML page."""
        return ElementTree.tostring(self._root, encoding="unicode")

    def _add(self, kind: str, css: str, **values: float | str) -> ElementTree.Element:
        given = values | ({"class": css} if css else {})
        shown = {key: v if isinstance(v, str) else _number(v) for key, v in given.items()}
        return ElementTree.SubElement(self._root, kind, shown)


def shortened(text: str, characters: int) -> str:
    """Return a text of at most so many characters, with an ellipsis where it was cut."""
    clean = plain(text)
    return clean if len(clean) <= characters else f"{clean[: characters - 1]}…"


def finite(values: Iterable[float | None]) -> list[float]:
    """Return the values that are numbers."""
    return [value for value in values if value is not None and math.isfinite(value)]


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
