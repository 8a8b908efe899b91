"""Write the page of the race, docs/peers.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import attrs

from peers import standings
from peers.contestant import TURN_SECONDS
from peers.course import TURNS_SECONDS
from peers.limits import Limits, Work
from peers.lines import LINES
from peers.standings import CLASSES, HAND_SET, STOCK, Row

Lines = Mapping[str, Sequence[Row]]

INTRODUCTION = """\
# tfopt raced against other ways to train

The same trainings on the same machine, each written as a user of the system would: Keras on
TensorFlow with `fit` as it is ("stock"), the same with the fastest of its own options ("hand-set"),
Keras on JAX, PyTorch, and tfopt with a recipe. `make bench-peers` runs the race and writes this
page: the tables of [each training](#the-trainings), then [the standings](#standings),
[what the machine allows](#what-the-machine-allows), and [what each plugin
brought](#what-each-plugin-brought).

## The rule

It was written down before the race. Two things came after earlier races: "undecided", since an
interval so wide that it says nothing had been called level, and turns, since the machine's speed
changes within seconds and trainings that followed one another differed by that.

- **The same training.** In each round all peers begin from the same weights and train on the same
  examples, in batches of the same size, with Adam at the same rate. Their losses are compared
  after the same number of epochs. tfopt draws its initial weights from the round's seed, as its
  users' trainings do.
- **What is compared** is the time of an epoch: in each round the median from the second epoch on,
  without validation, and without the first epoch of each turn. Start-up and compilation count in
  "to target": the seconds from the start of the process to a loss that stock Keras reaches after
  half of the epochs.
- **Peers at their best.** Each peer's own options are tried first: {tried}.
  The fastest race: one in float32, and where another is faster, one in any precision.
- **Rounds and turns.** In a round each contestant trains in a process of its own, for {seconds:g}
  s at least and as many epochs as are compared. They take turns of about {turn:.0f} s, in an
  order that is drawn anew each time: one trains, and all others are stopped. The first epoch
  of a turn is not timed: caches are cold, and timers have run while the process was stopped.
  Figures are geometric means over the rounds, with the 95% interval in brackets. A ratio
  is that of two trainings of the same round.
- tfopt is **ahead** of a peer if the interval of the ratio lies above {ahead}, **level** if it
  does not reach below {behind}, or holds 1 and does not reach below {level:.2f}, **undecided** if
  it holds 1 and reaches lower (more rounds would tell), else **behind**.
- **Void** is a row that did not train alike. Its loss after the last epoch, the geometric mean over
  rounds, may differ from that of stock Keras by {tolerance:.0%}, or, where that is more, by
  {errors:.0f} standard errors by the spread of stock Keras over its seeds. Keras on JAX in float32
  is as good a reference: where a row of an embedding occurs several times in a batch, Adam of Keras
  on TensorFlow adds up the squares of its gradients, and Keras on JAX and PyTorch square their sum.
  Void and failed rows are shown and do not count, whoever's they are.
"""
TRIED = (
    "XLA, several steps a call,\n  mixed bfloat16 and a cached `tf.data` pipeline for Keras, steps"
    " a call and bfloat16 on JAX, eager\n  and compiled, float32 and bfloat16 for PyTorch"
)
LIMITS = """\
## What the machine allows

On all cores, products of large matrices reach {peaks}; memory moves {bandwidth:.1f} GB/s; JPEG
files are read, decoded and scaled at {pictures:,.0f} a second.

The operations of a step are those of the matrix products and convolutions in the graph of Keras'
own training step, forward and backward, as `tfopt diagnose` counts them. Activations,
normalizations, the optimizer's update and all else count nothing. The least seconds of an epoch are
these operations at the measured peak or, where that is longer, its examples read once from memory.
No training can take less, and one of small layers does not come near it. "Reached" is the share
that the fastest contestant reaches, whichever it is.

"""
PLUGINS = """\
## What each plugin brought

The time of an epoch without the plugin, divided by that with the whole recipe, in the same rounds:
in the first ones where the recipe without the plugin does not race by itself. One round has no
interval, and shows nothing but a size.
A recipe without its only plugin is stock Keras. Gains do not multiply to the whole where one plugin
needs another.

"""


@attrs.frozen(kw_only=True)
class Race:
    """All that the page is written from.

    :param grids: of each line what each option that was tried took, in words.
    :param works: what an epoch of each line has to do.
    :param notes: what stands beside the rule, such as peers that were not there.
    """

    lines: Lines
    grids: Mapping[str, Sequence[tuple[str, str, str]]]
    works: Mapping[str, Work]
    limits: Limits | None
    machine: str
    versions: Mapping[str, str]
    date: str
    notes: Sequence[str] = ()


def page(race: Race) -> str:
    """Return the page."""
    parts = [
        INTRODUCTION.format(
            tried=TRIED,
            ahead=standings.AHEAD, behind=standings.BEHIND, level=standings.LEVEL,
            tolerance=standings.TOLERANCE, errors=standings.STANDARD_ERRORS,
            seconds=TURNS_SECONDS, turn=TURN_SECONDS,
        ),
        _machine(race),
        "## The trainings\n",
        *(_line(name, race.lines[name], race.grids.get(name, ())) for name in race.lines),
        standings_part(race.lines),
        _limits(race),
        _plugins(race.lines),
    ]  # fmt: skip
    return "\n".join(part for part in parts if part)


def standings_part(lines: Lines) -> str:
    """Return the standings of all lines, and the geometric means."""
    rows = []
    for name, each in lines.items():
        cells = [name]
        for exact in CLASSES.values():
            cells += _standing_cells(each, exact)
        rows.append(cells)
    heads = ["training", *(f"{title}: {what}" for title in CLASSES
                           for what in ("best peer", "its time / tfopt's"))]  # fmt: skip
    text = ["## Standings\n", _table(heads, rows)]
    for title, exact in CLASSES.items():
        words = [standings.standing_of(each, exact) for each in lines.values()]
        counts = ", ".join(
            f"{word} on {words.count(word)}" for word in standings.STANDINGS if word in words
        )
        text.append(f"- {title}: {counts}, of {len(words)}.")
    for system in (STOCK, HAND_SET):
        found = standings.geometric_mean(lines, system)
        if found is not None:
            mean, names = found
            over = f"{len(names)} training" + "s" * (len(names) > 1)
            best = "" if system == STOCK else "the best "
            text.append(
                f"- Geometric mean against {best}{system}, in any precision: "
                f"**{standings.in_words(mean)}** over {over}."
            )
    return "\n".join(text) + "\n"


def table(rows: Sequence[Row]) -> str:
    """Return the table of one line, with a sentence on the standing in each class."""
    stock = standings.stock_of(rows)
    target = None if stock.failed else standings.target_of(rows)
    cells = [_cells(row, rows, target) for row in standings.racing(rows)]
    heads = ["system", "options", "precision", "seconds an epoch", "against stock",
             "to target (s)", "peak MiB", "last loss", "validation loss"]  # fmt: skip
    text = [_table(heads, cells)]
    for row in rows:
        if row.failed is not None:
            text.append(
                f"- {row.system} ({row.in_words}, {_precision(row)}) failed: {row.failed[:200]}"
            )
    for title, exact in CLASSES.items():
        text.append(f"- {_sentence(title, rows, exact)}")
    return "\n".join(text) + "\n"


def _machine(race: Race) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in race.versions.items())
    notes = "".join(f"\n{note}" for note in race.notes)
    return f"## Machine and versions\n\n{race.machine}; {race.date}.\n{versions}.{notes}\n"


def _line(name: str, rows: Sequence[Row], grid: Sequence[tuple[str, str, str]]) -> str:
    line = LINES[name]
    stock = standings.stock_of(rows)
    rounds, target = len(stock.reports), ""
    if stock.failed is None:
        epochs = len(stock.reports[0]["losses"])
        target = (
            f", {epochs} epochs; target loss {standings.target_of(rows):.4f}, tolerance of the "
            f"last loss {standings.loss_tolerance(rows):.1%}"
        )
    text = (
        f"### {name}\n\n{line.what[0].upper()}{line.what[1:]}. Batches of {line.batch_size}"
        f"{target}; {rounds} rounds.\n\n{table(rows)}"
    )
    if grid:
        text += (
            "\n<details><summary>Options that were tried, on a part of the data</summary>\n\n"
            + _table(["system", "options", "seconds an epoch"], [list(each) for each in grid])
            + "\n</details>\n"
        )
    return text


def _cells(row: Row, rows: Sequence[Row], target: float | None) -> list[str]:
    """Return the cells of one row; without stock Keras (no target) nothing is compared."""
    stock, precision = standings.stock_of(rows), _precision(row)
    name = f"**{row.system}**" if row.system == standings.OURS else row.system
    if row.failed is not None:
        return [name, row.in_words, precision, "failed", "", "", "", "", ""]
    against, reached, loss = "", None, f"{row.mean_loss:.4f}"
    if target is not None:
        reached = row.to_target(target)
        against = "" if row is stock else standings.in_words(standings.ratio(stock, row))
        if standings.is_void(row, rows):
            against, loss = f"void ({against})", f"**{loss}**"
    return [
        name,
        row.in_words,
        precision,
        standings.in_words(row.mean_seconds, _digits(row.mean_seconds[0]), ""),
        against,
        "missed" if reached is None else f"{median(reached):.1f}",
        f"{median(report['peak_mib'] for report in row.reports):.0f}",
        loss,
        f"{median(report['validation_losses'][-1] for report in row.reports):.4f}",
    ]


def _precision(row: Row) -> str:
    return "float32" if row.exact else "bfloat16"


def _sentence(title: str, rows: Sequence[Row], exact: bool) -> str:
    peer, found = standings.best_peer(rows, exact), standings.against_best_peer(rows, exact)
    if peer is None or found is None:
        return f"{title}: {standings.standing_of(rows, exact)}."
    return (
        f"{title}: tfopt is **{standings.standing(found)}**; the best peer, {peer.system} "
        f"({peer.in_words}), takes {standings.in_words(found)} as long."
    )


def _standing_cells(rows: Sequence[Row], exact: bool) -> list[str]:
    peer, found = standings.best_peer(rows, exact), standings.against_best_peer(rows, exact)
    if peer is None or found is None:
        return ["", standings.standing_of(rows, exact)]
    return [peer.system, f"{standings.in_words(found)} **{standings.standing(found)}**"]


def _limits(race: Race) -> str:
    if race.limits is None:
        return ""
    limits, rows = race.limits, []
    for name, each in race.lines.items():
        work, batch_size = race.works[name], LINES[name].batch_size
        cells = [name, _number(work.step_operations, 1e-9, 3), str(work.steps)]
        for exact in CLASSES.values():
            least = work.least_seconds(limits, exact, batch_size)
            row = standings.best(each, exact, *{row.system for row in each})
            cells.append("not counted" if least is None else f"{least:.{_digits(least)}f}")
            if least is None or row is None:
                cells.append("")
            else:
                cells.append(f"{least / row.mean_seconds[0]:.0%} ({row.system})")
        rows.append(cells)
    peaks = " and ".join(
        f"{operations / 1e9:,.0f} GFLOP/s in {dtype}"
        for dtype, operations in limits.operations.items()
    )
    heads = ["training", "GFLOP a step", "steps an epoch", "least seconds, float32",
             "reached", "least seconds, any precision", "reached"]  # fmt: skip
    text = LIMITS.format(
        peaks=peaks, bandwidth=limits.bytes_per_second / 1e9, pictures=limits.pictures_per_second
    ) + _table(heads, rows)
    if "jpeg" in race.works:
        seconds = race.works["jpeg"].examples / limits.pictures_per_second
        text += f"\nDecoding the JPEG files anew takes at least {seconds:.2f} s an epoch.\n"
    return text


def _plugins(lines: Lines) -> str:
    rows = []
    for name, each in lines.items():
        stock = standings.stock_of(each)
        full = [row for row in each if row.system == standings.OURS and not row.left_out][-1]
        rows += _credits(name, full, stock, each)
    return PLUGINS + _table(["training", "recipe", "left out", "gain"], rows)


def _credits(name: str, full: Row, stock: Row, rows: Sequence[Row]) -> list[list[str]]:
    found = []
    for row in rows:
        if row.left_out:
            gain = _gain(row, full)
            found.append([name, full.in_words, f"`{row.left_out}`", gain])
    if not found:
        found.append([name, full.in_words, "its only plugin", _gain(stock, full)])
    return found


def _gain(slow: Row, fast: Row) -> str:
    if slow.failed is not None or fast.failed is not None:
        return "failed"
    return standings.in_words(standings.ratio(slow, fast))


def _digits(seconds: float) -> int:
    """Return how many decimals show seconds to a part in a hundred or better."""
    return 2 if seconds >= 1 else 3 if seconds >= 0.1 else 4


def _number(value: float | None, scale: float, digits: int) -> str:
    return "" if value is None else f"{value * scale:.{digits}f}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"
