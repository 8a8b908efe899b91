"""Core's own implementations, registered before every plugin. The baseline uses these alone."""

from __future__ import annotations

from typing import Any, ClassVar

from tfopt_core.hooks.markers import hookimpl
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

    @hookimpl
    def configure_runtime(self) -> RuntimeOptions:
        """Return options that leave everything to TensorFlow."""
        return RuntimeOptions()

    @hookimpl
    def configure_precision(self) -> PrecisionPolicy:
        """Return the policy float32."""
        return PrecisionPolicy()

    def expected(self, hook: str) -> type[Any] | None:
        """Return the type that implementations of the hook must return, None for any."""
        return self.types.get(hook)

    def default_strategy(self, run: Any) -> Any:
        """Return the strategy of a stack in which no plugin owns it."""
        raise NotImplementedError
