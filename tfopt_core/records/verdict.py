"""Verdicts on a comparison, on its quality, and the kinds of comparison that they are about."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Verdict(StrEnum):
    """The verdict on two stacks. The value is the word in JSON and SQLite.

    `label` is its short form. A `comparable` verdict has a speedup that `tfopt compare` may compare
    with that of another measurement.
    """

    label: str
    comparable: bool

    def __new__(cls, word: str, label: str, comparable: bool = True) -> Self:
        """Return the member for this word."""
        member = str.__new__(cls, word)
        member._value_ = word
        member.label, member.comparable = label, comparable
        return member

    # fmt: off
    FASTER        = "faster",        "faster"
    SLOWER        = "slower",        "slower"
    STEPS_FASTER  = "steps faster",  "steps faster, no total"
    STEPS_SLOWER  = "steps slower",  "steps slower, no total"
    NO_DIFFERENCE = "no difference", "no measurable difference"
    WORSE         = "worse",         "faster but worse"
    QUALITY_OPEN  = "quality open",  "faster, quality not established"
    INCONCLUSIVE  = "inconclusive",  "inconclusive"
    UNLIKE        = "unlike",        "unlike trainings", False
    NOT_APPLIED   = "not applied",   "not applied", False
    SUSPICIOUS    = "suspicious",    "suspiciously identical timings", False
    VOID          = "void",          "void", False
    FITS          = "fits",          "fits, the baseline does not", False
    DOES_NOT_FIT  = "does not fit",  "does not fit into memory", False
    NONE          = "none",          "no verdict", False
    # fmt: on


class MemoryVerdict(StrEnum):
    """What may be said of the peak memory of two stacks; the value as in `Verdict`."""

    LIGHTER = "lighter"
    HEAVIER = "heavier"
    NO_DIFFERENCE = "no difference"
    # Less memory, and another model: as WORSE and QUALITY_OPEN of `Verdict`.
    WORSE = "worse"
    QUALITY_OPEN = "quality open"
    INCONCLUSIVE = "inconclusive"
    NONE = "none"


class QualityVerdict(StrEnum):
    """Whether the full stack's model is as good as the baseline's; the value as in `Verdict`."""

    CERTIFIED = "certified"
    NOT_WORSE = "not worse"
    WORSE = "worse"
    NOT_ESTABLISHED = "not established"


class ComparisonKind(StrEnum):
    """The time that a comparison is about. The value is the word in JSON and SQLite."""

    END_TO_END = "end-to-end"
    # Totals that are projected, and steps alone where no total can be projected.
    STEADY = "steady"
    STEPS = "steps"
    TIME_TO_TARGET = "time-to-target"

    @property
    def qualifier(self) -> str:
        """What follows the verdict in its sentence and says so; empty for whole trainings."""
        return {
            "steady": " (projected)", "steps": " per step", "time-to-target": " to the target",
        }.get(self, "")  # fmt: skip

    @property
    def of_cut_runs(self) -> bool:
        """Whether its runs are cut short, and so say nothing about the quality."""
        return self in (ComparisonKind.STEADY, ComparisonKind.STEPS)
