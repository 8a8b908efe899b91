"""The in-run contrast on a fake clock: its blocks, its statements and its error rates."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from support.in_run_clock import A, B, Hands, drive, make_contrast, outcome

from tfopt_core.records.in_run import InRunVerdict, Quad
from tfopt_core.statistics.in_run import conclude, not_compared
from tfopt_core.trials.alternate import ABBA, BAAB, BlockTimer, block_steps


def quads(*log_ratios):
    """Quads with these log ratios of seconds a step."""
    slow = [0.001 * math.exp(ratio) for ratio in log_ratios]
    return [Quad(ABBA, (reference, 0.001, 0.001, reference)) for reference in slow]


def said(*log_ratios, ended=""):
    found = conclude(B, A, quads(*log_ratios), 0.0203, ended=ended)
    return found if found is None else (found.verdict, found.statement)


def test_a_quad_is_one_log_ratio_of_geometric_means_in_either_order():
    assert Quad(ABBA, (2.0, 1.0, 1.0, 2.0)).log_ratio == pytest.approx(math.log(2))
    assert Quad(BAAB, (1.0, 2.0, 2.0, 1.0)).log_ratio == pytest.approx(math.log(2))
    drifting = Quad(ABBA, tuple(math.exp(0.1 * i) for i in range(4)))
    assert drifting.log_ratio == pytest.approx(0)


def test_every_statement_says_in_run():
    assert said(1.12, 1.13, 1.14, 1.13) == (
        "faster",
        "in-run: 4 steps a call is 3.10x faster a step than 1 step a call "
        "(98% interval 3.04 to 3.15, 8 blocks of each)",
    )
    assert said(-0.5, -0.51, -0.49, -0.5) == (
        "slower",
        "in-run: 4 steps a call is slower a step than 1 step a call: 0.61x "
        "(98% interval 0.60 to 0.62, 8 blocks of each)",
    )
    assert said(0.001, -0.001, 0.002, -0.002) == (
        "no difference",
        "in-run: no measurable difference (within 2%) between 4 steps a call and 1 step a call "
        "(98% interval 0.996 to 1.004, 8 blocks of each)",
    )
    assert said(0.01, 0.0101, 0.0099, 0.01)[1].endswith("(within the 2% band)")
    assert said(0.3, 0.3, 0.3, 0.3) == (
        "suspicious",
        "in-run: no verdict on 4 steps a call: suspiciously identical ratios to 1 step a call, "
        "which real timings never have",
    )


def test_what_cannot_be_told_yet_waits_for_the_next_look():
    noisy = (0.1, -0.1, 0.2, -0.15)
    assert said(*noisy) is None
    assert said(*noisy * 2) is None
    verdict, statement = said(*noisy * 3)
    assert verdict == "inconclusive"
    assert "not resolvable in 24 blocks of each (98% interval 0.90 to 1.14" in statement


def test_quads_after_the_last_look_do_not_count():
    found = conclude(B, A, quads(0.1, -0.1, 0.2, -0.15, 9.0, 9.0), 0.0203, ended="no time is left")
    assert (found.verdict, found.quads, len(found.samples)) == ("inconclusive", 4, 6)
    assert "not resolvable: no time is left" in found.statement
    assert said(0.5, 0.5, ended="no time is left") == (
        "not compared",
        "in-run: 4 steps a call not compared: no time is left",
    )


def test_a_block_is_ten_steps_and_twenty_milliseconds_and_one_call_at_least():
    assert [block_steps(0.010), block_steps(0.001), block_steps(0.010, 64)] == [10, 20, 64]
    hands = Hands()
    timer = BlockTimer(hands)
    found = []
    for _ in range(45):
        found.append(timer.before_call())
        hands.now += 0.001
        timer.after_call(1, traced=False)
    ends = [number for number, value in enumerate(found) if value is not None]
    assert ends == [21, 41]  # the first call is cold
    assert found[21] == pytest.approx(0.001)


def test_time_between_calls_belongs_to_the_block():
    hands = Hands()
    timer = BlockTimer(hands)
    for _ in range(11):
        timer.before_call()
        hands.now += 0.002
        timer.after_call(1, traced=False)
        hands.now += 0.003
    assert timer.before_call() == pytest.approx(0.005)


def test_a_trace_and_an_epochs_edge_break_a_block_off():
    hands = Hands()
    timer = BlockTimer(hands)
    ended = []
    for call in range(60):
        if call == 5:
            hands.now += 9  # a validation
            timer.cut()
        value = timer.before_call()
        if value is not None:
            ended.append((call, round(value, 6)))
        hands.now += 0.002 + (1 if call == 20 else 0)
        timer.after_call(1, traced=call == 20)
    assert ended == [(16, 0.002), (31, 0.002), (41, 0.002), (51, 0.002)]


def test_the_device_is_waited_for_at_the_edges_of_blocks_only():
    hands, waits = Hands(), []
    timer = BlockTimer(hands, sync=lambda: waits.append(hands.now))
    for _ in range(21):
        timer.before_call()
        hands.now += 0.002
        timer.after_call(1, traced=False)
    assert waits == pytest.approx([0.002, 0.022])


def test_blocks_alternate_in_quads_with_a_cold_call_at_each_change():
    hands = Hands()
    contrast = make_contrast(hands, seed=5)
    made = drive(contrast, hands, lambda alternative, now: 0.001 * (1 + 0.001 * now))
    orders = {quad.order for quad in contrast.quads}
    assert orders == {ABBA, BAAB}
    assert len(contrast.quads) == 4
    changes = 1 + sum(a != b for a, b in itertools.pairwise(made))
    assert len(made) == 16 + changes  # a block is one call here


def test_blocks_may_take_several_calls_and_lie_in_many_epochs():
    hands = Hands()
    contrast = make_contrast(hands)
    noise = random.Random(2)
    for call in range(10_000):
        if call % 50 == 0:
            hands.now += 3
            contrast.timer.cut()
        alternative = contrast.choose()
        if contrast.result is not None:
            break
        hands.now += (0.004 if alternative else 0.002) * noise.uniform(0.99, 1.01)
        contrast.timer.after_call(4 if alternative else 1, traced=False)
    assert contrast.result.verdict == "faster"
    assert contrast.result.speedup == pytest.approx(2, rel=0.01)


@pytest.mark.parametrize("seed", range(6))
def test_an_alternative_more_than_twice_as_slow_is_dropped_in_its_first_block(seed):
    hands = Hands()
    contrast = make_contrast(hands, seed=seed, reference_step_seconds=0.01)
    made = drive(contrast, hands, lambda alternative, now: 0.15 if alternative else 0.01, steps=1)
    assert contrast.result.verdict == "dropped"
    assert "more than 2 times slower a step than 1 step a call" in contrast.result.statement
    assert sum(made) <= 3  # of the ten steps of a block


def test_one_less_than_twice_as_slow_is_judged():
    hands = Hands()
    contrast = make_contrast(hands, reference_step_seconds=0.01)
    source = random.Random(1)

    def step_seconds(alternative, now):
        return source.uniform(0.0099, 0.0101) * (1.8 if alternative else 1)

    drive(contrast, hands, step_seconds, steps=1)
    assert contrast.result.verdict == "slower"


def periodic_outcome(source, period):
    """A contrast of equal functions while a load makes one block of so many half as fast again."""
    hands = Hands()
    contrast = make_contrast(hands, seed=source.randrange(2**31))
    phase = source.randrange(period)

    def step_seconds(alternative, now):
        block = 4 * len(contrast.quads) + len(contrast._blocks)
        slow = 1.5 if (block + phase) % period == 0 else 1.0
        return 0.001 * slow * math.exp(source.gauss(0, 0.01))

    drive(contrast, hands, step_seconds)
    return contrast.result.verdict


@pytest.mark.parametrize("period", [2, 3, 4, 5, 8, 16])
def test_a_load_that_comes_back_with_the_quads_makes_no_difference_of_equals(period):
    source, trials = random.Random(14), 300
    verdicts = [periodic_outcome(source, period) for _ in range(trials)]
    false = sum(verdict in ("faster", "slower") for verdict in verdicts) / trials
    print(f"a load every {period} blocks: {false:.3f} false")
    assert false < 0.05 + 3.5 * math.sqrt(0.05 * 0.95 / trials)


@pytest.mark.parametrize("drift", [0.0, 0.1, -0.1], ids=["steady", "slowing", "quickening"])
def test_identical_functions_come_out_different_at_less_than_the_nominal_rate(drift):
    """Three looks at 98% keep 5% together, also while the machine becomes slower or faster."""
    source = random.Random(11)
    results = [outcome(source, noise=0.05, drift=drift) for _ in range(2000)]
    rate = sum(result.verdict in ("faster", "slower") for result in results) / len(results)
    assert rate < 0.05 + 0.015  # three standard errors


def test_a_difference_of_three_percent_is_found_in_noise_of_two():
    source = random.Random(12)
    results = [outcome(source, gain=1.03, noise=0.02) for _ in range(400)]
    assert sum(result.verdict == "faster" for result in results) / len(results) > 0.95
    assert sum(result.verdict == "slower" for result in results) == 0
    covered = sum(r.low <= 1.03 <= r.high for r in results if r.low is not None)
    assert covered / len(results) > 0.93


def test_a_large_difference_needs_the_first_look_only():
    source = random.Random(13)
    results = [outcome(source, gain=3.0, noise=0.05) for _ in range(200)]
    assert all(result.verdict == "faster" for result in results)
    assert sum(result.quads == 4 for result in results) / len(results) > 0.98


@pytest.mark.parametrize(
    ("ratios", "waits"),
    [((0.5, 0.51, 0.49, 0.5), True), ((-0.5, -0.51, -0.49, -0.5), False),
     ((0.001, -0.001, 0.002, -0.002), False)],
    ids=["faster", "slower", "no difference"],
)  # fmt: skip
def test_only_a_gain_waits_until_it_can_be_compared_with_others(ratios, waits):
    looks = [conclude(B, A, quads(*ratios * n), 0.0203, widest=1.001) for n in (1, 2, 3)]
    assert [look and look.quads for look in looks] == ([None, None, 12] if waits else [4, 8, 12])
    assert conclude(B, A, quads(*ratios), 0.0203, widest=1.5).quads == 4


@pytest.mark.parametrize("verdict", [InRunVerdict.SCREENED, InRunVerdict.NOT_COMPARED])
def test_a_loop_that_was_not_dropped_is_said_not_to_be_compared(verdict):
    found = not_compared(B, A, "it is not far behind", verdict=verdict)
    assert found.statement == "in-run: 4 steps a call not compared: it is not far behind"
    dropped = not_compared(B, A, "it is far behind", verdict=InRunVerdict.DROPPED)
    assert dropped.statement == "in-run: 4 steps a call dropped: it is far behind"
