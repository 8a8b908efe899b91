"""The race's tables: seconds, ratios with intervals, who is ahead, and what is void."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import attrs

from tfopt_core.statistics.intervals import log_ratios, speedup_interval, t_interval

Report = dict[str, Any]

TOLERANCE = 0.05
AHEAD, BEHIND = 1.02, 0.98
OURS, STOCK, HAND_SET = "tfopt", "stock Keras", "hand-set Keras"
CLASSES = {"float32": True, "any precision": False}
# The target is what stock Keras reaches after this share of the epochs.
TARGET_SHARE = 0.6


@attrs.frozen(eq=False)
class Row:
    """A contestant's reports on one line of the race, one a round.

    :param exact: whether it computes in float32.
    """

    system: str
    label: str
    exact: bool
    reports: tuple[Report, ...]

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
    def loss(self) -> float:
        """The median loss of the last epoch."""
        return float(median(report["losses"][-1] for report in self.reports))

    def to_target(self, target: float) -> list[float] | None:
        """Return the seconds from its process' start to this loss; None where a round missed it."""
        reached = [
            next((s for s, loss in zip(report["reached_seconds"], report["losses"], strict=True)
                  if loss <= target), None)
            for report in self.reports
        ]  # fmt: skip
        return None if None in reached else [s for s in reached if s is not None]


def ratio(slow: Row, fast: Row) -> tuple[float, float, float]:
    """Return by how much the second is faster, with the 95% interval over the rounds' pairs."""
    return speedup_interval(t_interval(log_ratios(slow.seconds, fast.seconds), 0.05))


def standing(found: tuple[float, float, float]) -> str:
    """Return "ahead", "level" or "behind" for the ratio of a peer's seconds to ours."""
    _, low, high = found
    if low > AHEAD:
        return "ahead"
    return "level" if low >= BEHIND or low <= 1.0 <= high else "behind"


def is_void(row: Row, stock: Row) -> bool:
    """Return whether it did not train to the loss of stock Keras."""
    return not abs(row.loss - stock.loss) <= TOLERANCE * abs(stock.loss)


def best_peer(rows: Sequence[Row], exact: bool) -> Row | None:
    """Return the fastest valid row of another system in a class."""
    stock = _stock(rows)
    valid = [row for row in _peers(rows, exact) if not is_void(row, stock)]
    return min(valid, key=lambda row: median(row.seconds), default=None)


def best_of_ours(rows: Sequence[Row], exact: bool) -> Row | None:
    """Return tfopt's fastest valid row in a class."""
    stock = _stock(rows)
    valid = [row for row in rows if row.system == OURS and row.failed is None
             and (row.exact or not exact) and not is_void(row, stock)]  # fmt: skip
    return min(valid, key=lambda row: median(row.seconds), default=None)


def table(name: str, rows: Sequence[Row]) -> str:
    """Return the table of one line of the race."""
    stock = _stock(rows)
    losses = [report["losses"] for report in stock.reports]
    at = math.ceil(TARGET_SHARE * len(losses[0])) - 1
    target = max(each[at] for each in losses)
    lines = [
        f"{name}: target loss {target:.4f}",
        f"{'system':<15}{'class':<9}{'s/epoch':>9}  {'against stock (95%)':<22}"
        f"{'to target s':>12}{'MiB':>7}{'loss':>9}",
    ]
    for row in rows:
        precision = "float32" if row.exact else "any"
        if row.failed is not None:
            lines.append(f"{row.system:<15}{precision:<9}   failed: {row.failed[:60]}")
            continue
        reached = row.to_target(target)
        memory = median(report["peak_mib"] for report in row.reports)
        lines.append(
            f"{row.system:<15}{precision:<9}{median(row.seconds):9.4f}  "
            f"{_in_words(ratio(stock, row)):<22}"
            f"{'missed' if reached is None else f'{median(reached):.1f}':>12}{memory:7.0f}"
            f"{row.loss:9.4f}{'  void' if is_void(row, stock) else ''}"
        )
    for title, exact in CLASSES.items():
        lines.append(f"  {title}: {_against_best(rows, exact)}")
    return "\n".join(lines) + "\n"


def summary(lines: Mapping[str, Sequence[Row]]) -> str:
    """Return the standings of all lines, and geometric means against stock and hand-set Keras."""
    texts = []
    for title, exact in CLASSES.items():
        found = {name: _standing_of(rows, exact) for name, rows in lines.items()}
        counted = [name for name, word in found.items() if word in ("ahead", "level")]
        each = ", ".join(f"{name} {word}" for name, word in found.items())
        texts.append(f"{title}: ahead or level on {len(counted)} of {len(found)} ({each})")
    for system in (STOCK, HAND_SET):
        ratios = [gain for rows in lines.values() if (gain := _against(rows, system))]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            texts.append(f"geometric mean against {system}: {mean:.2f}x over {len(ratios)}")
    return "\n".join(texts)


def page(tables: Sequence[str], summary_text: str, machine: str) -> str:
    """Return docs/peers.md."""
    return (
        "# The race against other systems\n\n"
        "Written by `make bench-peers`; benchmarks/race.py says how it is run and who is ahead.\n"
        f"Machine: {machine}. Seconds an epoch are medians from the second epoch on, without "
        f"validation.\nA row is void where its last loss is further than {TOLERANCE:.0%} from that "
        "of stock Keras.\n\n```\n" + "\n".join(tables) + "\n" + summary_text + "\n```\n"
    )


def _stock(rows: Sequence[Row]) -> Row:
    return next(row for row in rows if row.system == STOCK)


def _peers(rows: Sequence[Row], exact: bool) -> list[Row]:
    return [row for row in rows
            if row.system != OURS and row.failed is None and (row.exact or not exact)]  # fmt: skip


def _standing_of(rows: Sequence[Row], exact: bool) -> str:
    peer, row = best_peer(rows, exact), best_of_ours(rows, exact)
    return "void" if peer is None or row is None else standing(ratio(peer, row))


def _against_best(rows: Sequence[Row], exact: bool) -> str:
    peer, row = best_peer(rows, exact), best_of_ours(rows, exact)
    if peer is None or row is None:
        return "void"
    found = ratio(peer, row)
    return f"tfopt {standing(found)}: {_in_words(found)} of the best peer, {peer.label}"


def _against(rows: Sequence[Row], system: str) -> float | None:
    row = best_of_ours(rows, exact=False)
    peers = [peer for peer in _peers(rows, exact=False) if peer.system == system]
    if row is None or not peers:
        return None
    return ratio(min(peers, key=lambda peer: median(peer.seconds)), row)[0]


def _in_words(found: tuple[float, float, float]) -> str:
    value, low, high = found
    return f"{value:.2f}x ({low:.2f} to {high:.2f})"
