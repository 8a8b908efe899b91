"""Core's implementations of the hooks for a workload: with an empty stack, the baseline."""

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
    """What the defaults of all trainings have in common: types, and no strategy of their own."""

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
        """The strategy in effect: a script's own, else TensorFlow's, which distributes nothing."""
        import tensorflow as tf

        return tf.distribute.get_strategy()


@attrs.frozen(eq=False)
class WorkloadDefaults(KerasDefaults):
    """What a workload trains when no plugin has a say.

    :param batch_size: the global batch size.
    :param explicit_batch_size: whether the recipe itself asks for it.
    """

    workload: Workload
    batch_size: int
    explicit_batch_size: bool

    @hookimpl
    def build_dataset(self, run: RunContext, split: Literal["train", "validation"]) -> DataPlan:
        """The workload's data, shuffled and batched."""
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
        """The workload's model.

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
        """What the workload gives to `compile`, and Keras' own defaults for the rest."""
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
    """An optimizer or metric whose variables belong to the scope that is active now.

    Functions that make one are called. An instance was built where the factory ran, outside
    the strategy's scope, so it is built anew from its configuration.
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
