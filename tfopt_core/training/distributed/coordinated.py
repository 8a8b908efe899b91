"""Train with parameter servers: a chief schedules steps on workers, which run asynchronously.

Asynchronous training with parameter servers (Dean et al. 2012), over TensorFlow's
ClusterCoordinator. Keras' `fit` runs on the chief and counts steps; the workers compute them on
variables that the parameter servers hold.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

import attrs

from tfopt_core.data import DataPlan, Opaque, Shuffle
from tfopt_core.data.lower import lower_plan
from tfopt_core.data.stages import UNKNOWN_COUNT_BUFFER
from tfopt_core.errors import ClusterError, WorkloadError
from tfopt_core.lazy import tf
from tfopt_core.training.build import Built
from tfopt_core.training.distributed.models import build_model, check_data, hide_strategy
from tfopt_core.training.distributed.serving import loss_in_words, who_is_gone
from tfopt_core.training.input.sources import with_class_weight
from tfopt_core.training.loops.report import LoopReport
from tfopt_core.training.model.layers import method_replaced, optimizers_of

# Each closure is sent over the network and awaited: 8 steps in one halved the time of a step.
STEPS_PER_CLOSURE = 8
# How often to check whether all closures are done: at first often, since a call may be short.
SHORT_SECONDS, LONG_SECONDS, SPIN_SECONDS = 0.0002, 0.005, 0.1
# How often to check that all processes answer, and how often one may fail to before it is gone.
LOOK_SECONDS, GONE_AFTER = 2.0, 3


@attrs.define(eq=False)
class Coordinated:
    """The chief of a training with parameter servers, and its train function: a call hands out
    `steps` steps, and waits until all are made.

    :ivar steps_per_closure: how many steps a worker makes at a time.
    """

    built: Built
    report: LoopReport = attrs.field(factory=lambda: LoopReport(kind="distributed"))
    steps: int = attrs.field(init=False)
    steps_per_closure: int = STEPS_PER_CLOSURE
    _coordinator: Any = None
    _data: Any = None
    _iterators: Any = None
    _function: Any = None
    _undo: contextlib.ExitStack = attrs.field(factory=contextlib.ExitStack)

    def install(self) -> None:
        model, run = self.built.model, self.built.run
        check_data(self.built)
        if run.steps_per_epoch is None:
            raise WorkloadError(
                "the number of batches in an epoch is unknown, and a chief must know it to "
                "schedule steps; end the training data with take()"
            )
        build_model(self.built)
        self._undo.callback(hide_strategy(model))
        # Counters add on the parameter server itself: Keras reads, adds and writes, so of two
        # workers that do so at once one increment is lost (72 iterations counted of 96).
        counters = [optimizer.iterations for optimizer in optimizers_of(model)]
        for variable in (*model.metrics_variables, *counters):
            self._undo.enter_context(method_replaced(variable, "assign_add", _adding(variable)))
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(run.strategy)

    def uninstall(self) -> None:
        self._undo.close()

    def data(self, split: str) -> Any:
        """Return what `fit` iterates over: for training a range, since workers read the data."""
        if split == "train":
            return tf.data.Dataset.range(self.built.run.steps_per_epoch)
        return self.built.run.datasets.get(split)

    def train_function(self) -> Coordinated:
        """Return the train function, with the step to be traced anew."""
        strategy, steps = self.built.run.strategy, self.built.training.steps_per_execution
        closure = int(getattr(strategy, "tfopt_steps_per_closure", STEPS_PER_CLOSURE))
        self.steps_per_closure = closure
        self.steps = steps if steps > 1 else closure * strategy._num_workers
        self.report.steps_per_call = self.steps
        self._data = self._coordinator.create_per_worker_dataset(
            tf.autograph.experimental.do_not_convert(self._dataset)
        )
        self._iterators, self._function = None, tf.function(self._closure, autograph=False)
        return self

    def __call__(self, iterator: Any) -> Any:
        """Make the next steps of the epoch and return the logs of the last one.

        :raises StopIteration: if the epoch has no further step.
        """
        self.report.last_call = 0
        count = sum(1 for _ in zip(range(self.steps), iterator, strict=False))
        if not count:
            raise StopIteration
        if self._iterators is None:
            self._iterators = iter(self._data)
        handed = []
        for first in range(0, count, self.steps_per_closure):
            size = min(self.steps_per_closure, count - first)
            handed.append(self._coordinator.schedule(self._function, args=(self._iterators, size)))
        self._join()
        self.report.count(count, 0)
        return handed[-1].fetch()

    def _join(self) -> None:
        """Wait until all steps are made.

        :raises ClusterError: naming the processes that are gone. TensorFlow waits an hour for each.
        """
        begin, missed = time.monotonic(), 0
        looked = begin
        while not self._coordinator.done():
            now = time.monotonic()
            time.sleep(SHORT_SECONDS if now - begin < SPIN_SECONDS else LONG_SECONDS)
            if now - looked < LOOK_SECONDS:
                continue
            looked = now
            gone = who_is_gone(self.built.run.cluster)
            missed = missed + 1 if gone else 0
            if missed >= GONE_AFTER:
                raise ClusterError(loss_in_words(gone))
        self._coordinator.join()

    def _closure(self, iterator: Any, count: int) -> Any:
        """Make `count` steps on one worker and return the logs of the last one."""
        logs, strategy, model = None, self.built.run.strategy, self.built.model
        for _ in range(count):
            logs = strategy.run(model.train_step, args=(next(iterator),))
        return logs

    def _dataset(self) -> Any:
        """Return one worker's data, repeated without end. Traced on the chief, run on the
        workers."""
        plan = with_known_buffers(self.built.plans["train"])
        count = plan.source.count
        if count:
            stage = Opaque(function=lambda data: _from_anywhere(data, count), deterministic=False)
            plan = plan.insert(1, stage)
        data = lower_plan(DataPlan(plan.stages))
        if self.built.workload.class_weight is not None:
            data = with_class_weight(data, self.built.workload.class_weight)
        return data.repeat()


def with_known_buffers(plan: DataPlan) -> DataPlan:
    """Return the plan with the size of every shuffle's buffer, which a graph cannot count."""
    for index, stage in enumerate(plan.stages):
        if isinstance(stage, Shuffle) and stage.buffer_size is None:
            size = plan.upto(index).cardinality or UNKNOWN_COUNT_BUFFER
            plan = plan.replace(index, attrs.evolve(stage, buffer_size=size))
    return plan


def _adding(variable: Any) -> Any:
    def assign_add(value: Any) -> Any:
        inner = variable._value
        return inner.assign_add(tf.cast(value, inner.dtype))

    return assign_add


def _from_anywhere(data: Any, count: int) -> Any:
    """Return the same elements, starting at a random one. All workers have the same seeds, and
    would read the same examples in the same order."""
    # with seeds of 0 each worker draws another number, whatever the global seed is
    start = tf.raw_ops.RandomUniformInt(
        shape=tf.zeros([0], tf.int32),
        minval=tf.constant(0, tf.int64),
        maxval=tf.constant(count, tf.int64),
        seed=0,
        seed2=0,
    )
    return data.skip(start).concatenate(data.take(start))
