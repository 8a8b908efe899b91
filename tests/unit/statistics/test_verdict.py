"""Each statement: runs that produce it, and runs that must not."""

import itertools
import re

import attrs
import pytest
from support.measure_runs import make_fit, make_judgement, make_pairs, make_run, with_fits

from tfopt_core.statistics.certificate import Certificate
from tfopt_core.statistics.contrasts import Contrast, attribute
from tfopt_core.statistics.results import QualityVerdict
from tfopt_core.statistics.verdict import compare
from tfopt_core.training.messages import Block, TrainingCounts

BASE = [10.0, 10.1, 9.9, 10.05]
FAST = [8.0, 8.1, 7.95, 8.02]
SAME = [10.01, 10.08, 9.93, 10.04]


def test_faster_needs_an_interval_above_one():
    comparison = compare(make_pairs(BASE, FAST), make_judgement())
    assert comparison.verdict == "faster"
    assert comparison.statement == "faster: 1.25x (95% interval 1.24 to 1.25, 4 pairs)"
    assert comparison.low > 1
    assert len(comparison.run_ids) == 8
    assert compare(make_pairs(BASE, [9.0, 11.0, 8.0, 10.5]), make_judgement()).verdict != "faster"


def test_a_tiny_sure_gain_is_said_to_lie_within_the_band():
    tiny = [b / f for b, f in zip(2 * BASE, 2 * [1.010, 1.011, 1.0105, 1.0102], strict=True)]
    comparison = compare(make_pairs(2 * BASE, tiny), make_judgement())
    assert comparison.verdict == "faster"
    assert comparison.statement.endswith("(within the 5% band)")


def test_slower():
    comparison = compare(make_pairs(FAST, BASE), make_judgement())
    assert comparison.verdict == "slower"
    assert comparison.statement.startswith("slower: 0.80x")


def test_no_measurable_difference_needs_the_interval_inside_the_band():
    assert compare(make_pairs(BASE, SAME), make_judgement()).statement.startswith(
        "no measurable difference (within 5%)"
    )
    noisy = [9.0, 11.0, 10.5, 9.5]
    assert compare(make_pairs(BASE, noisy), make_judgement()).verdict == "inconclusive"


def test_inconclusive_says_how_many_more_pairs_and_how_long():
    comparison = compare(
        make_pairs(BASE, [9.0, 10.6, 9.2, 9.9]), make_judgement(), pair_seconds=20.0
    )
    assert comparison.verdict == "inconclusive"
    assert re.search(r"; --pairs \d+ would tell \(about \d+ min\)$", comparison.statement)


def test_fewer_than_four_complete_pairs_give_no_verdict():
    runs = [*make_pairs(BASE[:3], FAST[:3]), make_run("baseline", 3, 10.0)]
    comparison = compare(runs, make_judgement())
    assert comparison.verdict == "none"
    assert comparison.speedup is None


def test_without_an_effect_there_is_no_number():
    comparison = compare(make_pairs(BASE, FAST, applied=False), make_judgement())
    assert comparison.verdict == "not applied"
    assert comparison.speedup is None
    assert not any(character.isdigit() for character in comparison.statement)


def test_a_failed_run_is_always_said_and_never_counted():
    runs = [*make_pairs(BASE, FAST), make_run("baseline", 4, 1.0, status="failed")]
    comparison = compare(runs, make_judgement())
    assert comparison.verdict == "faster"
    assert comparison.statement.endswith("1 of 9 runs failed")
    assert comparison.pairs == 4


def test_a_failed_optimized_run_is_never_faster():
    runs = [*make_pairs(BASE, FAST), make_run("full", 4, 1.0, status="failed")]
    comparison = compare(runs, make_judgement())
    assert comparison.verdict == "none"
    assert comparison.statement.startswith("no verdict: 1 of the runs with the stack failed")


