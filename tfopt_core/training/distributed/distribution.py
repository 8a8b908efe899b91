"""What replaces Keras' data and train function when a model trains on several replicas."""

from __future__ import annotations

from typing import Any, Protocol

import attrs

from tfopt_core.data import DataPlan, Part
from tfopt_core.errors import WorkloadError
from tfopt_core.private_api import why_without
from tfopt_core.training.build import Built
from tfopt_core.training.distributed.coordinated import Coordinated
from tfopt_core.training.distributed.losses import SharedLosses
from tfopt_core.training.distributed.models import (
    build_model,
    check_data,
    check_losses,
    with_class_weight,
)
from tfopt_core.training.distributed.optimizers import SharedOptimizers
from tfopt_core.training.distributed.replicas import with_parts
from tfopt_core.training.distributed.synchronous import ReplicatedFunction
from tfopt_core.training.loops.report import LoopReport, continued
from tfopt_core.training.loops.train_functions import over_replicas
from tfopt_core.training.strategy import feeds_itself, kind_of

# More steps than anybody makes.
ENDLESS = 2**62


class SharedFunction(Protocol):
    """A train function of a known number of steps a call."""

    steps: int
    report: LoopReport

    def __call__(self, iterator: Any) -> Any: ...


class Distribution(Protocol):
    """How a training over several replicas differs from one on a single device."""

    def install(self) -> None:
        """Hide the strategy from Keras, so that its `fit` drives a local training."""

    def uninstall(self) -> None:
        """Restore the model as Keras made it."""

    def data(self, split: str) -> Any:
        """Return what `fit` iterates over."""

    def train_function(self) -> SharedFunction:
        """Return a new train function, not traced yet, which counts its steps in `report`."""


def distribution_of(built: Built) -> Distribution | None:
    """Return how this training is distributed; None for one device.

    :raises WorkloadError: for data that no strategy can share out, or if a private member of
        TensorFlow or Keras that it needs is missing.
    """
    kind = kind_of(built.run.strategy)
    if kind == "single":
        return None
    missing = why_without("replicas")
    if missing:
        raise WorkloadError(missing)
    if kind == "coordinated":
        return Coordinated(built)
    return Synchronous(built)


