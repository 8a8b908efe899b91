"""Judge from a replay whether a stack trains the same: the equivalence certificate."""

from __future__ import annotations

import math as m
from collections.abc import Collection, Sequence
from typing import Literal

import attrs

from tfopt_core.hooks.plugin_class import Equivalence
from tfopt_core.training.messages import TrainingCounts
from tfopt_core.training.replay.data import ReadEpoch, Replayed

Kind = Literal["certified", "diverges", "impossible"]
# Rounding: float32 holds seven digits, and a hundred steps of training add up their errors. The
# exact plugins give 0 here, and one that only sums in another order 8e-7 of the loss but 8e-4 of a
# weight (docs/decisions/0016).
SAME = 1e-5
UNDECLARED = "not every plugin declares what it does to the training"
DRAWN_ANEW = (
    "the workload's data differ each time that they are built or read, with one seed too; seed "
    "what draws in them"
)


@attrs.frozen(kw_only=True)
class Certificate:
    """The result of replaying the same short training without and with the stack.

    :param kind: "certified": the same training. "diverges": another training, by the figures or by
        the data. "impossible": neither is known; the statement says why.
    :param other_examples: whether the stack trains on other examples than the baseline, or on more
        or fewer, so that whole trainings cannot be compared.
    """

    kind: Kind
    statement: str
    other_examples: bool = False

    @property
    def certified(self) -> bool:
        """Whether the training is the same, without any statistics of quality."""
        return self.kind == "certified"


def impossible(cause: str) -> Certificate:
    """Return the certificate of a replay that could not be made, or that shows nothing."""
    return Certificate(kind="impossible", statement=f"no certificate: {cause}")


def certify(equivalence: Equivalence, baseline: Replayed, stack: Replayed) -> Certificate:
    """Compare both sides of a replay and return the certificate.

    :param equivalence: what the stack as a whole declares to do to the training.
    :raises ValueError: for a stack that changes them, and so trains differently by intention.
    """
    if equivalence == "changes":
        raise ValueError("a stack that changes the algorithm is not replayed")
    loss, weight = _metric_difference(baseline, stack), stack.weight_difference
    declared, unlike = _declared(equivalence), unlike_counts(baseline.counts, stack.counts)

    def diverges(statement: str, *, other_examples: bool = False) -> Certificate:
        return Certificate(kind="diverges", statement=statement, other_examples=other_examples)

    difference = data_difference(equivalence, baseline.epochs, stack.epochs)
    if difference is not None and baseline.reproducible is False:
        return impossible(DRAWN_ANEW)
    if difference is not None:
        what, others = difference
        return diverges(f"{declared} {what}", other_examples=others)
    if equivalence == "rounding":  # after which callbacks may act otherwise
        return diverges(_rounds(loss, weight, stack.steps))
    if unlike is not None:
        what, before, after = unlike
        return diverges(f"{declared} {what}: {after} instead of {before}")
    if (stack.initial_difference or 0.0) > SAME:
        return diverges(f"{declared} it begins with other weights or random states")
    if max(loss or 0.0, weight or 0.0) > SAME:
        own = stack.own_difference
        if own is not None and own > SAME:
            cause = "a training with the stack does not repeat itself on this machine: weights"
            return impossible(f"{cause} differ by up to {_share(own)}")
        apart = f"{stack.steps} replayed steps diverge: {_apart(loss, weight, 'by up to')}"
        return diverges(f"{declared} {apart}")
    gap = _not_shown(baseline, stack)
    if gap is not None:
        return impossible(gap)
    same = "same training"
    if equivalence == "order":
        same = "same training up to the order of examples"
    replayed = f"{_steps(stack)} replayed, {_apart(loss, weight, 'differ by at most')}"
    scope = _scope(baseline, stack)
    scope += f"; {UNDECLARED}" if equivalence == "unknown" else ""
    return Certificate(kind="certified", statement=f"{same}, certified: {replayed}{scope}")


