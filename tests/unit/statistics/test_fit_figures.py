"""The figures of a fit: steps, totals that are projected, retraces, epochs to the target."""

import attrs
import pytest
from support.measure_runs import make_fit, make_outcome, make_run

from tfopt_core.recipe.model import TargetSpec
from tfopt_core.statistics.fit_figures import (
    LEAST_STARTS,
    NO_EDGE,
    UNKNOWN_STEPS,
    epochs_to_target,
    mean_step,
    one_time_seconds,
    project,
    retraced_runs,
    summarize,
)
from tfopt_core.training.messages import TURN, Block, StepTrace


def outcome(**changes):
    """A fit of one epoch, without a block."""
    return make_outcome(**{
        "setup_seconds": 0.5, "blocks": (), "planned_epochs": 1, "steps_per_epoch": 10,
        "epochs": 1, "steps": 10, "history": {}, **changes,
    })  # fmt: skip


def test_one_time_cost_is_what_cold_blocks_take_beyond_their_share():
    cold = (Block(1, 2.01, 0, "trace"), Block(10, 0.1, 0))
    fit = outcome(blocks=cold, validation_seconds=(0.7, 0.2, 0.2))
    assert one_time_seconds(fit, 0.01) == pytest.approx(0.5 + 2.0 + 0.5)


def test_epochs_to_target_count_from_one():
    history = {"val_accuracy": [0.7, 0.8, 0.9], "val_loss": [0.5, 0.4, 0.3]}
    assert epochs_to_target(history, TargetSpec(metric="val_accuracy", at_least=0.8)) == 2
    assert epochs_to_target(history, TargetSpec(metric="val_loss", at_most=0.3)) == 3
    assert epochs_to_target(history, TargetSpec(metric="val_loss", at_most=0.1)) is None


def test_a_step_takes_the_mean_of_warm_blocks_stalls_included():
    timed = (Block(1, 5.0, 0, "trace"), Block(10, 0.1), Block(10, 0.1), Block(10, 0.4))
    found = summarize(outcome(blocks=timed), None)
    assert found.step_seconds == pytest.approx(0.02)
    assert found.examples_per_second == pytest.approx(1600)
    assert summarize(outcome(blocks=timed[:1]), None).step_seconds is None


def test_a_run_that_took_turns_is_timed_in_them():
    alone = (Block(10, 0.9), Block(10, 0.9))
    turns = tuple(Block(10, seconds, 0, "", in_turns=True) for seconds in (0.1, 0.3))
    assert mean_step((*alone, *turns)) == pytest.approx(0.02)
    assert mean_step(alone) == pytest.approx(0.09)


STEP, SET_UP, TRACE, VALIDATION, FIRST_VALIDATION, EDGE = 0.01, 1.5, 0.8, 0.4, 0.9, 0.05
STEPS_PER_EPOCH, EPOCHS = 300, 10
EPOCH = STEPS_PER_EPOCH * STEP
REFILL = 0.3


def cut_after_a_warm_epoch(**changes):
    """Four whole epochs, and half of the next."""
    blocks = [Block(1, TRACE + STEP, 0, "trace")]
    blocks += [Block(10, 10 * STEP, 0)] * 29 + [Block(9, 9 * STEP, 0)]
    for epoch in range(1, LEAST_STARTS + 1):
        blocks += [Block(10, REFILL + 10 * STEP, epoch)] + [Block(10, 10 * STEP, epoch)] * 29
    del blocks[-15:]
    return make_outcome(**{
        "setup_seconds": SET_UP, "blocks": tuple(blocks),
        "validation_seconds": (FIRST_VALIDATION, VALIDATION), "epoch_end_seconds": (),
        "edge_seconds": (EDGE,), "cut_short": True, "planned_epochs": EPOCHS, "epochs": 4,
        "steps": 1350, "steps_per_epoch": STEPS_PER_EPOCH, "history": {"val_accuracy": (0.5,)},
        **changes,
    })  # fmt: skip


WHOLE = (
    SET_UP + TRACE + EPOCHS * EPOCH + (EPOCHS - 1) * REFILL
    + FIRST_VALIDATION + (EPOCHS - 1) * VALIDATION
    + EPOCHS * EDGE
)  # fmt: skip


def test_a_projection_is_what_the_whole_training_takes():
    fit = summarize(cut_after_a_warm_epoch(), None)
    assert fit.projected_seconds == pytest.approx(WHOLE)
    assert fit.step_seconds == pytest.approx(STEP)
    assert not fit.complete


