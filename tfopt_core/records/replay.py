"""The record of one side of a replay: digests of its data, losses, weights. No TensorFlow."""

from __future__ import annotations

import attrs

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

    :param epochs: the training data of the first epochs; empty for a stack that leaves a PyDataset
        to Keras. `unread` says why they could not be compared whole, None if they can.
    :param shortened_to: how many elements of its source each epoch was cut down to, None for all.
    :param reproducible: whether the data, built anew under the same seed, were the same again;
        None if not checked.
    :param steps: how many steps were replayed.
    :param reported: after how many steps the loop reported losses.
    :param losses: by name, the running means at those steps.
    :param weight_difference: against the other side, see `training.weights`; None on the first
        side.
    :param own_difference: of this side's weights to those of the same training repeated; None if
        there was no difference to explain.
    :param left_out: the parts of a training that are not replayed, in words.
    """

    epochs: tuple[ReadEpoch, ...]
    unread: str | None = None
    shortened_to: int | None = None
    reproducible: bool | None = None
    steps: int
    reported: tuple[int, ...]
    losses: dict[str, tuple[float, ...]]
    weight_difference: float | None = None
    own_difference: float | None = None
    left_out: tuple[str, ...] = ()
