"""The record of one side of a replay. No TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import attrs

from tfopt_core.records.run import TrainingCounts

# What of a training is replayed: the training as it is measured; one on the first batches of the
# side without plugins, with the data of both compared; or these data alone.
ReplayPart = Literal["training", "fixed batches", "data"]
# Rounding: float32 holds seven digits, and a hundred steps of training add up their errors. The
# exact plugins give 0 here, and one that only sums in another order 8e-7 of the loss but 8e-4 of a
# weight (docs/decisions/0016).
SAME = 1e-5


@attrs.frozen(kw_only=True)
class ReadEpoch:
    """One epoch of training data, as digests.

    :param examples: how many there were, `batches` likewise.
    :param multiset: of all examples, whatever their order.
    :param order: of all batches in order, their sizes too.
    :param first: of each of the first batches, in order.
    :param whole: whether the epoch was read to its end; if not, the rest holds for what was read.
    """

    examples: int
    batches: int
    multiset: str
    order: str
    first: tuple[str, ...]
    whole: bool


@attrs.frozen(kw_only=True)
class Replayed:
    """One side's short training.

    :param steps: how many steps were replayed.
    :param history: the metrics at the ends of its epochs, by name.
    :param counts: what was done.
    :param weight_difference: of the final state to the other side's, see `training.replay.state`;
        None on the first side.
    :param initial_difference: of the variables that the model would begin with, likewise.
    :param own_difference: of this side's final state to that of the same training repeated; None if
        there was no difference to explain.
    :param unsteady: the metrics that were others when the training was repeated.
    :param epochs: the training data of the first epochs, where they were compared; empty for a
        stack that leaves a PyDataset to Keras. `unread` says why they could not be compared whole,
        None if they can.
    :param reproducible: whether the data, built anew under the same seed, were the same again;
        None if not checked.
    :param cut_to: to how many batches an epoch was cut down; None if it was not.
    :param left_out: the parts of a training that are not replayed, in words.
    """

    steps: int
    history: Mapping[str, tuple[float, ...]]
    counts: TrainingCounts = TrainingCounts()
    weight_difference: float | None = None
    initial_difference: float | None = None
    own_difference: float | None = None
    unsteady: tuple[str, ...] = ()
    epochs: tuple[ReadEpoch, ...] = ()
    unread: str | None = None
    reproducible: bool | None = None
    cut_to: int | None = None
    left_out: tuple[str, ...] = ()
