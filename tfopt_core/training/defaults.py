"""The values of a workload that no plugin changes: the baseline trains with them."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any, Literal

import attrs

from tfopt_core.data import DataPlan
from tfopt_core.errors import WorkloadError, describe
from tfopt_core.hooks import RunContext, TrainingOptions
from tfopt_core.hooks.values import Defaults
from tfopt_core.training.input.sources import as_plan, batched_plan
from tfopt_core.training.workload import Workload


class KerasDefaults(Defaults):
    """The defaults that all trainings share: return types, and the strategy in effect."""

    def expected(self, hook: str) -> type[Any] | None:
        if hook == "build_dataset":
            return DataPlan
        if hook == "build_strategy":
            import tensorflow as tf

            return tf.distribute.Strategy  # type: ignore[no-any-return]
        if hook == "wrap_model":
            import keras

            return keras.Model  # type: ignore[no-any-return]
        return super().expected(hook)

    def default_strategy(self, run: RunContext) -> Any:
        """Return the strategy in effect: a script's own, else TensorFlow's default strategy."""
        import tensorflow as tf

        return tf.distribute.get_strategy()


@attrs.frozen(eq=False)
class WorkloadDefaults(KerasDefaults):
    """The values of a workload.

    :param batch_size: the global batch size.
    :param explicit_batch_size: whether the recipe itself sets it.
    """

    workload: Workload
    batch_size: int
    explicit_batch_size: bool

    def build_dataset(self, run: RunContext, split: Literal["train", "validation"]) -> DataPlan:
        """Return the workload's data, shuffled and batched."""
        data = self.workload.train if split == "train" else self.workload.validation
        return batched_plan(
            as_plan(data, split),
            split,
            batch_size=self.batch_size,
            explicit=self.explicit_batch_size,
            shuffle=self.workload.shuffle,
            seed=run.seed,
        )

    def wrap_model(self, run: RunContext) -> Any:
        """Return the workload's model.

        :raises WorkloadError: if building it raises or returns something else.
        """
        import keras

        try:
            model = self.workload.build_model()
        except Exception as error:
            raise WorkloadError(f"build_model {describe(error)}") from error
        if not isinstance(model, keras.Model):
            raise WorkloadError(
                f"build_model returned type {type(model).__name__}; return a keras.Model"
            )
        return model

    def configure_training(self, run: RunContext, model: Any) -> TrainingOptions:
        """Return the workload's arguments of `compile`, with Keras' defaults for the rest."""
        workload = self.workload
        return TrainingOptions(
            optimizer=rebuilt(workload.optimizer),
            loss=workload.loss,
            metrics=[rebuilt(metric) for metric in workload.metrics],
            weighted_metrics=[rebuilt(metric) for metric in workload.weighted_metrics],
            loss_weights=workload.loss_weights,
            callbacks=workload.callbacks(),
        )


def rebuilt(part: Any) -> Any:
    """Return the optimizer or metric with its variables in the scope that is active now.

    A function that makes one is called. An instance was built outside of the strategy's scope,
    where the factory ran, so it is built again from its configuration. Of a list, the metrics of
    one output, each is.
    """
    import keras

    if isinstance(part, list | tuple):
        return [rebuilt(one) for one in part]
    if isinstance(part, keras.optimizers.Optimizer | keras.metrics.Metric):
        return type(part).from_config(part.get_config())
    made = made_by(part) if callable(part) else None
    return part if made is None else made


def made_by(function: Any) -> Any:
    """Return the optimizer or metric that a function or class makes when it is called without
    arguments; None for a metric function, which takes y_true and y_pred, maybe with defaults."""
    import keras

    try:
        signature = inspect.signature(function)
        signature.bind()
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(None, None)
    except TypeError:  # too few arguments for a metric function
        return function()
    with contextlib.suppress(Exception):  # a metric function may fail without its arguments
        made = function()
        if isinstance(made, str | keras.optimizers.Optimizer | keras.metrics.Metric):
            return made
    return None
