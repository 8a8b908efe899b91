"""Durations in words, for statements."""

from __future__ import annotations


def seconds_in_words(seconds: float) -> str:
    """`45 s`, `12 min`, `3.5 h`: a duration of which only the size matters."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"
