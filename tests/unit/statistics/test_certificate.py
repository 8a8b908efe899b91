"""What a certificate says: replays that produce each statement, and replays that must not."""

import math

import attrs
import pytest
from cattrs import structure, unstructure
from support.measure_runs import make_judgement, make_pairs, with_fits

from tfopt_core.statistics.certificate import SAME, certify, impossible
from tfopt_core.statistics.figures import stack_equivalence
from tfopt_core.statistics.verdict import compare
from tfopt_core.training.messages import TrainingCounts
from tfopt_core.training.replay.data import ReadEpoch, Replayed

BASE = [10.0, 10.1, 9.9, 10.05]
FAST = [8.0, 8.1, 7.95, 8.02]


def make_epoch(**changes):
    plain = {
        "examples": 320, "batches": 10, "multiset": "m1", "order": "o1",
        "first": tuple(f"b{i}" for i in range(10)), "whole": True,
    }  # fmt: skip
    return ReadEpoch(**{**plain, **changes})


EPOCHS = (make_epoch(), make_epoch(multiset="m1", order="o2", first=tuple("klmnopqrst")))
HISTORY = {"loss": (0.9, 0.6), "val_loss": (0.95, 0.7)}
COUNTS = TrainingCounts(updates=((50, 50),), examples=(320, 320), learning_rate=0.01)


def make_replayed(**changes):
    plain = {
        "epochs": EPOCHS, "steps": 100, "history": HISTORY, "counts": COUNTS, "reproducible": True,
        "weight_difference": 0.0,
    }  # fmt: skip
    return Replayed(**{**plain, **changes})


BASELINE = make_replayed(weight_difference=None)


def stack_with(**changes):
    """The baseline's own replay but for these changes."""
    return make_replayed(**changes)


def other_epoch(number, **changes):
    """The same epochs but for these changes of one."""
    epochs = list(EPOCHS)
    epochs[number - 1] = attrs.evolve(epochs[number - 1], **changes)
    return tuple(epochs)


def test_an_exact_stack_that_replays_the_same_is_certified():
    certificate = certify("exact", BASELINE, stack_with())
    assert certificate.certified
    assert certificate.statement == (
        "same training, certified: 100 steps of 2 epochs replayed, losses and weights are "
        "identical; 320 examples an epoch compared"
    )


def test_a_difference_within_rounding_is_certified_with_its_figure():
    close = {**HISTORY, "loss": (0.9, 0.6 * (1 + 6e-7))}
    certificate = certify("exact", BASELINE, stack_with(history=close, weight_difference=2e-7))
    assert certificate.statement.startswith(
        "same training, certified: 100 steps of 2 epochs replayed, losses differ by at most 6e-07, "
        "weights by at most 2e-07"
    )


@pytest.mark.parametrize("declared", ["exact", "order"])
@pytest.mark.parametrize(
    "changes",
    [
        {"history": {**HISTORY, "loss": (0.9, 0.6 * 1.004)}},
        {"history": {**HISTORY, "loss": (0.9, math.nan)}},
        {"weight_difference": 2 * SAME},
        {"weight_difference": math.inf},
    ],
    ids=["loss", "nan", "weights", "no weights"],
)
def test_a_divergence_is_never_certified_but_held_against_the_declaration(declared, changes):
    certificate = certify(declared, BASELINE, stack_with(**changes))
    assert certificate.kind == "diverges"
    assert certificate.statement.startswith(f"declared {declared}, but 100 replayed steps diverge:")


def test_a_machine_that_computes_nothing_twice_accuses_no_plugin():
    far = stack_with(weight_difference=0.03, own_difference=0.02)
    assert certify("exact", BASELINE, far).statement == (
        "no certificate: a training with the stack does not repeat itself on this machine: "
        "weights differ by up to 2%"
    )
    steady = stack_with(weight_difference=0.03, own_difference=0.0)
    assert certify("exact", BASELINE, steady).kind == "diverges"


def test_a_metric_that_the_stack_adds_is_not_compared_and_one_that_it_lacks_differs():
    more = stack_with(history={**HISTORY, "learning_rate": (0.01, 0.01)})
    assert certify("exact", BASELINE, more).certified
    less = stack_with(history={"loss": HISTORY["loss"]})
    assert certify("exact", BASELINE, less).kind == "diverges"
    none = certify("exact", make_replayed(history={}), stack_with(history={}))
    assert "100 steps of 1 epoch replayed, weights are identical" in none.statement


