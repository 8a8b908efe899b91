"""Measure how close the projected total of a training cut short is to the whole training's time.

    .venv/bin/python benchmarks/projections.py [--runs 4] [--only NAME] [--smoke]

Baselines of shipped workloads are trained to their end, each in a process of its own, as in a run
of `tfopt apply`. The projection of `length = "steady"` is computed from the blocks before the place
where it would have cut the same training, so the ratio does not compare two processes.

"as it was" compares the training itself. It includes changes of the machine's speed after the cut,
and so the machine's noise. "from any epoch" takes each epoch for the first in turn, with the others
following in a circle, and is the mean over these: without the start-up, it shows the error of the
projection itself. Both are projected / whole with the 95% interval over the runs; 1.00 is exact.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from math import fsum
from pathlib import Path
from statistics import fmean

import attrs
from measured import in_fork
from options import make_parser, positive

from tfopt_core.records.fit import FitOutcome
from tfopt_core.statistics.intervals import log_ratios, median, speedup_interval, t_interval
from tfopt_core.statistics.timing.cutting import CutRule
from tfopt_core.statistics.timing.projection import project

RUNS, SMOKE_RUNS = 4, 2
# Epochs by workload: long enough that a run is cut before its end.
EPOCHS = {"flights": 30, "weather": 12, "stdlib-text": 12}
SMOKE = {"weather": 3}
SMOKE_EXAMPLES = 6400
LABELS = "as it was", "from any epoch"
# Features are computed before the training, as a careful user would; fewer texts, since one epoch
# of all of them takes too long.
OPTIONS: dict[str, dict[str, object]] = {
    "flights": {"prepare": "ahead"},
    "stdlib-text": {"examples": 6400},
}


@attrs.frozen
class Training:
    """The seconds of a whole training, its projected seconds, and when it would have been cut.

    `projected` is the mean if there are several; `cut_after` counts seconds of steps.
    """

    whole: float
    projected: float
    cut_after: float


def main() -> None:
    """Print the table."""
    parser = make_parser(__doc__ or "")
    parser.add_argument("--runs", type=positive, default=RUNS, help="of each workload, at least 2")
    parser.add_argument("--only", choices=EPOCHS)
    options = parser.parse_args()
    if options.runs < 2:
        parser.error("--runs: at least 2, or there is no interval")
    epochs = SMOKE if options.smoke else EPOCHS
    if options.only:
        epochs = {options.only: EPOCHS[options.only]}
    runs = SMOKE_RUNS if options.smoke else options.runs
    heads = f"{'whole':>7} {'projected':>9} {'cut after':>9}  ratio"
    print(f"{'workload':12} {'epochs':>6}  {'':14} {heads}")
    for name, count in epochs.items():
        few = {"examples": SMOKE_EXAMPLES} if options.smoke else OPTIONS.get(name, {})
        trainings = [in_fork(training, name, few, count, seed) for seed in range(runs)]
        for label, cut in zip(LABELS, zip(*trainings, strict=True), strict=True):
            print(row(name, count, label, cut), flush=True)


def training(
    name: str, options: dict[str, object], epochs: int, seed: int
) -> tuple[Training | None, Training | None]:
    """Train the baseline to its end. Return it as it was, and from any epoch; None if not cut."""
    from time import perf_counter_ns

    from tfopt_core.hooks import read_machine
    from tfopt_core.recipe import Recipe, WorkloadSpec
    from tfopt_core.training.build import build, load
    from tfopt_core.training.fit import train
    from tfopt_core.training.job import Job

    spec = WorkloadSpec(use=name, epochs=epochs, options=options)
    with tempfile.TemporaryDirectory() as folder:
        job = Job(recipe=Recipe(name=name, workload=spec), plugins=(), variant="baseline",
                  seed=seed, machine=read_machine(), folder=Path(folder))  # fmt: skip
        workload = load(job)
        began = perf_counter_ns()
        outcome = train(build(job, workload), began, lambda message: None)
    turned = [as_cut(warm) for warm in turns_of(outcome)]
    if any(turn is None for turn in turned):
        return as_cut(outcome), None
    cut = [turn for turn in turned if turn is not None]
    return as_cut(outcome), Training(
        cut[0].whole, fmean(turn.projected for turn in cut), fmean(turn.cut_after for turn in cut)
    )


def turns_of(outcome: FitOutcome) -> Iterator[FitOutcome]:
    """Yield trainings of all epochs but the first, as if each of them had come first in turn."""
    count = outcome.planned_epochs - 1
    for first in range(count):
        order = [1 + (first + place) % count for place in range(count)]
        blocks = tuple(
            attrs.evolve(block, epoch=place)
            for place, epoch in enumerate(order)
            for block in outcome.blocks
            if block.epoch == epoch
        )
        # in a circle the end of the last epoch is an edge too, of mean length
        of_edges = (*outcome.edge_seconds, fmean(outcome.edge_seconds))
        edges, validations = (
            tuple(seconds[epoch] for epoch in order) if seconds else ()
            for seconds in (of_edges, outcome.validation_seconds)
        )
        yield attrs.evolve(
            outcome, planned_epochs=count, blocks=blocks, edge_seconds=edges,
            validation_seconds=validations, setup_seconds=0.0,
            wall_seconds=fsum((*edges, *validations, *(block.seconds for block in blocks))),
        )  # fmt: skip


def as_cut(outcome: FitOutcome) -> Training | None:
    """Project a training from the part before its cut, and return it; None if it is not cut."""
    assert outcome.steps_per_epoch is not None
    rule = CutRule(epochs=outcome.planned_epochs, steps_per_epoch=outcome.steps_per_epoch)
    count = next((n for n in range(1, len(outcome.blocks)) if rule(outcome.blocks[:n])), None)
    if count is None:
        return None
    blocks = outcome.blocks[:count]
    epoch = blocks[-1].epoch
    projection = project(attrs.evolve(
        outcome, blocks=blocks, steps=sum(block.steps for block in blocks), cut_short=True,
        edge_seconds=outcome.edge_seconds[:epoch],
        # Keras validates at the end of the epoch that is cut, and tfopt once more if that was the
        # first validation
        validation_seconds=outcome.validation_seconds[: max(2, epoch + 1)],
    ))  # fmt: skip
    if projection.seconds is None:
        return None
    return Training(outcome.wall_seconds, projection.seconds, fsum(b.seconds for b in blocks))


def row(name: str, epochs: int, label: str, trainings: Sequence[Training | None]) -> str:
    """Return a row of the table, which says so if some trainings were too short for a
    projection."""
    cut = [training for training in trainings if training is not None]
    begin = f"{name:12} {epochs:6}  {label:14}"
    if len(cut) < len(trainings):
        return f"{begin}  some would not have been cut, or not projected"
    projected, whole = [t.projected for t in cut], [t.whole for t in cut]
    ratio, low, high = speedup_interval(t_interval(log_ratios(projected, whole), 0.05))
    return (
        f"{begin} {median(whole):6.1f}s {median(projected):8.1f}s "
        f"{median([t.cut_after for t in cut]):8.1f}s  "
        f"{ratio:.3f} ({low:.3f} to {high:.3f}, {len(cut)} runs)"
    )


if __name__ == "__main__":
    main()
