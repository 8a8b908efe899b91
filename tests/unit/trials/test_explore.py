"""What a training compares, in which order and within which budget, and what it keeps."""

from __future__ import annotations

import random

import attrs
from support.in_run_clock import Hands, train

from tfopt_core.records.in_run import InRun, InRunVerdict
from tfopt_core.training.loops.exact_loops import Loop, Offer
from tfopt_core.trials.candidates import candidates, fastest
from tfopt_core.trials.explore import Explorer

ONE = Loop(1, False)
OFFER = Offer(reference=ONE, steps=(4, 16, 64), other_jit_compile=True, total_steps=100_000)


def found(loop, verdict, speedup=None, low=None):
    return InRun(
        alternative=loop.name, reference=ONE.name, verdict=InRunVerdict(verdict), speedup=speedup,
        low=low or speedup, statement="",
    )  # fmt: skip


def chunk(steps, jit_compile=False):
    return Loop(steps, jit_compile, "chunked")


def planned(offer, answers, step_seconds=0.0005):
    """The loops that are compared, given the speedup that each turns out to have."""
    plan, loops, result = candidates(offer, step_seconds), [], None
    while True:
        try:
            trial = plan.send(result)
        except StopIteration:
            return loops
        loops.append(trial.loop)
        loop, speedup = trial.loop, answers.get(trial.loop, 1.0)
        if trial.screen:
            result = found(loop, "dropped" if speedup < 0.5 else "screened")
            continue
        result = found(loop, "faster" if speedup > 1 else "no difference", speedup)


def dispatch_bound(loop):
    """Half a millisecond of dispatch a call, a tenth of computing a step, which XLA halves."""
    return 0.0005 / loop.steps + (0.00005 if loop.jit_compile else 0.0001)


def explored(step_seconds, offer=OFFER, **options):
    """A finished exploration of a training with 2% noise, and the loops of its calls."""
    hands, noise = Hands(), random.Random(4)
    explorer = Explorer(offer, seed=3, now=hands)
    made = train(
        explorer, hands, lambda loop: step_seconds(loop) * noise.uniform(0.98, 1.02),
        **{"steps": 100_000, **options},
    )  # fmt: skip
    return explorer, made


def statements(explorer):
    return {result.alternative: result.statement for result in explorer.adapted().contrasts}


def test_xla_comes_first_and_then_the_same_steps_without_it():
    assert planned(OFFER, {chunk(64, True): 2.0}) == [chunk(64, True), chunk(64)]


def test_where_xla_gains_more_than_dispatch_can_cost_nothing_else_is_compared():
    assert planned(OFFER, {chunk(64, True): 6.0}) == [chunk(64, True)]
    assert planned(OFFER, {chunk(16, True): 1.5}, 0.01) == [chunk(4, True), chunk(16, True)]


def test_long_steps_are_screened_under_xla_before_many_are_made():
    assert planned(OFFER, {}, 0.01) == [chunk(4, True), chunk(16, True), chunk(16)]
    assert planned(OFFER, {chunk(4, True): 0.1}, 0.01) == [chunk(4, True), chunk(16)]


def test_the_fewest_steps_that_make_a_long_call_are_compared():
    assert planned(OFFER, {}, 0.00001) == [chunk(64, True), chunk(64)]
    assert planned(OFFER, {}, 0.03) == [chunk(4, True), chunk(4)]
    # and of a step that is long itself no more a call
    assert planned(OFFER, {}, 0.2) == [Loop(1, True)]


def test_xla_is_compared_without_where_it_is_on():
    offer = Offer(reference=Loop(1, True), other_jit_compile=True)
    assert planned(offer, {}) == [Loop(1, False)]
    offer = Offer(reference=Loop(1, True), steps=(16,), other_jit_compile=True)
    assert planned(offer, {}) == [chunk(16), chunk(16, True)]


def test_of_a_chunked_stack_larger_chunks_are_compared():
    offer = Offer(reference=chunk(4), steps=(16, 64))
    assert planned(offer, {}) == [chunk(64)]


def test_only_what_is_faster_can_be_kept():
    slow, quick, open_ = Loop(4, False), Loop(16, False), Loop(64, False)
    results = {
        slow: found(slow, "slower", 0.5), quick: found(quick, "faster", 1.1),
        open_: found(open_, "inconclusive", 9.0),
    }  # fmt: skip
    assert fastest(results) == quick
    assert fastest({open_: results[open_]}) is None


def test_a_gain_that_is_sure_goes_before_one_that_may_be_large():
    sure, noisy = Loop(16, False), Loop(16, True)
    results = {sure: found(sure, "faster", 3.2, 2.3), noisy: found(noisy, "faster", 3.7, 1.3)}
    assert fastest(results) == sure


