"""Core's implementations of the hooks for a workload; an empty stack trains the baseline."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from tfopt_core.data import DataPlan
from tfopt_core.errors import WorkloadError, describe
from tfopt_core.hooks import RunContext, TrainingOptions, hookimpl
from tfopt_core.hooks.defaults import Defaults
from tfopt_core.training.sources import as_plan, batched_plan
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
    """The hooks' default results for a workload.

    :param batch_size: the global batch size.
    :param explicit_batch_size: whether the recipe itself sets it.
    """

    workload: Workload
    batch_size: int
    explicit_batch_size: bool

    @hookimpl
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

    @hookimpl
    def wrap_model(self) -> Any:
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
                f"build_model returned a {type(model).__name__}; return a keras.Model"
            )
        return model

    @hookimpl
    def configure_training(self) -> TrainingOptions:
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
    where the factory ran, so it is built again from its configuration.
    """
    import keras

    if isinstance(part, keras.optimizers.Optimizer | keras.metrics.Metric):
        return type(part).from_config(part.get_config())
    if isinstance(part, type) and issubclass(
        part, keras.optimizers.Optimizer | keras.metrics.Metric
    ):
        return part()
    # a plain function may be a metric function itself: it takes y_true and y_pred
    if callable(part) and _takes_nothing(part):
        return part()
    return part


def _takes_nothing(function: Any) -> bool:
    import inspect

    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return all(p.default is not p.empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
               for p in parameters)  # fmt: skip
