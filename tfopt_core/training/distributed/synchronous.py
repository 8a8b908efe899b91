"""Train and test functions over replicas that make each step together."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import attrs

from tfopt_core.data import DataPlan, Part
from tfopt_core.lazy import keras, tf
from tfopt_core.training.build import Built
from tfopt_core.training.distributed.models import SharedBatch
from tfopt_core.training.distributed.replicas import (
    average_own_values,
    examples_in,
    own_values,
    parts_of_a_batch,
    per_replica,
    untouched_if_empty,
    with_a_row,
)
from tfopt_core.training.loops.graph_steps import one_by_one, repeated, without_optionals
from tfopt_core.training.loops.report import LoopReport


@attrs.define(eq=False)
class ReplicatedFunction:
    """A train or test function: `steps` steps a call in one graph, each over all replicas.

    Every process must make the same calls: a step ends only when all replicas have made it. So
    the number of steps comes from the data's known cardinality, never from what is left in this
    process; where it is unknown each call makes one step.

    :param shared: what replaces functions of the model's losses and optimizers.
    :param evaluates: whether it is a test function.
    :ivar steps_per_epoch: None where the number of batches is unknown.
    :ivar batch_size: the global batch size, None if it is unknown: a worker may read data that
        tfopt has not divided. Then any batch may hold another number of examples.
    :ivar uneven_last: whether the last batch of an epoch may hold fewer examples.
    """

    built: Built
    shared: SharedBatch
    evaluates: bool = False
    report: LoopReport = attrs.field(factory=lambda: LoopReport(kind="distributed"))
    strategy: Any = attrs.field(init=False)
    model: Any = attrs.field(init=False)
    steps: int = attrs.field(init=False)
    steps_per_epoch: int | None = attrs.field(init=False)
    batch_size: int | None = attrs.field(init=False)
    uneven_last: bool = attrs.field(init=False)
    _step: Callable[[Any], Any] = attrs.field(init=False)
    _own_logs: bool = attrs.field(init=False)
    _functions: dict[bool, Any] = attrs.field(factory=dict)
    _evaluation: Any = None
    _iterator: Any = None
    _done: int = 0

    def __attrs_post_init__(self) -> None:
        run, model = self.built.run, self.built.model
        self.strategy, self.model = run.strategy, model
        split, name = ("validation", "test_step") if self.evaluates else ("train", "train_step")
        plan, dataset = self.built.plans.get(split), run.datasets.get(split)
        cardinality = -1 if dataset is None else int(dataset.cardinality())
        self.steps_per_epoch = cardinality if cardinality >= 0 else None
        steps = 1 if cardinality < 0 else self.built.training.steps_per_execution
        # Keras makes as many steps a call in an evaluation as in the training
        self.steps = model.steps_per_execution if self.evaluates else steps
        stages = () if plan is None else plan.stages
        divided = run.cluster is None or any(isinstance(stage, Part) for stage in stages)
        self.batch_size = plan.batch_size if plan is not None and divided else None
        self.uneven_last = plan is None or not fills_last_batch(plan)
        self._step = getattr(model, name)
        self._own_logs = getattr(type(model), name) is not getattr(keras.Model, name)
        self.report.steps_per_call = self.steps

    def __call__(self, iterator: Any) -> Any:
        """Make the next steps and return the logs of the last one.

        :raises StopIteration: if the epoch has no further step.
        """
        self.report.last_call = 0
        if not isinstance(iterator, tf.data.Iterator | tf.distribute.DistributedIterator):
            return self._given(iterator)
        if iterator is not self._iterator:  # Keras makes a new one each epoch
            self._iterator, self._done = iterator, 0
        if self.evaluates:
            return self._evaluate(iterator)
        if self.steps_per_epoch is None:
            return self._one(iterator)
        left = self.steps_per_epoch - self._done
        if left <= 0:
            raise StopIteration
        count = min(self.steps, left)
        apart = self.uneven_last and count == left
        logs = None
        if count > apart:
            any_size = self.batch_size is None
            logs = self._function(any_size)(iterator, tf.constant(count - apart))
        if apart:
            logs = self._function(True)(iterator, tf.constant(1))
        if count == left:
            average_own_values(self.strategy, self.model)
        self._done += count
        self.report.count(count, 0)
        return logs

    def _evaluate(self, iterator: Any) -> Any:
        """Make the next steps of an evaluation, until the data end, and return their logs.

        Its replicas do not wait for each other: results are summed when the evaluation has ended.
        So the data may have any length, and a callback may evaluate others.
        """
        if self._sums_losses:
            return self._evaluate_singly(iterator)
        if self._evaluation is None:
            self._evaluation = tf.function(
                self._while_there, autograph=False, reduce_retracing=True
            )
        made, logs = self._evaluation(iterator)
        if not int(made):
            raise StopIteration
        return logs

    def _evaluate_singly(self, iterator: Any) -> Any:
        """Make the same steps, each in a call of its own.

        TensorFlow 2.21 does not sum over replicas within the `tf.cond` of `one_by_one`.
        """
        logs = None
        with contextlib.suppress(tf.errors.OutOfRangeError):
            for _ in range(self.steps):
                logs = self._function(True)(iterator, tf.constant(1))
        if logs is None:
            raise StopIteration
        return logs

    @property
    def _sums_losses(self) -> bool:
        """Return whether the losses of a step are summed over the replicas.

        In an evaluation only where a loss needs it, and only in one process: the replicas of
        several do not wait for each other there, and masked losses are reduced over a replica's own
        part of a batch.
        """
        alone = self.built.run.cluster is None
        return not self.evaluates or (alone and self.shared.sums_replicas)

    def _while_there(self, iterator: Any) -> Any:
        made, logs = one_by_one(iterator, self._traced(True), self.steps)
        return made, self._of_all_replicas(logs)

    def _traced(self, uneven: bool) -> Any:
        """Return the graph of one step."""
        return tf.function(
            lambda batch: self._over_replicas(batch, uneven), autograph=False, reduce_retracing=True
        )

    def _one(self, iterator: Any) -> Any:
        try:
            logs = self._function(True)(iterator, tf.constant(1))
        except tf.errors.OutOfRangeError as error:
            average_own_values(self.strategy, self.model)
            raise StopIteration from error
        self.report.count(1, 0)
        return logs

    def _given(self, batches: Any) -> Any:
        """Make a step on the batch of the generator that `train_on_batch` or `test_on_batch`
        passes."""
        data = tf.nest.map_structure(
            lambda part: None if part is None else tf.convert_to_tensor(part), next(batches)
        )
        logs = self._function(True)(iter(tf.data.Dataset.from_tensors(data)), tf.constant(1))
        self.report.count(1, 0)
        return logs

    def _function(self, uneven: bool) -> Any:
        """Return the graph of many steps, for batches of any size or only of the known size."""
        if uneven not in self._functions:

            def steps(iterator: Any, count: Any) -> Any:
                step, spec = self._traced(uneven), iterator.element_spec
                logs = repeated(step, lambda _: iterator.get_next(), spec, count, compiled=False)
                return self._of_all_replicas(logs)

            self._functions[uneven] = tf.function(steps, autograph=False, reduce_retracing=True)
        return self._functions[uneven]

    def _of_all_replicas(self, logs: Any) -> Any:
        """Return the logs, with metrics computed over all replicas as Keras reads them."""
        if not isinstance(logs, tuple):
            return logs
        logs, are_metrics = logs
        with self.strategy.scope():
            metrics = self.model.get_metrics_result()
        # a log of the step may have the name of a metric without being that metric
        return {
            name: tf.where(are_metrics[name], tf.cast(metrics[name], log.dtype), log)
            if name in are_metrics
            else log
            for name, log in logs.items()
        }

    def _with_metrics_marked(self, logs: Any) -> Any:
        """Return the logs of the user's own step, with the results of metrics among them marked."""
        if not self._own_logs or not isinstance(logs, dict):
            return logs
        results = self.model.get_metrics_result()
        return logs, {
            name: tf.reduce_all(tf.equal(tf.cast(results[name], log.dtype), log))
            for name, log in logs.items()
            if name in results and log.shape.rank == 0
        }

    def _over_replicas(self, batch: Any, uneven: bool) -> Any:
        def of_replica(data: Any) -> Any:
            data = without_optionals(data)
            examples = examples_in(data)
            weight = self._weight(examples, uneven) if self._sums_losses else None
            with contextlib.ExitStack() as stack:
                if uneven:  # only then a replica may have no example
                    own = [*self.model.metrics_variables, *own_values(self.model)]
                    stack.enter_context(untouched_if_empty(own, data))
                    data = with_a_row(data)
                if self._sums_losses:
                    stack.enter_context(self.shared.of_replica(examples, weight))
                return self._with_metrics_marked(self._step(data))

        cluster, own = self.built.run.cluster, parts_of_a_batch(self.strategy)
        first = 0 if cluster is None else cluster.rank * own
        batch = per_replica(self.strategy, batch, own, first)
        logs = self.strategy.run(of_replica, args=(batch,))
        if not isinstance(logs, tuple):
            return tf.nest.map_structure(self._reduced, logs)
        logs, are_metrics = logs
        return (
            tf.nest.map_structure(self._reduced, logs),
            tf.nest.map_structure(self._of_first_replica, are_metrics),
        )

    def _weight(self, examples: Any, uneven: bool) -> Any:
        """Return the factor of this replica's gradients: its examples divided by an equal share.

        None where every replica has an equal share.
        """
        replicas = self.strategy.num_replicas_in_sync
        if replicas == 1:
            return None
        even = self.batch_size is not None and self.batch_size % replicas == 0
        if even and not uneven:
            return None
        own = tf.cast(examples, tf.float32)
        if self.batch_size is not None and not uneven:
            return own * replicas / self.batch_size
        replica = tf.distribute.get_replica_context()
        return own * replicas / replica.all_reduce(tf.distribute.ReduceOp.SUM, own)

    def _reduced(self, log: Any) -> Any:
        # metrics Keras itself reads over all replicas when an epoch ends
        if self._own_logs:
            return self.strategy.reduce(tf.distribute.ReduceOp.MEAN, log, axis=None)
        return self._of_first_replica(log)

    def _of_first_replica(self, log: Any) -> Any:
        return self.strategy.experimental_local_results(log)[0]


def fills_last_batch(plan: DataPlan) -> bool:
    """Return whether every batch surely holds the same number of examples."""
    size, count = plan.batch_size, plan.examples
    if plan.batching is not None and plan.batching[1].drop_remainder:
        return True
    return size is not None and count is not None and count % size == 0