@pytest.mark.parametrize("declared", ["exact", "order", "unknown"])
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"updates": ((50, 51),)}, "updates of an epoch (number 2): 51 instead of 50"),
        ({"updates": ((50, 50), (50, 50))}, "optimizers: 2 instead of 1"),
        ({"validation_examples": (16, 16)}, ""),
        ({"learning_rate": 0.011}, "last learning rate: 0.011 instead of 0.01"),
    ],
)
def test_other_counts_are_named(declared, changes, said):
    stack = stack_with(counts=attrs.evolve(COUNTS, **changes))
    certificate = certify(declared, BASELINE, stack)
    assert certificate.statement.endswith(said)
    # counts that one side lacks are not compared
    assert (certificate.kind == "diverges") is bool(said)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"steps": 0, "history": {}}, "no step was trained"),
        ({"history": {"loss": (0.9, math.nan)}}, "a metric is not finite"),
    ],
)
def test_what_trains_nothing_is_not_certified(changes, said):
    side = make_replayed(**changes)
    certificate = certify("exact", side, side)
    assert certificate.statement == f"no certificate: {said}"


def test_another_order_is_a_divergence_of_an_exact_stack_and_allowed_to_an_order_stack():
    reordered = stack_with(epochs=other_epoch(1, order="x", first=tuple("0123456789")))
    assert certify("exact", BASELINE, reordered).statement == (
        "declared exact, but the batches differ from batch 0 on"
    )
    certificate = certify("order", BASELINE, reordered)
    assert certificate.certified
    assert certificate.statement.startswith(
        "same training up to the order of examples, certified: 100 steps of 2 epochs replayed, "
    )


@pytest.mark.parametrize(
    ("epochs", "said"),
    [
        (other_epoch(1, examples=319), "epoch 1 has 319 examples instead of 320"),
        (other_epoch(2, examples=640), "epoch 2 has 640 examples instead of 320"),
        (other_epoch(1, batches=11), "epoch 1 has 11 batches instead of 10"),
        (other_epoch(1, multiset="x"), "epoch 1 holds other examples"),
        (other_epoch(2, multiset="x"), "epoch 2 holds other examples"),
    ],
)
@pytest.mark.parametrize("declared", ["exact", "order", "rounding"])
def test_other_examples_are_named_whatever_is_declared(declared, epochs, said):
    certificate = certify(declared, BASELINE, stack_with(epochs=epochs))
    assert certificate.kind == "diverges"
    assert certificate.statement == f"declared {declared}, but {said}"


@pytest.mark.parametrize(
    ("epochs", "said"),
    [
        (other_epoch(1, order="x", first=(*EPOCHS[0].first[:3], *"xyzuvwq")),
         "the batches differ from batch 3 on"),
        (other_epoch(1, order="x"), "the batches differ after batch 9"),
        (other_epoch(2, order="x", first=tuple("0123456789")),
         "the batches of epoch 2 differ from batch 0 on"),
        ((EPOCHS[0], EPOCHS[0]),
         "epoch 2 repeats the order of epoch 1, which is shuffled anew without it"),
    ],
)  # fmt: skip
def test_where_the_order_changes_is_said(epochs, said):
    assert certify("exact", BASELINE, stack_with(epochs=epochs)).statement.endswith(said)


def test_data_that_never_repeat_accuse_no_plugin():
    fickle = attrs.evolve(BASELINE, reproducible=False)
    certificate = certify("exact", fickle, stack_with(epochs=other_epoch(1, multiset="x")))
    assert certificate.kind == "impossible"
    assert "differ each time" in certificate.statement
    # yet where they do agree, they were compared
    assert certify("exact", fickle, stack_with()).certified


def test_rounding_is_never_certified_and_its_divergence_printed():
    rounded = stack_with(history={**HISTORY, "loss": (0.9, 0.6 * 1.004)}, weight_difference=0.5)
    certificate = certify("rounding", BASELINE, rounded)
    assert certificate.statement == (
        "the stack rounds differently: over 100 replayed steps the loss diverges by up to 0.4%"
    )
    weights_alone = certify("rounding", BASELINE, stack_with(weight_difference=2e-7))
    assert weights_alone.statement.endswith(
        "the loss stays the same, and the weights diverge by up to 2e-07"
    )
    same = certify("rounding", BASELINE, stack_with())
    assert certificate.kind == same.kind == "diverges"
    assert same.statement == (
        "the stack may round differently, but 100 replayed steps are identical"
    )


def test_a_stack_that_declares_nothing_and_replays_the_same_is_certified():
    certificate = certify("unknown", BASELINE, stack_with())
    assert certificate.certified
    assert certificate.statement == (
        "same training, certified: 100 steps of 2 epochs replayed, losses and weights are "
        "identical; 320 examples an epoch compared; not every plugin declares what it does to the "
        "training"
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"weight_difference": 0.03}, "100 replayed steps diverge: "),
        ({"epochs": other_epoch(1, multiset="x")}, "epoch 1 holds other examples"),
        (
            {"epochs": other_epoch(1, order="x", first=tuple("0123456789"))},
            "the batches differ from batch 0 on",
        ),
    ],
    ids=["weights", "examples", "order"],
)
def test_a_stack_that_declares_nothing_and_is_not_the_same_accuses_nobody(changes, said):
    certificate = certify("unknown", BASELINE, stack_with(**changes))
    assert certificate.kind == "diverges"
    assert certificate.statement.startswith(
        f"not every plugin declares what it does to the training, and it is not the same: {said}"
    )


