"""What plugins that are not exact add to an exact stack: a contrast of its own."""

import pytest
from support.measure_runs import make_judgement, make_pairs, make_run

from tfopt_core.statistics.certificate import Certificate
from tfopt_core.statistics.contrasts import judge_addition
from tfopt_core.statistics.results import Addition, QualityVerdict, Verdict
from tfopt_core.statistics.verdict import compare

PLUS = "plus low"
NOISE = (0.01, -0.01, 0.005, -0.005)
DIVERGES = Certificate(kind="diverges", statement="the stack rounds differently: by up to 0.4%")


def three_a_round(baseline=10.0, full=8.0, plus=4.0, **changes):
    """Rounds of baseline, stack, and stack with the addition; `changes` are made to the last."""
    runs = make_pairs([baseline + n for n in NOISE], [full - n for n in NOISE])
    plugins = changes.pop("plugins", ("p", "low"))
    return [
        *runs,
        *(make_run(PLUS, round_, plus + n / 2, plugins=plugins, **changes)
          for round_, n in enumerate(NOISE)),
    ]  # fmt: skip


def judged(runs, name="low"):
    added = Addition(
        plugins=(name,), resolved={"p": {}, "low": {}}, equivalence="rounding", variant=PLUS
    )
    return judge_addition(runs, make_judgement(equivalence="exact"), added, DIVERGES)


def test_it_is_the_ratio_over_the_stack_with_an_interval_from_the_same_rounds():
    added = judged(three_a_round())
    assert added.verdict == Verdict.FASTER
    assert added.speedup == pytest.approx(2.0, rel=0.01)
    assert added.low < 2.0 < added.high
    assert added.total == pytest.approx(2.5, rel=0.01)
    assert added.pairs == 4
    assert set(added.run_ids) == {f"{v} {r}" for v in ("full", PLUS) for r in range(4)}
    assert added.statement.startswith("low: faster with it on top of the stack: 2.00x (95% inter")
    assert "; 2.50x (" in added.statement
    assert added.statement.endswith(" over the baseline")


@pytest.mark.parametrize(
    ("plus", "name", "verdict", "words"),
    [
        (12.0, "low", Verdict.SLOWER, "slower with it on top of the stack: 0.67x"),
        (12.0, "p", Verdict.SLOWER, "p: slower with its settings that are not exact: 0.67x"),
        (8.0, "low", Verdict.NO_DIFFERENCE, "no measurable difference on top of the stack: 1.00x"),
    ],
)
def test_it_says_as_plainly_what_is_lost_or_not_gained(plus, name, verdict, words):
    added = judged(three_a_round(plus=plus), name)
    assert (added.verdict, words in added.statement) == (verdict, True)


def test_its_quality_is_that_against_the_baseline_with_how_far_its_replay_diverges():
    added = judged(three_a_round(metrics={"val_accuracy": 0.7}))
    assert added.quality.verdict == QualityVerdict.WORSE
    assert added.quality.difference == pytest.approx(-0.2)
    assert added.quality.certificate == DIVERGES.statement


def test_what_took_no_effect_has_no_figure():
    added = judged(three_a_round(applied=False))
    assert (added.verdict, added.speedup) == (Verdict.NOT_APPLIED, None)
    assert added.statement == "low: not applied: nothing to do"


def test_another_plugin_whose_effect_it_takes_away_is_named():
    runs = three_a_round()
    for run in runs:
        if run.variant == PLUS:
            run.effects["p"] = type(run.effects["p"])(False, "in the way")
    added = judged(runs)
    assert added.speedup is None
    assert 'adding it changes whether "p" is applied' in added.statement


def test_fewer_than_four_pairs_say_nothing():
    runs = [run for run in three_a_round() if run.variant != PLUS or run.round < 2]
    added = judged(runs)
    assert (added.verdict, added.speedup, added.pairs) == (Verdict.NONE, None, 2)
    assert added.statement == "low: not isolated: 2 complete pairs, it takes 4"


def test_nothing_of_it_changes_the_verdict_on_the_stack():
    with_it = three_a_round(plus=4.0)
    failing = [
        make_run(PLUS, run.round, 0, status="failed") if run.variant == PLUS else run
        for run in with_it
    ]
    alone = [run for run in with_it if run.variant != PLUS]
    judgement = make_judgement(equivalence="exact")
    assert compare(with_it, judgement) == compare(alone, judgement)
    assert compare(failing, judgement).verdict == compare(alone, judgement).verdict
    assert "4 of its runs failed" in judged(failing).statement


def test_a_loss_that_is_no_number_is_no_gain():
    added = judged(three_a_round(history={"val_accuracy": (0.8, float("nan"))}))
    assert added.verdict == Verdict.NONE
    assert "no gain is claimed" in added.statement