def _steps(side: Replayed) -> str:
    epochs = max((len(values) for values in side.history.values()), default=1)
    return f"{side.steps:,} steps of {epochs} epoch{'s' * (epochs > 1)}"


def _declared(equivalence: Equivalence) -> str:
    """Return the beginning of a statement of a difference."""
    if equivalence == "unknown":
        return f"{UNDECLARED}, and it is not the same:"
    return f"declared {equivalence}, but"


def _metric_difference(baseline: Replayed, stack: Replayed) -> float | None:
    """Return the largest relative difference of the metrics at the ends of epochs.

    A metric that the stack lacks, or has more or less often, differs without limit; one that it
    adds is not compared, and neither is one that does not repeat itself. None without any metric.
    """
    ours, theirs = baseline.history, stack.history
    names = [name for name in ours if name not in stack.unsteady]
    if any(len(ours[name]) != len(theirs.get(name, ())) for name in names):
        return m.inf
    examples = {*baseline.counts.examples, *baseline.counts.validation_examples}
    return max(
        (
            0.0 if _one_flips(name, abs(a - b), examples) else _relative(a, b)
            for name in names
            for a, b in zip(ours[name], theirs[name], strict=True)
        ),
        default=None,
    )


def without_unsteady(stack: Replayed, again: Replayed) -> Replayed:
    """Return the side with what differs when its training is repeated.

    :param again: that training; its `weight_difference` is the one to the first.
    """
    unsteady = tuple(
        name
        for name, values in stack.history.items()
        if (_metric_difference(attrs.evolve(stack, history={name: values}), again) or 0.0) > SAME
    )
    return attrs.evolve(stack, own_difference=again.weight_difference, unsteady=unsteady)


def _one_flips(name: str, difference: float, examples: Collection[int]) -> bool:
    """Return whether a share differs by a single example, which rounding may decide."""
    is_share = not name.endswith("loss")
    return is_share and any(m.isclose(difference * count, 1.0, rel_tol=0.01) for count in examples)


def _relative(a: float, b: float) -> float:
    if a == b or (m.isnan(a) and m.isnan(b)):
        return 0.0
    share = abs(a - b) / max(abs(a), abs(b))
    return m.inf if m.isnan(share) else share


def _rounds(loss: float | None, weight: float | None, steps: int) -> str:
    if loss is None:
        return f"the stack rounds differently: {steps} replayed steps report no loss to compare"
    if loss:
        how = f"the loss diverges by up to {_share(loss)}"
    elif weight:
        how = f"the loss stays the same, and the weights diverge by up to {_share(weight)}"
    else:
        return f"the stack may round differently, but {steps} replayed steps are identical"
    return f"the stack rounds differently: over {steps} replayed steps {how}"


def _apart(loss: float | None, weight: float | None, verb: str) -> str:
    """Return the differences in words: `losses differ by at most 6e-07, weights by at most
    2e-07`."""
    if not loss and not weight:
        return "losses and weights are identical" if loss is not None else "weights are identical"
    parts = [] if loss is None else [f"losses {verb} {_share(loss)}"]
    if weight is not None:
        parts.append(f"weights {verb.removeprefix('differ ')} {_share(weight)}")
    return ", ".join(parts)


def _share(difference: float) -> str:
    """Return a difference in words: `0.4%`, `6e-07`."""
    if not m.isfinite(difference):
        return "more than any number"
    return f"{100 * difference:.2g}%" if SAME < difference < 10 else f"{difference:.0e}"


def _not_shown(baseline: Replayed, stack: Replayed) -> str | None:
    """Return why equal losses and weights do not make a certificate."""
    if not stack.steps:
        return "no step was trained"
    if not all(m.isfinite(value) for values in stack.history.values() for value in values):
        return "a metric is not finite"
    if baseline.unread or stack.unread:
        return baseline.unread or stack.unread
    if stack.left_out:
        return f"a replay leaves out {', '.join(stack.left_out)}"
    if stack.weight_difference is None:
        return "the weights were not compared"
    return None