def test_faster_but_worse_names_the_metric():
    comparison = compare(make_pairs(BASE, FAST, metrics={"val_accuracy": 0.8}), make_judgement())
    assert comparison.verdict == "worse"
    assert comparison.statement.startswith("faster but worse: val_accuracy fell by 0.1000")


def test_for_a_metric_that_falls_worse_is_higher():
    runs = make_pairs(BASE, FAST, metrics={"val_loss": 0.5})
    for run in runs:
        if run.variant == "baseline":
            run.fit.metrics["val_loss"] = 0.4
    comparison = compare(runs, make_judgement(metric="val_loss", direction="min"))
    assert comparison.verdict == "worse"
    assert "val_loss rose by 0.1000" in comparison.statement


def test_a_missing_metric_never_counts_as_equal():
    comparison = compare(make_pairs(BASE, FAST), make_judgement(metric="val_auc"))
    assert comparison.quality is None
    assert comparison.verdict == "quality open"


def with_targets(baseline, optimized):
    runs = []
    for round_, (b, o) in enumerate(zip(baseline, optimized, strict=True)):
        runs += [make_run("baseline", round_, 20.0 + round_ / 10, seconds_to_target=b),
                 make_run("full", round_, 20.0 + round_ / 10, seconds_to_target=o)]  # fmt: skip
    return runs


def test_a_stack_that_changes_the_algorithm_is_judged_by_time_to_target():
    judgement = make_judgement(equivalence="changes")
    comparison = compare(with_targets(BASE, FAST), judgement)
    assert comparison.kind == "time-to-target"
    assert comparison.statement.startswith("faster to the target: 1.25x")


def test_one_run_that_misses_the_target_is_the_slowest_and_two_void_the_result():
    judgement = make_judgement(equivalence="changes")
    one = compare(with_targets(BASE, [8.0, None, 7.9, 8.1]), judgement)
    assert one.speedup < 1.25
    two = compare(with_targets(BASE, [8.0, None, None, 8.1]), judgement)
    assert two.verdict == "void"
    assert '2 of 4 runs of "full" never reached the target' in two.statement


def three_variants(left_out, *, times=1, **changes):
    runs = make_pairs(times * BASE, times * FAST, plugins=("p", "q"))
    for round_, wall in enumerate(left_out):
        runs.append(make_run("without p", round_, wall, plugins=("q",), **changes))
    return runs


LEFT_OUT = [Contrast("p", ("p",), "without p")]


def test_an_incomplete_contrast_is_not_isolated():
    [row] = attribute(three_variants(SAME[:3]), LEFT_OUT, make_judgement())
    assert row.left_out is None
    assert "not isolated" in row.statement


def test_a_plugin_that_was_not_applied_gets_no_number():
    runs = make_pairs(BASE, FAST, plugins=("p", "q"), applied=False)
    runs += [make_run("without p", r, w, plugins=("q",)) for r, w in enumerate(SAME)]
    [row] = attribute(runs, LEFT_OUT, make_judgement())
    assert row.left_out is None
    assert row.statement == "p: not applied: nothing to do"


def test_a_group_is_not_the_gain_of_one_of_it():
    runs = three_variants(SAME)
    runs += [make_run("without q", r, w, plugins=("p",)) for r, w in enumerate(FAST)]
    contrasts = [Contrast("p", ("p", "q"), "without p"), Contrast("q", ("q",), "without q")]
    rows = attribute(runs, contrasts, make_judgement())
    assert rows[0].statement.startswith("p (with q, which cannot stand without it): faster")
    assert rows[1].statement.startswith("q: not isolated")


def test_a_contrast_that_moves_another_plugin_is_not_isolated():
    runs = make_pairs(BASE, FAST, plugins=("p", "q"))
    runs += [
        make_run("without p", round_, wall, plugins=("q",), applied=False)
        for round_, wall in enumerate(SAME)
    ]
    [row] = attribute(runs, LEFT_OUT, make_judgement())
    assert row.left_out is None
    assert row.statement == ('p: not isolated: taking it out changes whether "q" is applied')


