"""The arithmetic of the race: ratios with intervals, who is ahead, and what is void."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median, stdev
from typing import Any

import attrs

from tfopt_core.statistics.intervals import log_ratios, speedup_interval, t_interval

Report = dict[str, Any]
# A ratio with its 95% interval; the interval is nan where there was one round only.
Ratio = tuple[float, float, float]

TOLERANCE, STANDARD_ERRORS = 0.05, 3.0
AHEAD, BEHIND = 1.02, 0.98
# An interval that holds 1 and reaches lower says nothing but that more rounds are needed.
LEVEL = 0.90
STANDINGS = ("ahead", "level", "undecided", "behind")
OURS, STOCK, HAND_SET, ON_JAX = "tfopt", "stock Keras", "hand-set Keras", "Keras on JAX"
# Whose losses are those of the same training.
REFERENCES = (STOCK, ON_JAX)
CLASSES = {"float32": True, "any precision": False}
# The target is what stock Keras reaches after this share of the epochs.
TARGET_SHARE = 0.5


@attrs.frozen(eq=False)
class Row:
    """A contestant's reports on one line of the race, one a round.

    :param exact: whether it computes in float32.
    :param in_words: its options as a table shows them.
    :param left_out: the plugin that tfopt's last recipe has and this one lacks.
    :param races: False where it only shows what that plugin brings.
    """

    system: str
    in_words: str
    exact: bool
    reports: tuple[Report, ...]
    left_out: str = ""
    races: bool = True

    @property
    def failed(self) -> str | None:
        """Why a run has no figures; None if all have."""
        for report in self.reports:
            if "epoch_seconds" not in report:
                return str(report.get("failed", "it wrote no report")).splitlines()[-1]
        return None

    @property
    def seconds(self) -> list[float]:
        """The median seconds of an epoch from the second on, of each round."""
        return [median(report["epoch_seconds"][1:]) for report in self.reports]

    @property
    def mean_seconds(self) -> Ratio:
        """The geometric mean of these seconds with its 95% interval."""
        return mean_ratio([math.log(seconds) for seconds in self.seconds])

    @property
    def losses(self) -> list[float]:
        """The loss of the last epoch, of each round."""
        return [report["losses"][-1] for report in self.reports]

    @property
    def mean_loss(self) -> float:
        """The geometric mean of these losses; nan where one is not a positive number."""
        if not all(0 < loss < math.inf for loss in self.losses):
            return math.nan
        return math.exp(math.fsum(map(math.log, self.losses)) / len(self.losses))

    def to_target(self, target: float) -> list[float] | None:
        """Return the seconds from its process' start to this loss; None where a round missed it."""
        reached = [
            next((s for s, loss in zip(report["reached_seconds"], report["losses"], strict=True)
                  if loss <= target), None)
            for report in self.reports
        ]  # fmt: skip
        return None if None in reached else [s for s in reached if s is not None]


def ratio(slow: Row, fast: Row) -> Ratio:
    """Return by how much the second is faster, with the 95% interval over the pairs of the rounds
    in which both ran: all, or the first ones."""
    count = min(len(slow.reports), len(fast.reports))
    return mean_ratio(log_ratios(slow.seconds[:count], fast.seconds[:count]))


def standing(found: Ratio) -> str:
    """Return "ahead", "level" or "behind" for the ratio of a peer's seconds to ours; "undecided"
    after a single round, or where the interval is too wide to tell."""
    _, low, high = found
    if math.isnan(low):
        return "undecided"
    if low > AHEAD:
        return "ahead"
    if low >= BEHIND:
        return "level"
    if high < 1.0:
        return "behind"
    return "level" if low >= LEVEL else "undecided"


def is_void(row: Row, rows: Sequence[Row]) -> bool:
    """Return whether it did not train to the loss of one of the references.

    They are stock Keras, and Keras on JAX in float32. For a row of an embedding that occurs several
    times in a batch, Adam of Keras on TensorFlow adds up the squares of the gradients; Keras on JAX
    and PyTorch square their sum, as Adam was published.
    """
    tolerance, loss = math.log1p(loss_tolerance(rows)), row.mean_loss
    expected = [
        each.mean_loss for each in rows
        if each.system in REFERENCES and each.exact and each.failed is None
    ]  # fmt: skip
    return not any(abs(math.log(loss / each)) <= tolerance for each in expected)


