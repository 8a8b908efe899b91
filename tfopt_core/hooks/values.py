"""What hooks pass along: frozen values without TensorFlow in them until a plugin puts it there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
from attrs import field, validators

from tfopt_core.hooks.cluster import ClusterOptions

# The loops that a stack may ask for. Over several replicas the strategy itself brings a fourth,
# "distributed", which no setting chooses.
LOOP_MODES = ("keras", "chunked", "resident")
JIT_COMPILE: tuple[Any, ...] = (True, False, "auto")


def _optional_at_least(low: int) -> Any:
    return validators.optional(validators.and_(validators.instance_of(int), validators.ge(low)))


@attrs.frozen(kw_only=True)
class RuntimeOptions:
    """What is set before TensorFlow starts; the variant's process is started with it.

    `environment` adds to or replaces variables of the process; a value of None removes one.
    Thread counts and `logical_cpu_devices` of None leave TensorFlow's own choice.
    `strategy_first` has the strategy built before TensorFlow opens its devices and before the
    workload is loaded, as strategies over several processes and TPUs need it; the dry build then
    leaves it out. `cluster` says that it spans several processes, and implies `strategy_first`.
    """

    environment: Mapping[str, str | None] = field(factory=dict)
    intra_op_threads: int | None = field(default=None, validator=_optional_at_least(1))
    inter_op_threads: int | None = field(default=None, validator=_optional_at_least(1))
    gpu_memory_growth: bool | None = None
    gpu_memory_limit_bytes: int | None = field(default=None, validator=_optional_at_least(1))
    logical_cpu_devices: int | None = field(default=None, validator=_optional_at_least(1))
    xla_flags: tuple[str, ...] = field(default=(), converter=tuple)
    grappler_options: Mapping[str, bool] = field(factory=dict)
    strategy_first: bool = False
    cluster: ClusterOptions | None = None

    @property
    def builds_strategy_first(self) -> bool:
        """Whether the strategy comes before the devices and the workload."""
        return self.strategy_first or self.cluster is not None


@attrs.frozen(kw_only=True)
class PrecisionPolicy:
    """The Keras dtype policy of a fit.

    `float32_layers` are names of layers (shell patterns allowed) that stay in float32;
    `float32_outputs` keeps the layers that produce the model's outputs there too.
    `loss_scale` is "dynamic", a fixed factor, or None; it matters for float16 only.
    """

    policy: str = "float32"
    float32_layers: tuple[str, ...] = field(default=(), converter=tuple)
    float32_outputs: bool = True
    loss_scale: str | float | None = None


@attrs.frozen(kw_only=True)
class TrainingOptions:
    """What `compile` and `fit` are called with.

    `optimizer`, `loss` and `metrics` are what Keras' `compile` takes. `schedule` is a
    `keras.optimizers.schedules.LearningRateSchedule` that replaces the optimizer's learning rate.
    `jit_compile` is True, False or "auto" (Keras' own choice). `wrap_train_step` receives the
    model's `train_step` and returns the one to trace. `callbacks` are Keras callbacks.
    `loop` is Keras' own, "chunked" (`steps_per_execution` steps a call in one graph, over the
    batches of a chunk) or "resident" (likewise, gathered from a `Resident` stage of the training
    data's plan); with `jit_compile` True these two are compiled by XLA whole.
    """

    optimizer: Any
    loss: Any = None
    metrics: tuple[Any, ...] = field(default=(), converter=tuple)
    weighted_metrics: tuple[Any, ...] = field(default=(), converter=tuple)
    loss_weights: Any = None
    schedule: Any = None
    jit_compile: bool | str = field(default="auto", validator=validators.in_(JIT_COMPILE))
    loop: str = field(default="keras", validator=validators.in_(LOOP_MODES))
    steps_per_execution: int = field(
        default=1, validator=[validators.instance_of(int), validators.ge(1)]
    )
    gradient_accumulation_steps: int | None = field(default=None, validator=_optional_at_least(2))
    wrap_train_step: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None
    callbacks: tuple[Any, ...] = field(default=(), converter=tuple)


@attrs.frozen
class Effect:
    """Whether a plugin took effect in a run, and what was read back, or why it did not."""

    applied: bool
    detail: str

    @classmethod
    def applied_as(cls, detail: str) -> Effect:
        """The plugin took effect; `detail` is what was read back."""
        return cls(True, detail)

    @classmethod
    def not_applied(cls, reason: str) -> Effect:
        """The plugin did not take effect, and `reason` says why."""
        return cls(False, reason)


@attrs.define
class Control:
    """What `on_epoch_end` may ask of the training; core acts after every plugin was called."""

    stop_reason: str | None = None

    def stop(self, reason: str) -> None:
        """End the training after this epoch; the first reason given is kept."""
        if self.stop_reason is None:
            self.stop_reason = reason
