"""Adapt optimizers to several replicas: weights of gradients, clipping, overflow checks."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import attrs

from tfopt_core.errors import WorkloadError
from tfopt_core.training.layers import optimizers_of


@attrs.define(eq=False)
class SharedOptimizers:
    """Replaces methods of a model's optimizers during a training over several replicas.

    Keras averages a replica's loss over the replica's own examples and adds the gradients of all
    replicas divided by their number. That is the gradient of the global batch only if all have
    equally many examples. Weighted by the replica's share of the examples, the sum is the gradient
    that one device computes, for an epoch's last batch too.

    Keras clips gradients before it adds those of all replicas; here their sum is clipped, as on
    one device.

    Under float16 Keras lets each replica check its own gradients for overflow. If one replica
    alone skips the step, the others wait in an all-reduce for ever, so here they check together.
    """

    model: Any
    _mended: list[tuple[Any, str]] = attrs.field(factory=list)
    _weight: threading.local = attrs.field(factory=threading.local)

    def install(self) -> None:
        """Replace the methods of every optimizer. Call it inside the strategy's scope."""
        for optimizer in optimizers_of(self.model):
            check_optimizer(optimizer)
            self._mend_apply(optimizer)
            if hasattr(optimizer, "check_finite"):
                self._mend_check(optimizer)
            self._mend_clipping(getattr(optimizer, "inner_optimizer", optimizer))

    def uninstall(self) -> None:
        """Restore the optimizers as Keras made them."""
        for optimizer, name in self._mended:
            delattr(optimizer, name)
        self._mended.clear()

    @contextlib.contextmanager
    def weighing(self, weight: Any) -> Iterator[None]:
        """Multiply the gradients that this replica applies within the context; None leaves them.

        Each replica is traced in its own thread, so each has its own weight.
        """
        self._weight.value = weight
        try:
            yield
        finally:
            self._weight.value = None

    def _mend_apply(self, optimizer: Any) -> None:
        original = optimizer.apply

        def apply(grads: Any, trainable_variables: Any = None) -> Any:
            weight = getattr(self._weight, "value", None)
            if weight is not None:
                grads = [_weighted(gradient, weight) for gradient in grads]
                # an optimizer that wraps another one calls its `apply`
                with self.weighing(None):
                    return original(grads, trainable_variables)
            return original(grads, trainable_variables)

        optimizer.apply = apply
        self._mended.append((optimizer, "apply"))

    def _mend_clipping(self, optimizer: Any) -> None:
        if not _clips(optimizer):
            return
        original = optimizer._clip_gradients

        def clipped(grads: Any) -> Any:
            import tensorflow as tf

            replica = tf.distribute.get_replica_context()
            there = [tf.convert_to_tensor(gradient) for gradient in grads if gradient is not None]
            summed = iter(replica.all_reduce(tf.distribute.ReduceOp.SUM, there))
            whole = [None if gradient is None else next(summed) for gradient in grads]
            # Keras adds them up over the replicas once more
            replicas = replica.num_replicas_in_sync
            return [None if g is None else g / replicas for g in original(whole)]

        optimizer._clip_gradients = clipped
        self._mended.append((optimizer, "_clip_gradients"))

    def _mend_check(self, optimizer: Any) -> None:
        original = optimizer.check_finite

        def check_finite(grads: Any) -> Any:
            import tensorflow as tf

            overflows = 1.0 - tf.cast(original(grads), tf.float32)
            replica = tf.distribute.get_replica_context()
            return replica.all_reduce(tf.distribute.ReduceOp.SUM, overflows) < 0.5

        optimizer.check_finite = check_finite
        self._mended.append((optimizer, "check_finite"))


def check_optimizer(optimizer: Any) -> None:
    """Check that an optimizer works over replicas.

    :raises WorkloadError: for one that accumulates gradients.
    """
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    if optimizer.gradient_accumulation_steps or inner.gradient_accumulation_steps:
        # TF 2.21: "merge_call called while defining a new graph"
        raise WorkloadError(
            "gradients cannot be accumulated over several replicas; leave "
            "gradient_accumulation_steps out, and raise the batch size instead"
        )


def _clips(optimizer: Any) -> bool:
    return bool(optimizer.clipnorm or optimizer.global_clipnorm or optimizer.clipvalue)


def _weighted(gradient: Any, weight: Any) -> Any:
    import tensorflow as tf

    if gradient is None:
        return None
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(
            tf.math.multiply_no_nan(gradient.values, tf.cast(weight, gradient.dtype)),
            gradient.indices,
            gradient.dense_shape,
        )
    # the gradient of a row that stands in for none may be NaN, and must count as 0
    return tf.math.multiply_no_nan(gradient, tf.cast(weight, gradient.dtype))
