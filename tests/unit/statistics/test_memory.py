"""The verdict on peak memory: what may be claimed of a ratio, and where a side does not fit."""

import math
import random

import attrs
import pytest
from support.measure_runs import make_judgement, make_pairs, make_run, with_fits

from tfopt_core.measurement.conclude import next_steps
from tfopt_core.statistics.results import MemoryVerdict, Verdict
from tfopt_core.statistics.runs import RunResult
from tfopt_core.statistics.verdict import compare

GIB = 2**30
SEED = 20


def walls(count: int, seconds: float) -> list[float]:
    source = random.Random(seconds)
    return [seconds * math.exp(source.gauss(0, 0.01)) for _ in range(count)]


def measured(
    ratio: float, pairs: int = 8, noise: float = 0.01, figure: str = "peak_rss_bytes", **changes
) -> list[RunResult]:
    """Pairs whose stack takes as long, and this share of the baseline's 2 GiB."""
    source = random.Random(SEED)
    runs = make_pairs(walls(pairs, 10.0), walls(pairs, 10.1), **changes)
    sizes = {"baseline": 2 * GIB, "full": 2 * GIB * ratio}
    return [
        attrs.evolve(run, **{figure: int(sizes[run.variant] * math.exp(source.gauss(0, noise)))})
        for run in runs
    ]


def memory_of(runs, **judgement):
    [contrast] = compare(runs, make_judgement(**judgement)).memory
    return contrast


@pytest.mark.parametrize(
    ("ratio", "verdict", "statement"),
    [
        (0.61, "lighter", "peak memory lower: 0.6"),
        (1.4, "heavier", "peak memory higher: 1."),
        (1.0, "no difference", "peak memory about the same (within 5%): 1.00x"),
        # which is sure, and nobody minds it
        (1.008, "no difference", "peak memory about the same (within 5%): 1.01x"),
    ],
)
def test_a_ratio_is_told_with_its_interval(ratio, verdict, statement):
    contrast = memory_of(measured(ratio, noise=0.002))
    assert contrast.verdict == verdict
    assert contrast.statement.startswith(statement)
    assert "(95% interval " in contrast.statement
    assert "8 pairs)" in contrast.statement
    assert contrast.low < contrast.ratio < contrast.high
    assert contrast.ratio == pytest.approx(ratio, rel=0.01)


def test_less_memory_with_a_worse_model_is_no_gain():
    contrast = memory_of(measured(0.6, metrics={"val_accuracy": 0.8}))
    assert contrast.verdict is MemoryVerdict.WORSE
    assert "peak memory lower but worse: val_accuracy fell by 0.1000" in contrast.statement


def first_with(**changes):
    """Lighter runs, of which the first one has these figures."""
    first, *rest = measured(0.6)
    return [attrs.evolve(first, **changes), *rest]


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ([*measured(0.6), make_run("full", 9, 10.0, status="failed")],
         "1 of the runs with the stack failed"),
        (measured(0.6, epochs=1), "unlike: "),
        (first_with(disturbance={"swapped_pages": 300.0}), "swapping in 1 of 16 runs"),
        (first_with(started="forked"), "started in different ways"),
    ],
)  # fmt: skip
def test_what_forbids_the_claim_is_said(runs, said):
    contrast = memory_of(runs)
    assert contrast.verdict is MemoryVerdict.NONE
    assert said in contrast.statement


def test_the_device_is_compared_too_and_is_the_one_that_is_judged():
    sizes = {run.id: run.peak_device_bytes for run in measured(0.5, figure="peak_device_bytes")}
    runs = [attrs.evolve(run, peak_device_bytes=sizes[run.id]) for run in measured(1.4)]
    comparison = compare(runs, make_judgement(objective="memory"))
    assert [item.verdict for item in comparison.memory] == ["heavier", "lighter"]
    assert comparison.headline.startswith("peak device memory lower: 0.50x")


def test_a_figure_that_some_run_lacks_is_not_compared():
    assert compare(first_with(peak_rss_bytes=None), make_judgement()).memory == ()