def test_an_epoch_start_that_another_run_changed_is_projected_from_the_others():
    plain = cut_after_a_warm_epoch()
    # the fifth epoch is trained to its end, and the sixth begins after a long sleep
    rest, slept = (Block(10, 10 * STEP, 4),) * 15, Block(10, 4.0, 5, TURN)
    blocks = (*plain.blocks, *rest, slept, Block(10, 10 * STEP, 5))
    fit = summarize(attrs.evolve(plain, blocks=blocks, steps=1520, epochs=5), None)
    assert fit.projected_seconds == pytest.approx(WHOLE)
    assert fit.one_time_seconds == pytest.approx(summarize(plain, None).one_time_seconds)


def test_a_run_that_was_cut_short_has_no_final_metrics():
    assert summarize(cut_after_a_warm_epoch(), None).metrics == {}
    finished = summarize(cut_after_a_warm_epoch(cut_short=False), None)
    assert finished.metrics == {"val_accuracy": 0.5}
    assert finished.projected_seconds is None


def test_a_training_of_one_epoch_has_no_edge_to_wait_for():
    blocks = cut_after_a_warm_epoch().blocks[:20]
    fit = cut_after_a_warm_epoch(
        blocks=blocks, steps=191, planned_epochs=1, epochs=0, edge_seconds=(),
        validation_seconds=(FIRST_VALIDATION,),
    )  # fmt: skip
    assert project(fit) == pytest.approx(SET_UP + TRACE + EPOCH + FIRST_VALIDATION)


def test_what_no_run_has_seen_is_not_projected_and_the_reason_is_kept():
    # where their number is unknown, the first epoch counts its steps
    unknown = cut_after_a_warm_epoch(steps_per_epoch=None)
    assert project(unknown) == pytest.approx(WHOLE)
    first = attrs.evolve(unknown, blocks=tuple(b for b in unknown.blocks if b.epoch == 0))
    assert project(first) == UNKNOWN_STEPS
    early = cut_after_a_warm_epoch(
        blocks=tuple(b for b in cut_after_a_warm_epoch().blocks if b.epoch < LEAST_STARTS)
    )
    fit = summarize(early, None)
    assert fit.projected_seconds is None
    assert fit.why_not_projected == NO_EDGE
    assert fit.step_seconds == pytest.approx(STEP)


def test_the_total_of_a_whole_training_in_turns_is_that_of_its_pieces():
    # what it trained before its first stop, on a machine that was slower then, counts by the turns
    blocks = [Block(1, TRACE + STEP, 0, "trace"), *[Block(10, 20 * STEP, 0)] * 30]
    blocks[-1] = Block(9, 18 * STEP, 0)
    for epoch in range(1, EPOCHS):
        blocks += [Block(10, REFILL + 10 * STEP, epoch, in_turns=True)]
        blocks += [Block(10, 10 * STEP, epoch, in_turns=True)] * 29
    validations = (FIRST_VALIDATION, *[VALIDATION] * (EPOCHS - 1))
    outcome = cut_after_a_warm_epoch(
        blocks=tuple(blocks), cut_short=False, steps=STEPS_PER_EPOCH * EPOCHS,
        validation_seconds=validations, epoch_end_seconds=(0.0,) * EPOCHS,
    )  # fmt: skip
    fit = summarize(outcome, None)
    assert fit.complete
    assert fit.projected_seconds == pytest.approx(WHOLE)


# Traces of a step that cost time while it ran are counted, with their cause

FIRST = StepTrace(steps=0, shapes="(8, 3)", cause="first")


def traced(variant, round_, *traces):
    return make_run(variant, round_, 10.0, fit=make_fit(traces=traces))


def test_traces_are_counted_by_variant_and_cause_with_the_mend():
    new = [StepTrace(steps=n, shapes=f"(8, {n})", cause="shapes") for n in (10, 20, 30)]
    again = StepTrace(steps=40, shapes="(8, 3)", cause="python")
    runs = [
        traced("baseline", 0, FIRST),
        traced("full", 0, FIRST),
        traced("full", 1, FIRST, *new, again),
    ]
    assert retraced_runs(runs) == [
        'in a run of "full" the step was traced again 3 times for new shapes: (8, 10); (8, 20); '
        "(8, 30); pad batches to few shapes, or leave the changing axis None in the signature",
        'in a run of "full" the step was traced again once for the same shapes: a Python value or '
        "the train function changed; keep what changes in a tf.Variable, and build the train "
        "function once",
    ]