@pytest.mark.parametrize(
    ("maths", "stack"),
    [
        ((), "exact"),
        (("exact", "order"), "order"),
        (("unknown", "exact", "order"), "unknown"),
        (("unknown", "rounding"), "rounding"),
        (("unknown", "changes"), "changes"),
    ],
)
def test_a_stack_is_judged_by_its_furthest_reaching_plugin(maths, stack):
    assert stack_equivalence(maths) == stack


def test_data_that_were_not_read_whole_certify_nothing():
    part = tuple(attrs.evolve(e, whole=False, multiset="x", order="x") for e in EPOCHS[:1])
    large = {"epochs": part}
    for declared in ("exact", "order"):
        certificate = certify(declared, BASELINE, stack_with(**large))
        assert certificate.kind == "impossible"
        assert certificate.statement == "no certificate: the data are too large to compare whole"
    # what was read is still held against an exact stack
    large["epochs"] = (attrs.evolve(part[0], first=("b0", "x")),)
    assert certify("exact", BASELINE, stack_with(**large)).statement == (
        "declared exact, but the batches differ from batch 1 on"
    )


def test_a_training_on_its_own_data_is_certified_without_reading_them():
    own, stack = (attrs.evolve(side, epochs=(), cut_to=50) for side in (BASELINE, stack_with()))
    certificate = certify("exact", own, stack)
    assert certificate.statement == (
        "same training, certified: 100 steps of 2 epochs replayed, losses and weights are "
        "identical; epochs cut down to 50 batches"
    )


def test_a_replay_survives_the_pipe():
    replayed = stack_with(weight_difference=math.inf)
    assert structure(unstructure(replayed), Replayed) == replayed


# What becomes of it in the judgement of quality.

CERTIFIED = certify("exact", BASELINE, stack_with())
ROUNDED = certify("rounding", BASELINE, stack_with())
STRADDLING = (0.88, 0.92, 0.91, 0.89)


def pairs_with(values=(0.9,) * 4, **changes):
    """Pairs that are faster, with these accuracies at the end of the optimized runs."""
    runs = make_pairs(BASE, FAST, **changes)
    for run, value in zip(runs[1::2], values, strict=True):
        run.fit.metrics.update(val_accuracy=value)
    return runs


def test_a_certificate_makes_it_faster_though_the_metric_straddles_the_tolerance():
    with_it = compare(pairs_with(STRADDLING), make_judgement(certificate=CERTIFIED))
    assert with_it.verdict == "faster"
    assert with_it.quality.verdict == "certified"
    assert with_it.quality.baseline == 0.9
    assert with_it.quality.statement.startswith(
        "same training, certified: 100 steps of 2 epochs replayed"
    )
    assert "val_accuracy 0.9000 -> 0.9000" in with_it.quality.statement
    for certificate in (None, ROUNDED, impossible("it fell over")):
        without = compare(pairs_with(STRADDLING), make_judgement(certificate=certificate))
        assert without.verdict == "quality open"


def test_a_certificate_of_another_kind_is_carried_beside_the_statistics():
    quality = compare(pairs_with(), make_judgement(certificate=ROUNDED)).quality
    assert quality.verdict == "not worse"
    assert quality.certificate.startswith("the stack may round differently")
    assert quality.statement.startswith("quality not worse: val_accuracy")


def test_a_loss_of_quality_that_was_measured_outweighs_a_certificate():
    judgement = make_judgement(certificate=CERTIFIED)
    comparison = compare(pairs_with((0.8, 0.801, 0.799, 0.8)), judgement)
    assert comparison.verdict == "worse"
    assert comparison.quality.certificate == CERTIFIED.statement


@pytest.mark.parametrize("certificate", [None, ROUNDED, impossible("it fell over")])
def test_steps_are_faster_but_quality_is_open_where_no_run_was_finished(certificate):
    judgement = make_judgement(certificate=certificate, projected=True)
    cut_short = with_fits(
        make_pairs(BASE, FAST), complete=False, metrics={},
        projected_seconds=lambda run: run.wall_seconds,
    )  # fmt: skip
    comparison = compare(cut_short, judgement)
    assert comparison.verdict == "quality open"
    assert comparison.statement == (
        "steps are faster; quality not established: 1.25x (95% interval 1.24 to 1.25, 4 pairs) "
        "(projected)"
    )
    assert comparison.quality.statement == (
        "quality not established by val_accuracy: no run trained to its end"
    )
    assert comparison.quality.certificate == (certificate and certificate.statement)
