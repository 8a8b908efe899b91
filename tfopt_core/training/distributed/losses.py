"""Reduce a model's losses over the batch of all replicas, as one device does."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import attrs

from tfopt_core.errors import WorkloadError


@attrs.define(eq=False)
class SharedLosses:
    """Replaces functions of Keras' losses during a training over several replicas.

    Keras divides the loss of each replica by the replica's own examples, and the gradients of all
    replicas are added, weighted by their examples (see `SharedOptimizers`). Two kinds of loss are
    reduced differently here, so that the sum is the loss of the whole batch:

    - Under a mask Keras divides by the valid elements, of which a replica may hold more or fewer
      than its share. Here it divides by those of all replicas.
    - A loss that is a sum counts in full, whatever the replica's weight is.

    A loss that Keras does not reduce, since it is one number already, is refused.

    :ivar sums_replicas: whether a loss so far needed a sum over all replicas.
    """

    model: Any
    sums_replicas: bool = False
    _originals: dict[str, Any] = attrs.field(factory=dict)
    _share: threading.local = attrs.field(factory=threading.local)

    def install(self) -> None:
        """Replace the functions. They act as Keras' own outside of `of_replica`."""
        from keras.src.losses import loss as module

        apply_mask, reduce_values = module.apply_mask, module.reduce_values
        self._originals = {"apply_mask": apply_mask, "reduce_values": reduce_values}

        def mask_applied(sample_weight: Any, mask: Any, dtype: Any, reduction: Any) -> Any:
            if self._examples is None or mask is None or reduction not in ("mean", MEAN):
                return apply_mask(sample_weight, mask, dtype, reduction)
            self.sums_replicas = True
            return apply_mask(sample_weight, mask, dtype, "sum") * self._mask_weight(mask, dtype)

        def reduced(values: Any, sample_weight: Any = None, reduction: Any = MEAN) -> Any:
            import keras

            loss = reduce_values(values, sample_weight, reduction)
            if self._examples is None:
                return loss
            if tuple(values.shape) == ():
                raise WorkloadError(
                    "a loss returns one number for a whole batch, and how the numbers of several "
                    "replicas make that of the batch is unknown; return a number for each example"
                )
            if reduction != "sum":
                return loss
            self.sums_replicas, weight = True, self._share.weight
            return loss if weight is None else keras.ops.divide_no_nan(loss, weight)

        module.apply_mask, module.reduce_values = mask_applied, reduced

    def uninstall(self) -> None:
        """Restore the functions of Keras."""
        from keras.src.losses import loss as module

        for name, function in self._originals.items():
            setattr(module, name, function)

    @contextlib.contextmanager
    def of_replica(self, examples: Any, weight: Any) -> Iterator[None]:
        """Reduce the losses within the context as a part of the batch of all replicas.

        :param examples: how many this replica has; a row that stands in for none does not count.
        :param weight: the factor of this replica's gradients, None for 1.
        """
        self._share.examples, self._share.weight = examples, weight
        try:
            yield
        finally:
            self._share.examples = None

    @property
    def _examples(self) -> Any:
        return getattr(self._share, "examples", None)

    def _mask_weight(self, mask: Any, dtype: Any) -> Any:
        """Return the elements of all replicas divided by the valid ones."""
        import tensorflow as tf

        valid = tf.cast(mask, tf.float32)
        counts = tf.stack([tf.reduce_sum(tf.ones_like(valid)), tf.reduce_sum(valid)])
        counts *= tf.cast(self._examples > 0, tf.float32)
        # Other replicas are traced before `all_reduce` returns, and their layers' losses replace
        # these, of which Keras takes the sum later.
        added = [(layer, list(layer._losses)) for layer in self.model._flatten_layers()]
        replica = tf.distribute.get_replica_context()
        elements, valid = tf.unstack(replica.all_reduce(tf.distribute.ReduceOp.SUM, counts))
        for layer, losses in added:
            layer._losses[:] = losses
        return tf.cast(tf.math.divide_no_nan(elements, valid), dtype)


# What Keras calls the mean.
MEAN = "sum_over_batch_size"
