"""Format numbers and times for people. Every function is pure."""

from __future__ import annotations

import math
from datetime import datetime

NOTHING = "-"
UNKNOWN = "n/a"

_TIMES = ((1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"))
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def seconds_text(value: float) -> str:
    """Return a duration: `530 µs`, `12.3 ms`, `1 min 23 s`, `2 h 5 min`."""
    if not math.isfinite(value):
        return UNKNOWN
    if value < 0:
        return "-" + seconds_text(-value)
    if value == 0:
        return "0 s"
    if value < 1e-9:
        return "<1 ns"
    for scale, unit in _TIMES:
        if value / scale < 999.5:
            return f"{_three_digits(value / scale)} {unit}"
    if value < 59.95:
        return f"{_three_digits(value)} s"
    if round(value) < 3600:
        return _two_units(round(value), "min", "s")
    return _two_units(round(value / 60), "h", "min")


def bytes_text(count: float) -> str:
    """Return an amount of memory: `812 MiB`, `1.24 GiB`."""
    if count < 999.5:
        return f"{count:.0f} B"
    unit = 0
    while count >= 999.5 and unit < len(_SIZES) - 1:
        count, unit = count / 1024, unit + 1
    return f"{_three_digits(count)} {_SIZES[unit]}"


def count_text(value: float) -> str:
    """Return a count with thousands separators; a median of counts may be `4.5`."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def when_text(created_at: str) -> str:
    """Return a time as `2026-11-21 13:04`, local; other text unchanged."""
    try:
        return f"{datetime.fromisoformat(created_at).astimezone():%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError):
        return created_at


def counted(count: int, what: str) -> str:
    """Return `1 run` or `1,200 runs`."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def rate_text(value: float) -> str:
    """Return a rate with at least three digits: `12.3`, `104,310`."""
    return UNKNOWN if not math.isfinite(value) else _three_digits(value)


def ratio_text(value: float) -> str:
    """Return a factor: `1.25x`, `0.0071x`, `120x`."""
    if not math.isfinite(value):
        return UNKNOWN
    if 0 < value < 0.095:
        return f"{value:.2g}x"
    return f"{value:.2f}x" if value < 99.995 else f"{value:,.0f}x"


def ratio_with_interval(ratio: float, low: float, high: float) -> str:
    """Return a factor and its interval: `1.25x (1.20 to 1.31)`."""
    first, *ends = map(ratio_text, (ratio, low, high))
    return f"{first} ({' to '.join(end.removesuffix('x') for end in ends)})"


def percent_text(share: float) -> str:
    """Return a signed relative change: `+12%`, `-8%`, `0%`."""
    if not math.isfinite(share):
        return UNKNOWN
    rounded = round(100 * share)
    return f"{rounded:+,}%" if rounded else "0%"


def metric_text(value: float) -> str:
    """Return a metric's value with four significant digits: `0.9012`, `12.34`, `1.234e-07`."""
    if not math.isfinite(value):
        return str(value)  # a reader must see that a loss became nan or inf
    if value == 0:
        return "0"
    if not 1e-4 <= abs(value) < 1e7:
        return f"{value:.3e}"
    return f"{value:,.{_decimals(value)}f}"


def difference_text(before: float, after: float) -> str:
    """Return the signed change of a metric, with the digits of its values: `+0.0012`."""
    change = after - before
    if not math.isfinite(change):
        return NOTHING
    larger = max(abs(before), abs(after))
    if change == 0:
        return "0"
    if not 1e-4 <= larger < 1e7:
        return f"{change:+.1e}"
    text = f"{change:+,.{_decimals(larger)}f}"
    return text if any(digit in text for digit in "123456789") else "0"


def _three_digits(value: float) -> str:
    """Return three significant digits, or all digits before the point."""
    return f"{value:,.{max(0, 2 - _exponent(value, 2))}f}"


def _decimals(value: float) -> int:
    return max(0, 3 - _exponent(value, 3))


def _exponent(value: float, digits: int) -> int:
    """Return the power of ten of the first digit, after rounding to `digits` more."""
    return int(f"{value:.{digits}e}".partition("e")[2])


def _two_units(count: int, large: str, small: str) -> str:
    whole, rest = divmod(count, 60)
    return f"{whole:,} {large} {rest} {small}" if rest else f"{whole:,} {large}"