@pytest.mark.parametrize(
    ("objective", "headline"), [("time", "slower: "), ("memory", "peak memory lower: ")]
)
def test_the_objective_chooses_the_headline(objective, headline):
    runs = [
        attrs.evolve(run, wall_seconds=run.wall_seconds * (1.5 if run.variant == "full" else 1))
        for run in measured(0.6)
    ]
    comparison = compare(runs, make_judgement(objective=objective))
    assert comparison.headline.startswith(headline)
    assert comparison.verdict is Verdict.SLOWER


def test_an_exact_stack_may_be_judged_by_its_time_to_the_target():
    runs = make_pairs(walls(8, 10.0), walls(8, 9.9), epochs=1)
    runs = with_fits(runs, seconds_to_target=lambda run: run.wall_seconds)
    runs = with_fits(runs, "full", seconds_to_target=lambda run: run.wall_seconds / 2)
    # of another length than the baseline, which the way to a target may be
    assert compare(runs, make_judgement(equivalence="exact")).verdict is Verdict.UNLIKE
    judgement = make_judgement(equivalence="exact", objective="time-to-target")
    comparison = compare(runs, judgement)
    assert comparison.kind == "time-to-target"
    assert comparison.statement.startswith("faster to the target: 2.0")


def out_of_memory(variant: str, round_: int) -> RunResult:
    return attrs.evolve(make_run(variant, round_, 1.0, status="failed"), out_of_memory=True)


SIZED = make_judgement(batch_sizes=(512, 256))


def trained_and_not(too_large: str, fits: str) -> list[RunResult]:
    return [run for n in range(2) for run in (out_of_memory(too_large, n), make_run(fits, n, 10.0))]


@pytest.mark.parametrize(
    ("too_large", "fits", "judgement", "statement"),
    [
        ("baseline", "full", SIZED,
         "fits: the baseline ran out of memory at batch 512, the stack trained (2 runs each)"),
        ("baseline", "full", make_judgement(),
         "fits: the baseline ran out of memory, the stack trained (2 runs each)"),
        ("full", "baseline", SIZED, "does not fit: the stack ran out of memory at batch 256, the "
         "baseline trained (2 runs each)"),
        ("full", None, SIZED,
         "no verdict: baseline and stack both ran out of memory at batch 512"),
    ],
)  # fmt: skip
def test_a_side_that_runs_out_of_memory_is_a_result(too_large, fits, judgement, statement):
    runs = trained_and_not(too_large, fits or "baseline")
    if fits is None:
        runs = [out_of_memory(run.variant, run.round) for run in runs]
    comparison = compare(runs, judgement)
    assert comparison.statement == statement
    verdict = {"full": Verdict.FITS, "baseline": Verdict.DOES_NOT_FIT, None: Verdict.NONE}[fits]
    assert comparison.verdict is verdict
    assert (comparison.speedup, comparison.memory) == (None, ())


@pytest.mark.parametrize(
    "other",
    [
        make_run("baseline", 2, 10.0),
        make_run("baseline", 2, 10.0, status="failed"),
        make_run("full", 2, 10.0, status="failed"),
        make_run("full", 2, 10.0, history={"val_accuracy": (0.5, math.nan)}),
        make_run("full", 2, 10.0, applied=False),
    ],
    ids=["fits once", "failed otherwise", "stack failed", "diverged", "no effect"],
)
def test_one_run_that_ended_otherwise_makes_it_no_such_result(other):
    comparison = compare([*trained_and_not("baseline", "full"), other], SIZED)
    assert comparison.verdict is Verdict.NONE
    assert comparison.statement.startswith("no verdict: ")


def advice_on(runs: list[RunResult], **judgement) -> tuple[str, ...]:
    return next_steps(runs, compare(runs, make_judgement(**judgement)), (), None)


def test_advice_follows_the_headline():
    runs = measured(1.4)  # more memory, and a time that is open or the same
    other = "try other plugins: `tfopt plugins` says what each is for"
    assert advice_on(runs, objective="memory") == (other,)
    lighter = measured(0.6, noise=0.001)
    assert advice_on(lighter, objective="memory") == ()
    assert other in advice_on(lighter)


def test_sides_of_which_one_does_not_fit_are_to_be_measured_at_a_size_that_fits_both():
    assert advice_on(trained_and_not("baseline", "full")) == (
        "to compare times, measure at a batch size that fits both",
    )
    [step] = advice_on(trained_and_not("full", "baseline"))
    assert step.startswith("measure at a smaller batch size")