@attrs.define(eq=False)
class Synchronous:
    """A training whose replicas make each step together, each on its part of the batch.

    The strategy is hidden from Keras, whose own ways of building a model and of averaging logs
    fail over several processes.
    """

    built: Built
    _optimizers: SharedOptimizers = attrs.field(init=False)
    _losses: SharedLosses = attrs.field(init=False)
    _own: dict[str, Any] = attrs.field(factory=dict)

    @_optimizers.default
    def _make_optimizers(self) -> SharedOptimizers:
        return SharedOptimizers(self.built.model)

    @_losses.default
    def _make_losses(self) -> SharedLosses:
        return SharedLosses(self.built.model)

    def install(self) -> None:
        model, run = self.built.model, self.built.run
        check_data(self.built)
        build_model(self.built)
        check_losses(model.loss)
        self._own = {"_distribute_strategy": model._distribute_strategy}
        model._distribute_strategy = None
        model.jit_compile = False  # over replicas XLA fails in the first step (keras#21366)
        model.train_function = model.test_function = model.predict_function = None
        with run.strategy.scope():
            self._optimizers.install()
        self._losses.install()
        model.make_test_function = self._make_test_function

    def uninstall(self) -> None:
        model = self.built.model
        self._optimizers.uninstall()
        self._losses.uninstall()
        for name, value in self._own.items():
            setattr(model, name, value)
        if "make_test_function" in vars(model):
            del model.make_test_function
        model.test_function = model.predict_function = None

    def data(self, split: str, *, endless: bool = False) -> Any:
        """Return the data set of a split, divided among the replicas of this process.

        :param endless: whether to repeat it without end.
        """
        dataset = self.built.run.datasets.get(split)
        if dataset is None:
            return None
        return self._shared_out(dataset.repeat() if endless else dataset, split)

    def _shared_out(self, dataset: Any, split: str) -> Any:
        run = self.built.run
        if split == "train" and self.built.workload.class_weight is not None:
            dataset = with_class_weight(dataset, self.built.workload.class_weight)
        if not feeds_itself(run.strategy):
            return run.strategy.experimental_distribute_dataset(dataset)
        return with_parts(dataset, len(run.strategy.extended.worker_devices))

    def train_function(self) -> ReplicatedFunction:
        function = self._function("train", self.built.model.train_step)
        function.optimizers = self._optimizers
        function.report = continued(self.built.model, function.report)
        if self.built.training.loop != "keras":
            function.report.why_not = over_replicas(self.built.run.replicas)
        return function

    def train_on(self, dataset: Any) -> Any:
        """Make `fit` train on another data set than the run's. Return what `fit` iterates over.

        :param dataset: batches of any size, of a known number.
        """
        function = self.train_function()
        function.steps_per_epoch, function.batch_size = int(dataset.cardinality()), None
        function.uneven_last, function.every_uneven = True, True
        self.built.model.steps_per_execution = function.steps
        self.built.model.train_function = function
        return self._shared_out(dataset, "train")

    def endless_function(self, steps: int) -> ReplicatedFunction:
        """Return a train function over endless data, to time a loop with `steps` steps a call."""
        function = self._function("train", self.built.model.train_step)
        function.optimizers = self._optimizers
        function.steps, function.steps_per_epoch, function.uneven_last = steps, ENDLESS, False
        return function

    def _make_test_function(self, force: bool = False) -> Any:
        model = self.built.model
        if model.test_function is None or force:
            model.test_function = self._function("validation", model.test_step)
        return model.test_function

    def _global_batch_size(self, plan: DataPlan | None) -> int | None:
        """Return the global batch size. None if it is unknown: a worker may read data that tfopt
        has not divided."""
        if plan is None:
            return None
        shared = any(isinstance(stage, Part) for stage in plan.stages)
        return plan.batch_size if shared or self.built.run.cluster is None else None

    def _function(self, split: str, step: Any) -> ReplicatedFunction:
        built = self.built
        plan = built.plans.get(split)
        dataset = built.run.datasets.get(split)
        cardinality = -1 if dataset is None else int(dataset.cardinality())
        steps, strategy = built.training.steps_per_execution, built.run.strategy
        own = len(strategy.extended.worker_devices) if feeds_itself(strategy) else 1
        cluster, evaluates = built.run.cluster, split == "validation"
        return ReplicatedFunction(
            strategy=strategy,
            model=built.model,
            evaluates=evaluates,
            local_replicas=own,
            first_replica=0 if cluster is None else cluster.rank * own,
            step=step,
            # Keras makes as many steps a call in an evaluation as in the training
            steps=built.model.steps_per_execution if evaluates else 1 if cardinality < 0 else steps,
            steps_per_epoch=cardinality if cardinality >= 0 else None,
            batch_size=self._global_batch_size(plan),
            losses=self._losses,
            # replicas of several processes do not wait for each other in an evaluation
            together=not evaluates or cluster is None,
            uneven_last=plan is None or not fills_last_batch(plan),
            every_uneven=self._global_batch_size(plan) is None,
            reduces_logs=_own_logs(built.model, split),
        )


def fills_last_batch(plan: DataPlan) -> bool:
    """Return whether every batch surely holds the same number of examples."""
    size, count = plan.batch_size, plan.examples
    if plan.batching is not None and plan.batching[1].drop_remainder:
        return True
    return size is not None and count is not None and count % size == 0


def _own_logs(model: Any, split: str) -> bool:
    """Return whether the model's step may return other logs than its metrics."""
    import keras

    name = "train_step" if split == "train" else "test_step"
    return getattr(type(model), name) is not getattr(keras.Model, name)
