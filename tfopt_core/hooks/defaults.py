"""The values that the first plugin of a stack receives, and that the baseline trains with."""

from __future__ import annotations

from typing import Any, ClassVar

from tfopt_core.hooks.values import PrecisionPolicy, RuntimeOptions, TrainingOptions


class Defaults:
    """The defaults that need no workload, enough to configure a runtime in the parent.

    `training` adds those that need one. `types` holds the return type of each value hook; a tuple
    means any of its types, and a hook without an entry is not checked.
    """

    types: ClassVar[dict[str, type[Any]]] = {
        "configure_runtime": RuntimeOptions,
        "configure_precision": PrecisionPolicy,
        "configure_training": TrainingOptions,
    }

    def configure_runtime(self, machine: Any, recipe: Any) -> RuntimeOptions:
        """Return options that leave everything to TensorFlow."""
        return RuntimeOptions()

    def configure_precision(self, run: Any) -> PrecisionPolicy:
        """Return the policy float32."""
        return PrecisionPolicy()

    def expected(self, hook: str) -> type[Any] | None:
        """Return the type that implementations of the hook must return, None for any."""
        return self.types.get(hook)

    def default_strategy(self, run: Any) -> Any:
        """Return the strategy of a stack in which no plugin owns it."""
        raise NotImplementedError

    def build_dataset(self, run: Any, split: Any) -> Any:
        """Return the `DataPlan` of a split."""
        raise NotImplementedError

    def wrap_model(self, run: Any) -> Any:
        """Return the `keras.Model`, not compiled."""
        raise NotImplementedError

    def configure_training(self, run: Any, model: Any) -> TrainingOptions:
        """Return the arguments of `compile` and `fit`."""
        raise NotImplementedError
