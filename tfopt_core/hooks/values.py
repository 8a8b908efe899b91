"""What hooks are given and return, and what each changed. No TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs
from attrs import field, validators

from tfopt_core.hooks.context import ClusterOptions

TrainStep = Callable[..., Any]

# The loops that a stack can choose. With several replicas the strategy implies a fourth,
# "distributed".
LOOP_MODES = ("keras", "chunked", "resident")
JIT_COMPILE: tuple[Any, ...] = (True, False, "auto")
PRECISION_SCOPES = ("global", "layers")


def _optional_at_least(low: int) -> Any:
    return validators.optional(validators.and_(validators.instance_of(int), validators.ge(low)))


def _texts(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(values)  # mypy knows no element type of a bare `tuple` as a converter


@attrs.frozen(kw_only=True)
class RuntimeOptions:
    """Options that are set before TensorFlow starts, in the variant's process.

    `environment` adds to or replaces variables of the process; a value of None removes one.
    Thread counts and `logical_cpu_devices` of None leave TensorFlow's own choice.
    With `strategy_first` the strategy is built before TensorFlow opens its devices and before the
    workload is loaded, as strategies over several processes and TPUs require; the dry build then
    leaves it out. `cluster` is set if it spans several processes, and implies `strategy_first`.
    """

    environment: Mapping[str, str | None] = field(factory=dict)
    intra_op_threads: int | None = field(default=None, validator=_optional_at_least(1))
    inter_op_threads: int | None = field(default=None, validator=_optional_at_least(1))
    gpu_memory_growth: bool | None = None
    gpu_memory_limit_bytes: int | None = field(default=None, validator=_optional_at_least(1))
    logical_cpu_devices: int | None = field(default=None, validator=_optional_at_least(1))
    xla_flags: tuple[str, ...] = field(default=(), converter=_texts)
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

    With the scope "global" it is in effect from before the model is built, as
    `keras.config.set_dtype_policy` is; with "layers" the model is built in float32, and the policy
    is then set on each of its layers that was given no dtype.
    `float32_layers` are names of layers and `float32_types` names of their classes (shell patterns
    allowed) that stay in float32, with the layers within them; `float32_outputs` keeps the layers
    that produce the model's outputs there too.
    `loss_scale` is "dynamic", a fixed factor, or None; it matters for float16 only.
    """

    policy: str = "float32"
    scope: str = field(default="global", validator=validators.in_(PRECISION_SCOPES))
    float32_layers: tuple[str, ...] = field(default=(), converter=_texts)
    float32_types: tuple[str, ...] = field(default=(), converter=_texts)
    float32_outputs: bool = True
    loss_scale: str | float | None = None


@attrs.frozen(kw_only=True)
class TrainingOptions:
    """The arguments of `compile` and `fit`.

    `optimizer`, `loss` and `metrics` are what Keras' `compile` takes. `schedule` is a
    `keras.optimizers.schedules.LearningRateSchedule` that replaces the optimizer's learning rate.
    `jit_compile` is True, False or "auto" (Keras' own choice). `wrap_train_step` receives the
    model's `train_step` and returns the one to trace, and `wrap_test_step` its `test_step`.
    `callbacks` are Keras callbacks.
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
    wrap_train_step: Callable[[TrainStep], TrainStep] | None = None
    wrap_test_step: Callable[[TrainStep], TrainStep] | None = None
    callbacks: tuple[Any, ...] = field(default=(), converter=tuple)

    def with_wrapped_step(self, wrap: Callable[[TrainStep], TrainStep]) -> TrainingOptions:
        """Return the options that wrap the train step in this too, around what wraps it already."""
        return attrs.evolve(self, wrap_train_step=_around(self.wrap_train_step, wrap))

    def with_wrapped_test_step(self, wrap: Callable[[TrainStep], TrainStep]) -> TrainingOptions:
        """Return the options that wrap the step of a validation in this too, likewise."""
        return attrs.evolve(self, wrap_test_step=_around(self.wrap_test_step, wrap))


def _around(
    inner: Callable[[TrainStep], TrainStep] | None, wrap: Callable[[TrainStep], TrainStep]
) -> Callable[[TrainStep], TrainStep]:
    return wrap if inner is None else lambda step: wrap(inner(step))


@attrs.frozen
class FoundTable:
    """A table that an observer found: rows of as many texts as there are columns."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@attrs.frozen
class Effect:
    """Whether a plugin took effect in a run, with what was read back, or the reason.

    `tables` are printed below, those of an observer.
    """

    applied: bool
    detail: str
    tables: tuple[FoundTable, ...] = ()

    @classmethod
    def applied_as(cls, detail: str, *tables: FoundTable) -> Effect:
        """Return that the plugin took effect; `detail` is what was read back."""
        return cls(True, detail, tables)

    @classmethod
    def not_applied(cls, reason: str) -> Effect:
        """Return that the plugin did not take effect, with the reason."""
        return cls(False, reason)


@attrs.define
class Control:
    """The requests that `on_epoch_end` can make; core acts after every plugin was called."""

    stop_reason: str | None = None

    def stop(self, reason: str) -> None:
        """End the training after this epoch; the first reason is kept."""
        if self.stop_reason is None:
            self.stop_reason = reason


@attrs.frozen(eq=False)
class Change:
    """The value before and after one plugin's implementation of one hook.

    `split` is "train" or "validation" for `build_dataset`, else None.
    """

    plugin: str
    hook: str
    before: Any
    after: Any
    split: str | None = None

    @property
    def changed(self) -> bool:
        """Whether the hook returned a different value.

        A model that was changed in place is the same object: only `report_effect` can confirm
        such a change.
        """
        return self.after is not self.before and bool(self.describe())

    def describe(self) -> tuple[str, ...]:
        """Return the differences as text, such as `steps_per_execution: 1 -> 16`."""
        if self.after is self.before:
            return ()
        if hasattr(self.after, "describe_change"):  # as a `DataPlan` has it
            return tuple(self.after.describe_change(self.before))
        if not attrs.has(type(self.after)) or type(self.after) is not type(self.before):
            return (f"{_word(self.before)} -> {_word(self.after)}",)
        names = (attribute.name for attribute in attrs.fields(type(self.after)))
        pairs = ((name, getattr(self.before, name), getattr(self.after, name)) for name in names)
        return tuple(
            f"{name}: {_word(old)} -> {_word(new)}"
            for name, old, new in pairs if old is not new and old != new
        )  # fmt: skip


def _word(value: Any) -> str:
    """Return a value as text; objects by their class, never by their address."""
    if value is None or isinstance(value, bool | int | float | str):
        return str(value)
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_word(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_word(item)}" for key, item in value.items()) + "}"
    name: str = getattr(value, "__name__", None) or type(value).__name__
    own = _own_settings(value) if hasattr(value, "learning_rate") else ""
    return f"{name}({own})" if own else name


def _own_settings(optimizer: Any) -> str:
    """Return the settings of an optimizer that are not those of its class; empty if unknown."""
    try:
        usual = {**type(optimizer)().get_config(), "name": optimizer.name}
    except Exception:  # a class of the user's own, which asks for arguments
        return ""
    own = {key: one for key, one in optimizer.get_config().items() if one != usual.get(key)}
    return ", ".join(f"{key}={_setting(one)}" for key, one in own.items())


def _setting(value: Any) -> str:
    """Return a value of a Keras configuration as text: its numbers are float32, its objects tables
    with the name of their class."""
    if isinstance(value, dict) and "class_name" in value:
        return str(value["class_name"])
    return f"{value:.6g}" if isinstance(value, float) else _word(value)