def _scope(baseline: Replayed, stack: Replayed) -> str:
    """Return which data were compared, in words."""
    words = "" if stack.cut_to is None else f"; epochs cut down to {stack.cut_to:,} batches"
    if baseline.epochs and stack.epochs:
        words += f"; {baseline.epochs[0].examples:,} examples an epoch compared"
    return words


def unlike_counts(
    ours: TrainingCounts, theirs: TrainingCounts, *, whole: bool = True
) -> tuple[str, str, str] | None:
    """Return a count that differs, and both values; None if all that are known are the same.

    :param whole: whether both fits have trained to their end; else the epochs that both have
        trained whole are compared.
    """
    optimizers = len(ours.updates), len(theirs.updates)
    if all(optimizers) and optimizers[0] != optimizers[1]:
        return "optimizers", str(optimizers[0]), str(optimizers[1])
    series = [
        ("updates of an epoch", *pair) for pair in zip(ours.updates, theirs.updates, strict=False)
    ]
    series += [
        ("examples of an epoch", ours.examples, theirs.examples),
        ("examples of a validation", ours.validation_examples, theirs.validation_examples),
    ]
    for what, before, after in series:
        if not before or not after:
            continue
        if whole and len(before) != len(after):
            return f"number of times that {what} were counted", str(len(before)), str(len(after))
        shown = min(len(before), len(after)) - (not whole)  # the last one may be cut
        for place in range(max(0, shown)):
            if before[place] != after[place]:
                return f"{what} (number {place + 1})", f"{before[place]:,}", f"{after[place]:,}"
    if not whole:
        return None
    for what, first, second in (
        ("calls for a batch", ours.batch_calls, theirs.batch_calls),
        ("indices of batches", ours.batch_indices, theirs.batch_indices),
        ("last learning rate", ours.learning_rate, theirs.learning_rate),
    ):
        if first is not None and second is not None and first != second:
            return what, _shown(first), _shown(second)
    return None


def _shown(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"


def data_difference(
    equivalence: Equivalence, baseline: Sequence[ReadEpoch], stack: Sequence[ReadEpoch]
) -> tuple[str, bool] | None:
    """Return how the stack's data differ from the baseline's, in words, and whether the examples
    do, and not only their order; None if no difference was read.

    :param equivalence: "exact" and "unknown" require the same batches in the same order; "order"
        and "rounding" allow another order of the same examples.
    """
    for number, (ours, theirs) in enumerate(zip(baseline, stack, strict=False), start=1):
        if ours.whole and theirs.whole:
            examples = _examples_differ(number, ours, theirs, stack[0])
            if examples is not None:
                return examples, True
        if equivalence in ("exact", "unknown"):
            order = _order_differs(number, ours, theirs, stack[0])
            if order is not None:
                return order, False
    return None


def _examples_differ(
    number: int, ours: ReadEpoch, theirs: ReadEpoch, first: ReadEpoch
) -> str | None:
    for what, before, after in (
        ("examples", ours.examples, theirs.examples),
        ("batches", ours.batches, theirs.batches),
    ):
        if before != after:
            return f"epoch {number} has {after:,} {what} instead of {before:,}"
    if ours.multiset == theirs.multiset:
        return None
    if number > 1 and theirs.multiset == first.multiset:
        return f"epoch {number} repeats the examples of epoch 1, which are drawn anew without it"
    return f"epoch {number} holds other examples"


def _order_differs(number: int, ours: ReadEpoch, theirs: ReadEpoch, first: ReadEpoch) -> str | None:
    both_whole = ours.whole and theirs.whole
    if both_whole and ours.order == theirs.order:
        return None
    if both_whole and number > 1 and theirs.order == first.order:
        return f"epoch {number} repeats the order of epoch 1, which is shuffled anew without it"
    place = "" if number == 1 else f" of epoch {number}"
    for index, (before, after) in enumerate(zip(ours.first, theirs.first, strict=False)):
        if before != after:
            return f"the batches{place} differ from batch {index} on"
    return f"the batches{place} differ after batch {len(ours.first) - 1}" if both_whole else None
