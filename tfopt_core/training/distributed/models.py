"""Prepare a model for several replicas: its checks, its losses and its optimizers."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from tfopt_core.errors import WorkloadError
from tfopt_core.lazy import keras, tf
from tfopt_core.training.build import Built
from tfopt_core.training.model.layers import map_gradient, method_replaced, optimizers_of


def hide_strategy(model: Any) -> Callable[[], None]:
    """Hide the strategy from Keras, and have it trace all functions anew. Return what undoes it.

    Keras' own ways of building a model and of averaging logs fail over several processes, and over
    replicas XLA fails in the first step (keras#21366).
    """
    undo = functools.partial(setattr, model, "_distribute_strategy", model._distribute_strategy)
    model._distribute_strategy = None
    model.jit_compile = False
    model.train_function = model.test_function = model.predict_function = None
    return undo


def check_data(built: Built) -> None:
    """Check that every data set can be divided among replicas.

    :raises WorkloadError: for data that are no `tf.data.Dataset`.
    """
    for split, data in built.run.datasets.items():
        if not isinstance(data, tf.data.Dataset):
            raise WorkloadError(
                f"the {split} data are a {type(data).__name__}, which no strategy can share out "
                "among replicas; give a tf.data.Dataset or arrays"
            )


def check_losses(loss: Any) -> None:
    """Check that every loss can be taken over the parts of several replicas.

    :param loss: as `compile` took it.
    :raises WorkloadError: for a reduction that is neither a mean over the examples nor a sum.
    """
    for part in keras.tree.flatten(loss):
        reduction = getattr(part, "reduction", MEAN)
        if reduction not in ("mean", MEAN, "sum"):
            raise WorkloadError(
                f'a loss has the reduction "{reduction}", which cannot be taken over the parts of '
                f'several replicas; use "{MEAN}"'
            )


def build_model(built: Built) -> None:
    """Build the parts of the model, its metrics and its optimizer that are not built yet.

    This happens inside the strategy's scope and before any step, since variables cannot be made
    over replicas later.
    """
    with built.run.strategy.scope():
        built.model._symbolic_build(data_batch=_zeros_of(built.run.element_spec))


def _zeros_of(spec: Any) -> Any:
    """Return one example of zeros of this `tf.TypeSpec` structure, with None for an optional."""

    def zeros(part: Any) -> Any:
        if not isinstance(part, tf.TensorSpec):
            return None if isinstance(part, tf.OptionalSpec) else part
        return tf.zeros([size or 1 for size in part.shape], part.dtype)

    return tf.nest.map_structure(zeros, spec)


# What Keras calls the mean.
MEAN = "sum_over_batch_size"


class _Share(threading.local):
    """The share of a replica in the batch; each replica is traced in its own thread."""

    examples: Any = None
    weight: Any = None


@attrs.define(eq=False)
class SharedBatch:
    """Replaces functions of Keras' losses and of a model's optimizers during a training over
    several replicas, so that a step is that of the whole batch.

    Keras averages a replica's loss over the replica's own examples and adds the gradients of all
    replicas divided by their number. That is the gradient of the global batch only if all have
    equally many examples. Weighted by the replica's share of the examples, the sum is the gradient
    that one device computes, for an epoch's last batch too. Two kinds of loss are reduced
    differently here, so that the sum is the loss of the whole batch:

    - Under a mask Keras divides by the valid elements, of which a replica may hold more or fewer
      than its share. Here it divides by those of all replicas.
    - A loss that is a sum counts in full, whatever the replica's weight is.

    A loss that Keras does not reduce, since it is one number already, is refused.

    Keras clips gradients before it adds those of all replicas; here their sum is clipped, as on
    one device.

    Under float16 Keras lets each replica check its own gradients for overflow. If one replica
    alone skips the step, the others wait in an all-reduce for ever, so here they check together.

    :ivar sums_replicas: whether a loss so far needed a sum over all replicas.
    """

    model: Any
    sums_replicas: bool = False
    _replaced: contextlib.ExitStack = attrs.field(factory=contextlib.ExitStack)
    _share: _Share = attrs.field(factory=_Share)

    def install(self) -> None:
        """Replace the functions. They act as Keras' own outside of `of_replica`. Call it inside the
        strategy's scope.

        :raises WorkloadError: for an optimizer that accumulates gradients.
        """
        for optimizer in optimizers_of(self.model):
            inner = getattr(optimizer, "inner_optimizer", optimizer)
            if optimizer.gradient_accumulation_steps or inner.gradient_accumulation_steps:
                # TF 2.21: "merge_call called while defining a new graph"
                raise WorkloadError(
                    "gradients cannot be accumulated over several replicas; leave "
                    "gradient_accumulation_steps out, and raise the batch size instead"
                )
            self._replace(optimizer, "apply", self._applying)
            if hasattr(optimizer, "check_finite"):
                self._replace(optimizer, "check_finite", self._checking)
            if inner.clipnorm or inner.global_clipnorm or inner.clipvalue:
                self._replace(inner, "_clip_gradients", self._clipping)
        from keras.src.losses import loss as module

        for name, changed in (("apply_mask", self._masking), ("reduce_values", self._reducing)):
            original = getattr(module, name)
            setattr(module, name, changed(original))
            # (not by a context, which ends where a training that was only timed is thrown away:
            # another one may have replaced them by then)
            self._replaced.callback(setattr, module, name, original)

    def uninstall(self) -> None:
        """Restore the losses and the optimizers as Keras made them."""
        self._replaced.close()

    def _replace(self, owner: Any, name: str, changed: Callable[[Any], Any]) -> None:
        method = changed(getattr(owner, name))
        self._replaced.enter_context(method_replaced(owner, name, method))

    @contextlib.contextmanager
    def of_replica(self, examples: Any, weight: Any) -> Iterator[None]:
        """Compute within the context as on a part of the batch of all replicas.

        :param examples: how many this replica has; a row that stands in for none does not count.
        :param weight: the factor of this replica's gradients, None for 1.
        """
        self._share.examples, self._share.weight = examples, weight
        try:
            yield
        finally:
            self._share.examples = self._share.weight = None

    def _masking(self, apply_mask: Callable[..., Any]) -> Callable[..., Any]:
        def mask_applied(sample_weight: Any, mask: Any, dtype: Any, reduction: Any) -> Any:
            if self._share.examples is None or mask is None or reduction not in ("mean", MEAN):
                return apply_mask(sample_weight, mask, dtype, reduction)
            self.sums_replicas = True
            return apply_mask(sample_weight, mask, dtype, "sum") * self._mask_weight(mask, dtype)

        return mask_applied

    def _reducing(self, reduce_values: Callable[..., Any]) -> Callable[..., Any]:
        def reduced(values: Any, sample_weight: Any = None, reduction: Any = MEAN) -> Any:
            loss = reduce_values(values, sample_weight, reduction)
            if self._share.examples is None:
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

        return reduced

    def _mask_weight(self, mask: Any, dtype: Any) -> Any:
        """Return the elements of all replicas divided by the valid ones."""
        valid = tf.cast(mask, tf.float32)
        counts = tf.stack([tf.reduce_sum(tf.ones_like(valid)), tf.reduce_sum(valid)])
        counts *= tf.cast(self._share.examples > 0, tf.float32)
        # Other replicas are traced before `all_reduce` returns, and their layers' losses replace
        # these, of which Keras takes the sum later.
        added = [(layer, list(layer._losses)) for layer in self.model._flatten_layers()]
        elements, valid = tf.unstack(_sum_of_replicas(counts))
        for layer, losses in added:
            layer._losses[:] = losses
        return tf.cast(tf.math.divide_no_nan(elements, valid), dtype)

    def _applying(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def apply(grads: Any, trainable_variables: Any = None) -> Any:
            # an optimizer that wraps another one calls its `apply`
            weight, self._share.weight = self._share.weight, None
            if weight is not None:
                grads = [_weighted(gradient, weight) for gradient in grads]
            try:
                return original(grads, trainable_variables)
            finally:
                self._share.weight = weight

        return apply

    def _clipping(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def clipped(grads: Any) -> Any:
            there = [tf.convert_to_tensor(gradient) for gradient in grads if gradient is not None]
            summed = iter(_sum_of_replicas(there))
            whole = [None if gradient is None else next(summed) for gradient in grads]
            # Keras adds them up over the replicas once more
            replicas = tf.distribute.get_replica_context().num_replicas_in_sync
            return [None if g is None else g / replicas for g in original(whole)]

        return clipped

    def _checking(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def check_finite(grads: Any) -> Any:
            return _sum_of_replicas(1.0 - tf.cast(original(grads), tf.float32)) < 0.5

        return check_finite


def _sum_of_replicas(values: Any) -> Any:
    replica = tf.distribute.get_replica_context()
    return replica.all_reduce(tf.distribute.ReduceOp.SUM, values)


def _weighted(gradient: Any, weight: Any) -> Any:
    # the gradient of a row that stands in for none may be NaN, and must count as 0
    return map_gradient(
        lambda values: tf.math.multiply_no_nan(values, tf.cast(weight, values.dtype)), gradient
    )