BLOCKS = tuple(Block(10, 0.05 + i / 1e6) for i in range(30))


@pytest.mark.parametrize(
    ("baseline", "full"),
    [([10.0] * 4, [8.0] * 4), (BASE, [8.0] * 4), ([10.0] * 4, FAST), ([*BASE, *BASE], [8.0] * 8)],
)
def test_a_side_of_one_and_the_same_time_is_suspicious(baseline, full):
    comparison = compare(make_pairs(baseline, full), make_judgement())
    assert (comparison.verdict, comparison.speedup) == ("suspicious", None)


@pytest.mark.promise(19, injected="a run's blocks stored twice")
def test_a_replayed_run_is_suspicious_though_the_others_vary():
    replayed = [8.0, 8.1, 8.0, 8.02]
    runs = make_pairs(BASE, replayed, blocks=BLOCKS)
    assert compare(runs, make_judgement()).verdict == "suspicious"
    # a coarse clock may show one wall time twice, but not every block
    assert compare(make_pairs(BASE, replayed), make_judgement()).verdict == "faster"
    assert compare(make_pairs(BASE, FAST, blocks=BLOCKS), make_judgement()).verdict == "faster"


@pytest.mark.parametrize("left_out", [[10.0] * 4, [f * 1.2 for f in FAST]])
def test_identical_timings_are_credited_to_no_plugin(left_out):
    [row] = attribute(three_variants(left_out), LEFT_OUT, make_judgement())
    assert row.left_out is None
    assert row.statement == "p: not isolated: suspiciously identical timings"


def test_trainings_of_unlike_length_are_called_neither_faster_nor_slower():
    early = {"epochs": 5, "steps": 500, "batch_size": 32, "planned_epochs": 10}
    runs = make_pairs(BASE, [b / 2 - i / 100 for i, b in enumerate(BASE)], **early)
    runs = with_fits(runs, "baseline", epochs=10, steps=1000, batch_size=32)
    comparison = compare(runs, make_judgement())
    assert comparison.verdict == "unlike"
    assert comparison.statement.startswith(
        'unlike: 10 epochs in "baseline" and 5 in "full"; time 2.01x (95%'
    )
    assert "; time for each example 1.00x (95% interval" in comparison.statement
    # who declares another algorithm is judged by the target that it reaches
    assert compare(runs, make_judgement(equivalence="changes")).verdict != "unlike"


@pytest.mark.parametrize("steps", [(99,), (99, 98)])
def test_one_pair_of_unlike_length_is_enough_and_all_are_counted(steps):
    runs = make_pairs(BASE, FAST)
    for pair, count in enumerate(steps):
        runs[2 * pair + 1] = attrs.evolve(runs[2 * pair + 1], fits=(make_fit(steps=count),))
    comparison = compare(runs, make_judgement())
    assert comparison.verdict == "unlike"
    said = f'100 steps in "baseline" and 99 in "full" (in {len(steps)} of 4 pairs)'
    assert said in comparison.statement


def test_of_runs_that_were_cut_short_the_planned_lengths_are_compared():
    steps = itertools.count(70)
    runs = with_fits(
        make_pairs(BASE, FAST), complete=False, projected_seconds=lambda run: run.wall_seconds,
        planned_epochs=10, metrics={}, steps=lambda run: next(steps), steps_per_epoch=60,
    )  # fmt: skip
    judgement = make_judgement(projected=True, certificate=CERTIFIED)
    assert compare(runs, judgement).statement.startswith("faster (projected): 1.25x")
    runs[1] = attrs.evolve(runs[1], fits=(attrs.evolve(runs[1].fit, steps_per_epoch=59),))
    assert compare(runs, judgement).verdict == "unlike"


CERTIFIED = Certificate(kind="certified", statement="same training, certified")
COUNTS = TrainingCounts(
    updates=((50, 50), (25, 25)), examples=(1600, 1600), validation_examples=(400, 400),
    learning_rate=0.01, batch_calls=100, batch_indices="ab",
)  # fmt: skip


