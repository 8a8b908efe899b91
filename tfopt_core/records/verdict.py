"""Verdicts on a comparison, on its quality, and the kinds of comparison that they are about."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Verdict(StrEnum):
    """The verdict on two stacks. The value is the word in JSON and SQLite.

    `label` is its short form. A verdict that `settles` ends the measurement: more pairs could
    change nothing that is printed. A `comparable` verdict has a speedup that `tfopt compare` may
    compare with that of another measurement.
    """

    label: str
    settles: bool
    comparable: bool

    def __new__(cls, word: str, label: str, settles: bool, comparable: bool) -> Self:
        """Return the member for this word."""
        member = str.__new__(cls, word)
        member._value_ = word
        member.label, member.settles, member.comparable = label, settles, comparable
        return member

    # fmt: off
    #              word            label                             settles comparable
    FASTER       = "faster",       "faster",                         True,   True
    SLOWER       = "slower",       "slower",                         True,   True
    STEPS_FASTER = "steps faster", "steps faster, no total",         True,   True
    STEPS_SLOWER = "steps slower", "steps slower, no total",         True,   True
    NO_DIFFERENCE = "no difference", "no measurable difference",     True,   True
    WORSE        = "worse",        "faster but worse",               True,   True
    QUALITY_OPEN = "quality open", "faster, quality not established", False, True
    INCONCLUSIVE = "inconclusive", "inconclusive",                   False,  True
    UNLIKE       = "unlike",       "unlike trainings",               True,   False
    NOT_APPLIED  = "not applied",  "not applied",                    True,   False
    SUSPICIOUS   = "suspicious",   "suspiciously identical timings", True,   False
    VOID         = "void",         "void",                           True,   False
    FITS         = "fits",         "fits, the baseline does not",    True,   False
    DOES_NOT_FIT = "does not fit", "does not fit into memory",       True,   False
    NONE         = "none",         "no verdict",                     False,  False
    # fmt: on


class MemoryVerdict(StrEnum):
    """What may be said of the peak memory of two stacks. The value is the word in JSON and SQLite.

    One that `settles` stops a measurement whose objective is memory.
    """

    settles: bool

    def __new__(cls, word: str, settles: bool) -> Self:
        """Return the member for this word."""
        member = str.__new__(cls, word)
        member._value_, member.settles = word, settles
        return member

    LIGHTER = "lighter", True
    HEAVIER = "heavier", True
    NO_DIFFERENCE = "no difference", True
    # Less memory, and another model: as WORSE and QUALITY_OPEN of `Verdict`.
    WORSE = "worse", True
    QUALITY_OPEN = "quality open", False
    INCONCLUSIVE = "inconclusive", False
    NONE = "none", True


class QualityVerdict(StrEnum):
    """Whether the full stack's model is as good as the baseline's; the value as in `Verdict`."""

    CERTIFIED = "certified"
    NOT_WORSE = "not worse"
    WORSE = "worse"
    NOT_ESTABLISHED = "not established"


class ComparisonKind(StrEnum):
    """The time that a comparison is about. The value is the word in JSON and SQLite.

    `qualifier` follows the verdict in its sentence and says so; it is empty for whole trainings.
    """

    qualifier: str

    def __new__(cls, word: str, qualifier: str) -> Self:
        """Return the member for this word."""
        member = str.__new__(cls, word)
        member._value_, member.qualifier = word, qualifier
        return member

    END_TO_END = "end-to-end", ""
    # Totals that are projected, and steps alone where no total can be projected.
    STEADY = "steady", " (projected)"
    STEPS = "steps", " per step"
    TIME_TO_TARGET = "time-to-target", " to the target"

    @property
    def of_cut_runs(self) -> bool:
        """Whether its runs are cut short, and so say nothing about the quality."""
        return self in (ComparisonKind.STEADY, ComparisonKind.STEPS)