def test_the_fastest_loop_is_kept_and_the_words_say_so():
    explorer, made = explored(dispatch_bound)
    assert explorer.kept == chunk(64, True)
    assert made[0] == ONE
    adapted = explorer.adapted()
    assert adapted.reason == "faster than the stack's own loop"
    assert list(statements(explorer)) == ["64 steps a call, compiled whole by XLA"]
    # 98%, divided by the two that are on offer
    assert "99% interval" in statements(explorer)["64 steps a call, compiled whole by XLA"]
    truth = dispatch_bound(ONE) / dispatch_bound(chunk(64, True))
    assert adapted.contrasts[0].low < truth < adapted.contrasts[0].high


def test_time_outside_the_steps_is_not_counted():
    explorer, _ = explored(dispatch_bound)
    assert explorer.adapted().seconds < 5  # a validation of 5 s an epoch lies in between


def test_nothing_faster_keeps_the_stacks_own_loop_and_says_so():
    explorer, _ = explored(lambda loop: 0.02)
    assert explorer.kept == ONE
    assert explorer.adapted().reason == "the stack's own loop; nothing compared with it is faster"
    verdicts = [result.verdict for result in explorer.adapted().contrasts]
    assert verdicts == ["no difference"] * len(verdicts)


def test_an_xla_loop_fifteen_times_slower_is_dropped_after_a_few_steps():
    explorer, made = explored(lambda loop: 0.15 if loop.jit_compile else 0.01)
    assert explorer.kept == ONE
    said = statements(explorer)["4 steps a call, compiled whole by XLA"]
    assert "dropped: its first block is already" in said
    assert sum(loop.jit_compile for loop in made) <= 3


def test_a_loop_that_fails_is_dropped_with_its_reason_and_the_next_is_compared():
    explorer, _ = explored(dispatch_bound, fails=lambda loop: loop.jit_compile)
    name = "64 steps a call, compiled whole by XLA"
    assert statements(explorer)[name] == f"in-run: {name} dropped: it raised ValueError: no"
    assert explorer.kept == chunk(64)


def test_no_more_than_a_quarter_of_the_steps_is_used_for_comparing():
    offer = Offer(reference=ONE, steps=(4, 16, 64), other_jit_compile=True, total_steps=4_000)
    offer = attrs.evolve(offer, total_steps=2_000)
    explorer, _ = explored(lambda loop: dispatch_bound(loop) * 2, offer, steps=2_000)
    said = statements(explorer)["64 steps a call, compiled whole by XLA"]
    assert "of those for comparing (1 in 4 of all)" in said


def test_a_gain_that_is_not_yet_precise_gets_more_blocks():
    noise = random.Random(5)

    def noisy(loop):
        return dispatch_bound(loop) * (noise.uniform(0.6, 1.6))

    hands = Hands()
    explorer = Explorer(OFFER, seed=3, now=hands)
    train(explorer, hands, noisy, steps=100_000)
    for result in explorer.results.values():
        assert result.quads == 12 or result.high / result.low <= 1.5


def test_comparing_that_takes_too_long_is_not_begun():
    offer = Offer(reference=ONE, steps=(4,), other_jit_compile=True, total_steps=100_000)
    explorer, _ = explored(lambda loop: 0.001, offer, first_call=lambda loop: 8.0)
    assert explorer.kept == ONE
    said = statements(explorer)["4 steps a call, compiled whole by XLA"]
    assert "takes about 1" in said
    assert "more than is left of 20 s" in said


def test_a_long_training_may_compare_longer():
    offer = Offer(reference=ONE, other_jit_compile=True, total_steps=100_000)
    explorer, _ = explored(
        lambda loop: 0.5 if loop.jit_compile else 0.6, offer, steps=3_000,
        first_call=lambda loop: 30.0,
    )  # fmt: skip
    assert explorer.kept == Loop(1, True)


def test_a_training_that_ends_first_says_what_is_known():
    explorer, _ = explored(dispatch_bound, steps=60)
    assert explorer.kept is None
    adapted = explorer.adapted()
    assert adapted.kept == ONE.name
    assert "the training ended before" in adapted.contrasts[0].statement


def test_nothing_on_offer_is_settled_at_once():
    explorer = Explorer(Offer(reference=ONE, left_out=("nothing to adapt: why",)))
    assert explorer.kept == ONE
    assert explorer.adapted().reason == "nothing to adapt: why"


def test_the_same_seed_draws_the_same_order():
    assert explored(dispatch_bound)[1] == explored(dispatch_bound)[1]


def test_a_loop_has_a_name():
    assert (ONE.name, Loop(4, True).name) == ("1 step a call", "4 steps a call, XLA")
    assert chunk(64, True).name == "64 steps a call, compiled whole by XLA"
    assert Loop(8, False, "resident").name == "8 steps a call, over resident data"