def with_second_fits(losses):
    """Pairs of whole runs of two fits each; the second ones end with these losses."""
    return [
        attrs.evolve(run, fits=(*run.fits, make_fit(name="fit 2", metrics={"loss": loss})))
        for run, loss in zip(make_pairs(BASE, FAST), losses, strict=True)
    ]


@pytest.mark.parametrize(
    ("losses", "certified"),
    [
        ([1.0, 1.1] * len(BASE), False),
        ([1.0, 1.0 + 1e-7] * len(BASE), True),
        ([1.0, 1.0, *[1.0, 1.1] * (len(BASE) - 1)], True),
    ],
    ids=["another loss in each pair", "a rounding", "another loss in some pairs"],
)
def test_a_certificate_of_the_first_fit_falls_where_a_later_one_ends_otherwise(losses, certified):
    judgement = make_judgement(certificate=CERTIFIED, equivalence="exact")
    quality = compare(with_second_fits(losses), judgement).quality
    assert (quality.verdict is QualityVerdict.CERTIFIED) is certified
    assert ("and fit 2 ends otherwise in each pair" in quality.certificate) is not certified


@pytest.mark.parametrize(
    ("broken", "what"),
    [
        ({"updates": ((50, 50), (25, 0))}, 'updates of an epoch (number 2): 25 in "baseline" and'),
        ({"examples": (1600, 1599)}, "examples of an epoch (number 2): 1,600 in"),
        ({"validation_examples": (400, 16)}, "examples of a validation (number 2): 400 in"),
        ({"validation_examples": (400,)}, "examples of a validation were counted: 2 in"),
        ({"batch_calls": 99}, "calls for a batch: 100 in"),
        ({"batch_indices": "cd"}, "indices of batches: ab in"),
    ],
)
def test_what_was_done_otherwise_is_no_gain_whatever_a_certificate_says(broken, what):
    runs = with_fits(make_pairs(BASE, FAST), counts=COUNTS)
    judgement = make_judgement(certificate=CERTIFIED)
    assert compare(runs, judgement).verdict == "faster"
    other = attrs.evolve(runs[3].fit, counts=attrs.evolve(COUNTS, **broken))
    runs[3] = attrs.evolve(runs[3], fits=(other,))
    comparison = compare(runs, judgement)
    assert comparison.verdict == "unlike"
    assert what in comparison.statement
    changes = make_judgement(equivalence="changes")
    assert compare(runs, changes).verdict != "unlike"


def test_a_fit_behind_one_that_was_cut_short_may_end_elsewhere():
    runs = make_pairs(BASE, FAST)
    for place, run in enumerate(runs):
        cut = attrs.evolve(run.fit, complete=False, planned_epochs=10)
        counts = attrs.evolve(COUNTS, learning_rate=0.1 / (1 + place % 2))
        last = make_fit(name="fit 2", epochs=2 + place % 2, planned_epochs=4, counts=counts)
        runs[place] = attrs.evolve(run, fits=(cut, last))
    assert compare(runs, make_judgement(projected=True)).verdict != "unlike"


def test_other_examples_than_the_baselines_are_no_gain():
    other = Certificate(
        kind="diverges", statement="declared exact, but epoch 1 has 900 examples instead of 1,000",
        other_examples=True,
    )  # fmt: skip
    comparison = compare(make_pairs(BASE, FAST), make_judgement(certificate=other))
    assert comparison.verdict == "unlike"
    assert comparison.statement.startswith("unlike: other data; declared exact, but epoch 1")
    reordered = attrs.evolve(other, other_examples=False)
    assert compare(make_pairs(BASE, FAST), make_judgement(certificate=reordered)).verdict == (
        "faster"
    )


