"""Core's own implementations, registered before every plugin: the baseline is these alone."""

from __future__ import annotations

from typing import Any, ClassVar

from tfopt_core.hooks.markers import hookimpl
from tfopt_core.hooks.values import PrecisionPolicy, RuntimeOptions, TrainingOptions


class Defaults:
    """The defaults that need no workload, enough to configure a runtime in the parent.

    `training` extends them with those that do. `types` says what each value hook must return;
    a tuple means any of them, and a hook that is missing there is not checked.
    """

    types: ClassVar[dict[str, type[Any]]] = {
        "configure_runtime": RuntimeOptions,
        "configure_precision": PrecisionPolicy,
        "configure_training": TrainingOptions,
    }

    @hookimpl
    def configure_runtime(self) -> RuntimeOptions:
        """TensorFlow's own choices."""
        return RuntimeOptions()

    @hookimpl
    def configure_precision(self) -> PrecisionPolicy:
        """float32 everywhere."""
        return PrecisionPolicy()

    def expected(self, hook: str) -> type[Any] | None:
        """The type that implementations of the hook must return, None if any will do."""
        return self.types.get(hook)

    def default_strategy(self, run: Any) -> Any:
        """What `build_strategy` yields in a stack without an owner."""
        raise NotImplementedError
