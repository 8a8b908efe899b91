"""What replaces Keras' data and train function when a model trains on several replicas."""

from __future__ import annotations

import contextlib
from typing import Any

import attrs

from tfopt_core.errors import WorkloadError
from tfopt_core.lazy import tf
from tfopt_core.private_api import why_without
from tfopt_core.training.build import Built
from tfopt_core.training.distributed.coordinated import Coordinated
from tfopt_core.training.distributed.models import (
    SharedBatch,
    build_model,
    check_data,
    check_losses,
    hide_strategy,
)
from tfopt_core.training.distributed.replicas import parts_of_a_batch, with_parts
from tfopt_core.training.distributed.synchronous import ReplicatedFunction
from tfopt_core.training.input.sources import with_class_weight
from tfopt_core.training.loops.train_functions import over_replicas
from tfopt_core.training.strategy import feeds_itself

# More steps than anybody makes.
ENDLESS = 2**62


def distribution_of(built: Built) -> Synchronous | Coordinated | None:
    """Return how tfopt distributes this training; None for one device, and for a script that has a
    strategy of its own, over whose replicas Keras distributes it.

    :raises WorkloadError: for data that no strategy can share out, or if a private member of
        TensorFlow or Keras that it needs is missing.
    """
    strategy = built.run.strategy
    coordinated = isinstance(strategy, tf.distribute.experimental.ParameterServerStrategy)
    synchronous = isinstance(
        strategy,
        tf.distribute.MirroredStrategy
        | tf.distribute.MultiWorkerMirroredStrategy
        | tf.distribute.TPUStrategy,
    )
    if not (coordinated or synchronous) or built.workload.own_strategy is not None:
        return None
    missing = why_without("replicas")
    if missing:
        raise WorkloadError(missing)
    return Coordinated(built) if coordinated else Synchronous(built)


@attrs.define(eq=False)
class Synchronous:
    """A training whose replicas make each step together, each on its part of the batch."""

    built: Built
    _shared: SharedBatch = attrs.field(
        default=attrs.Factory(lambda self: SharedBatch(self.built.model), takes_self=True)
    )
    _undo: contextlib.ExitStack = attrs.field(factory=contextlib.ExitStack)

    def install(self) -> None:
        model = self.built.model
        check_data(self.built)
        build_model(self.built)
        check_losses(model.loss)
        self._undo.callback(hide_strategy(model))
        self._undo.callback(self._shared.uninstall)
        with self.built.run.strategy.scope():
            self._shared.install()
        model.make_test_function = self._make_test_function

    def uninstall(self) -> None:
        model = self.built.model
        self._undo.close()
        vars(model).pop("make_test_function", None)
        model.test_function = model.predict_function = None

    def data(self, split: str, *, endless: bool = False) -> Any:
        """Return the data set of a split, divided among the replicas of this process.

        :param endless: whether to repeat it without end.
        """
        dataset = self.built.run.datasets.get(split)
        if dataset is None:
            return None
        dataset = dataset.repeat() if endless else dataset
        run = self.built.run
        if split == "train" and self.built.workload.class_weight is not None:
            dataset = with_class_weight(dataset, self.built.workload.class_weight)
        if not feeds_itself(run.strategy):
            return run.strategy.experimental_distribute_dataset(dataset)
        return with_parts(dataset, parts_of_a_batch(run.strategy))

    def train_function(self) -> ReplicatedFunction:
        function = ReplicatedFunction(self.built, self._shared)
        if self.built.training.loop != "keras":
            function.report.why_not = over_replicas(self.built.run.replicas)
        return function

    def endless_function(self, steps: int) -> ReplicatedFunction:
        """Return a train function over endless data, to time a loop with `steps` steps a call."""
        function = ReplicatedFunction(self.built, self._shared)
        function.steps, function.steps_per_epoch, function.uneven_last = steps, ENDLESS, False
        return function

    def _make_test_function(self, force: bool = False) -> Any:
        model = self.built.model
        if model.test_function is None or force:
            model.test_function = ReplicatedFunction(self.built, self._shared, evaluates=True)
        return model.test_function