@pytest.mark.parametrize("certificate", [None, CERTIFIED])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_metric_that_is_no_finite_number_voids_a_gain(certificate, value):
    metrics = {"val_accuracy": 0.9, "val_auc": value}
    history = {name: (0.5, last) for name, last in metrics.items()}
    runs = make_pairs(BASE, FAST, metrics=metrics, history=history)
    comparison = compare(runs, make_judgement(certificate=certificate))
    assert comparison.verdict == "void"
    assert f"val_auc is {value} at the end of 4 of 8 runs" in comparison.statement
    assert comparison.quality.verdict == "not established"
    # in an earlier epoch it says nothing of the model that came out
    earlier = make_pairs(BASE, FAST, history={"val_auc": (value, 0.5)})
    assert compare(earlier, make_judgement(certificate=certificate)).verdict == "faster"


def steps_alone(factor):
    """Runs that were cut before an epoch ended: no total, but a mean step."""
    return with_fits(
        make_pairs(BASE, [b / factor + i / 100 for i, b in enumerate(BASE)]), complete=False,
        metrics={}, why_not_projected="no epoch ended", planned_epochs=3, steps_per_epoch=1000,
        step_seconds=lambda run: run.wall_seconds / 1000,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("factor", "certificate", "verdict", "words"),
    [
        (1.5, CERTIFIED, "steps faster", "steps are faster: 1.5"),
        (0.7, CERTIFIED, "steps slower", "steps are slower: 0.7"),
        (1.5, None, "quality open", "steps are faster; quality not established: 1.5"),
    ],
)
def test_where_no_total_is_known_the_verdict_is_about_steps(factor, certificate, verdict, words):
    judgement = make_judgement(projected=True, per_step=True, certificate=certificate)
    comparison = compare(steps_alone(factor), judgement)
    assert comparison.kind == "steps"
    assert (comparison.verdict, comparison.statement[: len(words)]) == (verdict, words)
    assert "projected" not in comparison.statement


@pytest.mark.parametrize("side", ["baseline", "full"])
def test_steps_are_compared_where_only_one_side_knows_their_number(side):
    # a stack may count what the script's own data do not tell
    runs = with_fits(steps_alone(1.5), side, steps_per_epoch=None)
    judgement = make_judgement(projected=True, per_step=True, certificate=CERTIFIED)
    comparison = compare(runs, judgement)
    assert comparison.statement.startswith("steps are faster: 1.5")
    assert comparison.speedup == pytest.approx(compare(steps_alone(1.5), judgement).speedup)


def test_a_loop_of_a_scripts_own_is_faster_by_time_alone():
    pairs = make_pairs(BASE, FAST)
    judgement = make_judgement(metric="", equivalence="exact")
    comparison = compare(pairs, judgement)
    assert comparison.verdict == "quality open"
    assert comparison.statement.startswith("training is faster; quality not established: 1.25x")
    assert comparison.quality.verdict == "not established"
    assert comparison.quality.statement == (
        "quality not established: the script reports no metric that is known to be better high, "
        "or low"
    )


def isolated(runs, *, judgement=None):
    """The statement on "p", whose contrast is of the stack without it and the whole."""
    runs = [attrs.evolve(run, variant=run.variant.replace("baseline", "without p")) for run in runs]
    [row] = attribute(runs, LEFT_OUT, judgement or make_judgement())
    return row.statement


def test_no_gain_is_claimed_for_a_plugin_where_its_own_runs_cast_doubt():
    said = isolated(make_pairs(BASE, FAST, history={"val_accuracy": (float("nan"),)}))
    assert said.startswith("p: no gain is claimed, ")
    assert "val_accuracy" in said


def test_a_plugin_that_trains_another_amount_is_said_unless_a_target_is_what_counts():
    runs = make_pairs(BASE, FAST, steps=50)
    assert "trains another amount" in isolated(runs)
    reached = with_fits(runs, seconds_to_target=lambda run: run.wall_seconds)
    said = isolated(reached, judgement=make_judgement(equivalence="changes"))
    assert said.startswith("p: faster with it")