def loss_tolerance(rows: Sequence[Row]) -> float:
    """Return how far a row's last loss may be from a reference's, as a share.

    At least 5%, and three standard errors of the difference of two means over rounds, by the spread
    of stock Keras over its seeds: another order of the same examples changes the loss as much.
    """
    logs = [math.log(loss) for loss in stock_of(rows).losses]
    if len(logs) < 2:
        return TOLERANCE
    spread = stdev(logs) * math.sqrt(2 / len(logs))
    return max(TOLERANCE, math.expm1(STANDARD_ERRORS * spread))


def racing(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that race."""
    return [row for row in rows if row.races]


def stock_of(rows: Sequence[Row]) -> Row:
    """Return the row of stock Keras."""
    return next(row for row in rows if row.system == STOCK)


def best(rows: Sequence[Row], exact: bool, *systems: str) -> Row | None:
    """Return the fastest valid row of these systems in a class, None if there is none."""
    if stock_of(rows).failed is not None:
        return None
    valid = [
        row for row in racing(rows)
        if row.system in systems and row.failed is None
        and (row.exact or not exact) and not is_void(row, rows)
    ]  # fmt: skip
    return min(valid, key=lambda row: row.mean_seconds[0], default=None)


def best_peer(rows: Sequence[Row], exact: bool) -> Row | None:
    """Return the fastest valid row of another system in a class."""
    return best(rows, exact, *{row.system for row in rows} - {OURS})


def best_of_ours(rows: Sequence[Row], exact: bool) -> Row | None:
    """Return tfopt's fastest valid row in a class."""
    return best(rows, exact, OURS)


def against_best_peer(rows: Sequence[Row], exact: bool) -> Ratio | None:
    """Return by how much tfopt is faster than the best peer; None if one of both is missing."""
    peer, row = best_peer(rows, exact), best_of_ours(rows, exact)
    return None if peer is None or row is None else ratio(peer, row)


def standing_of(rows: Sequence[Row], exact: bool) -> str:
    """Return tfopt's standing on a line in a class."""
    found = against_best_peer(rows, exact)
    if found is not None:
        return standing(found)
    return "void" if best_of_ours(rows, exact) is None else "unopposed"


def target_of(rows: Sequence[Row]) -> float:
    """Return the loss that stock Keras has reached after a share of the epochs in every round."""
    losses = [report["losses"] for report in stock_of(rows).reports]
    at = math.ceil(TARGET_SHARE * len(losses[0])) - 1
    return float(max(each[at] for each in losses))


def geometric_mean(
    lines: Mapping[str, Sequence[Row]], system: str
) -> tuple[Ratio, list[str]] | None:
    """Return tfopt's geometric mean over lines against a system, and the lines that count.

    Each is taken with its fastest valid row, in any precision. The mean over lines is taken in each
    round, and the interval over rounds.
    """
    found = {}
    for name, rows in lines.items():
        peer, row = best(rows, False, system), best_of_ours(rows, False)
        if peer is not None and row is not None:
            found[name] = log_ratios(peer.seconds, row.seconds)
    if not found:
        return None
    rounds = zip(*found.values(), strict=False)
    return mean_ratio([math.fsum(each) / len(each) for each in rounds]), list(found)


def in_words(found: Ratio, digits: int = 2, unit: str = "x") -> str:
    """Return "1.25x (1.20 to 1.30)", without an interval where there is none."""
    value, low, high = found
    shown = f"{value:.{digits}f}{unit}"
    return shown if math.isnan(low) else f"{shown} ({low:.{digits}f} to {high:.{digits}f})"


def mean_ratio(logs: Sequence[float]) -> Ratio:
    """Return the geometric mean of ratios given as logarithms, with its 95% interval."""
    if len(logs) < 2:
        return math.exp(logs[0]), math.nan, math.nan
    return speedup_interval(t_interval(logs, 0.05))
