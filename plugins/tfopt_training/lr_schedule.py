"""Learning-rate schedules, planned over the whole training."""

from __future__ import annotations

import functools
import warnings
from typing import Any, Literal

import attrs
from attrs import validators

from tfopt_core.plugins import (
    Effect,
    Plugin,
    PluginRefused,
    RunContext,
    TrainingOptions,
    hookimpl,
    plugin,
    setting,
)
from tfopt_core.toolkit import keras, why_without


def own_rate(optimizer: Any) -> float:
    """The constant learning rate of what `compile` takes as an optimizer; nothing is changed.

    :param optimizer: a name, a function that returns an optimizer, or an optimizer.
    :raises PluginRefused: if it has a schedule of its own.
    """
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        optimizer = optimizer() if callable(optimizer) else keras.optimizers.get(optimizer)
    name = schedule_name(optimizer)
    if name is not None:
        raise PluginRefused(
            f"the workload's optimizer has a schedule of its own ({name}); set peak to replace it"
        )
    # not float(optimizer.learning_rate), which fails for a variable with replicas
    return float(inner(optimizer).get_config()["learning_rate"])


def schedule_name(optimizer: Any) -> str | None:
    """The class of the optimizer's learning-rate schedule, None for a constant rate."""
    rate = inner(optimizer).get_config()["learning_rate"]
    return None if isinstance(rate, float | int) else str(rate["class_name"])


def inner(optimizer: Any) -> Any:
    """The optimizer without the loss scaling around it."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def with_fixed_rate(model: Any) -> Any:
    """Give the model's optimizer its present learning rate as a number, all else kept.

    Keras lets nobody set the rate of an optimizer that was made with a schedule, so it is made
    anew and its slots are copied.
    """
    if schedule_name(model.optimizer) is None:
        return model
    old = inner(model.optimizer)
    rate = float(old.learning_rate)
    new = type(old).from_config({**old.get_config(), "learning_rate": rate})
    new.build(model.trainable_variables)
    kept = [variable for variable in new.variables if variable is not new.learning_rate]
    for variable, value in zip(kept, old.variables, strict=True):
        variable.assign(value)
    if isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer):
        model.optimizer.inner_optimizer = new
    else:
        model.optimizer = new
    # what is saved as the model's compile options names the optimizer a second time
    missing = why_without("optimizer-replaced")
    if missing:
        warnings.warn(f"tfopt: {missing}", stacklevel=2)
    elif model._compile_config.config["optimizer"] is old:
        model._compile_config.config["optimizer"] = new
    model.train_function = None  # a traced one would go on with the old optimizer
    return model


def warm_up(schedule: Any, peak: float, steps: int) -> Any:
    """Rise linearly from 0 to `peak` over `steps` steps, then follow `schedule` from its start."""
    return _schedule_class()(schedule, peak, steps)


@functools.cache
def _schedule_class() -> Any:
    class WarmUp(keras.optimizers.schedules.LearningRateSchedule):  # type: ignore[misc]
        """A linear rise from 0 to `peak`, then the schedule."""

        # not registered with Keras: `LrSchedule.unwrap` takes it out before saving

        def __init__(self, schedule: Any, peak: float, steps: int) -> None:
            self.schedule, self.peak, self.steps = schedule, peak, steps

        def __call__(self, step: Any) -> Any:
            ops = keras.ops
            step = ops.cast(step, "float32")
            rising = self.peak * step / self.steps
            later = self.schedule(ops.maximum(step - self.steps, 0.0))
            return ops.where(step < self.steps, rising, later)

        def get_config(self) -> dict[str, Any]:
            return {"schedule": self.schedule, "peak": self.peak, "steps": self.steps}

    return WarmUp


def planned_steps(
    steps_per_epoch: int | None, epochs: int, warmup_epochs: float
) -> tuple[int, int]:
    """Steps of the warm-up, and of the decay after it.

    :raises PluginRefused: if the steps of an epoch are unknown, or the warm-up takes them all.
    """
    if steps_per_epoch is None:
        raise PluginRefused(
            "the steps of an epoch are unknown, so a schedule cannot be planned; give the data a "
            "known number of examples (tf.data.experimental.assert_cardinality)"
        )
    total, rising = steps_per_epoch * epochs, round(steps_per_epoch * warmup_epochs)
    if rising >= total:
        raise PluginRefused(
            f"a warm-up of {warmup_epochs:g} epochs leaves nothing of {epochs}; lower warmup_epochs"
        )
    return rising, total - rising


@plugin
class LrSchedule(Plugin):
    """Lowers the learning rate over the training, after a warm-up if asked.

    What it does: replaces the optimizer's constant learning rate by a schedule over all planned
    steps: cosine decay, cosine decay with warm restarts, or constant; each with a linear warm-up.

    Why it helps: large steps at first and small ones at the end reach a target in fewer epochs.

    When it does not: for short trainings that are still far from converging; and the plan does not
    fit if the training is stopped early.

    Mixes with: l2, mixed-precision. Callbacks that set the learning rate themselves are refused.
    Checkpoints that a callback writes during a training with warm-up and restarts need tfopt.

    Reference: Loshchilov and Hutter, SGDR, https://arxiv.org/abs/1608.03983
    """

    targets = ("convergence",)
    equivalence = "changes"  # other steps are taken

    schedule: Literal["cosine", "cosine-restarts", "constant"] = setting(
        default="cosine", help="The course of the learning rate after the warm-up."
    )
    peak: float | None = setting(
        default=None,
        validator=validators.optional(validators.gt(0)),
        help="The highest learning rate; left out, the optimizer's own.",
        search={"low": 1e-4, "high": 1e-1, "log": True},
    )
    warmup_epochs: float = setting(
        default=0.0,
        validator=validators.ge(0),
        help="Epochs, or parts of one, in which the rate rises from 0 to its peak.",
    )
    first_restart_epochs: float | None = setting(
        default=None,
        validator=validators.optional(validators.gt(0)),
        help="Epochs from the end of the warm-up to the first restart.",
    )
    restart_multiplier: float | None = setting(
        default=None,
        validator=validators.optional(validators.ge(1)),
        help="How many times longer each restart's period is; left out, 2.",
    )
    final_fraction: float | None = setting(
        default=None,
        validator=validators.optional([validators.ge(0), validators.le(1)]),
        help="The lowest rate as a fraction of the peak, 0 to 1; left out, 0.",
    )

    def __attrs_post_init__(self) -> None:
        restarts = self.schedule == "cosine-restarts"
        if restarts and self.first_restart_epochs is None:
            raise ValueError('schedule = "cosine-restarts" needs first_restart_epochs')
        for key in ("first_restart_epochs", "restart_multiplier"):
            if not restarts and getattr(self, key) is not None:
                raise ValueError(f'{key} has no effect without schedule = "cosine-restarts"')
        if self.schedule == "constant" and self.final_fraction is not None:
            raise ValueError('final_fraction has no effect with schedule = "constant"')

    @property
    def keeps_own_rate(self) -> bool:
        """Whether the settings ask for what the optimizer does anyway."""
        return self.schedule == "constant" and self.peak is None and self.warmup_epochs == 0

    def build(self, peak: float, steps_per_epoch: int | None, epochs: int) -> Any:
        """The `keras.optimizers.schedules.LearningRateSchedule` of these settings.

        :raises PluginRefused: see `planned_steps`.
        """
        rising, falling = planned_steps(steps_per_epoch, epochs, self.warmup_epochs)
        lowest = self.final_fraction or 0.0
        if self.first_restart_epochs is not None:
            assert steps_per_epoch is not None
            schedule = keras.optimizers.schedules.CosineDecayRestarts(
                peak,
                first_decay_steps=max(1, round(self.first_restart_epochs * steps_per_epoch)),
                t_mul=float(self.restart_multiplier or 2.0),
                alpha=lowest,
            )
            return warm_up(schedule, peak, rising) if rising else schedule
        # a cosine that ends where it starts is constant, and loads without a class of our own
        lowest = 1.0 if self.schedule == "constant" else lowest
        rise = {"warmup_target": peak, "warmup_steps": rising} if rising else {}
        return keras.optimizers.schedules.CosineDecay(
            0.0 if rising else peak, decay_steps=falling, alpha=lowest, **rise
        )

    @hookimpl
    def configure_training(self, run: RunContext, options: TrainingOptions) -> TrainingOptions:
        """Plan the schedule.

        :raises PluginRefused: beside a callback that sets the learning rate, and if the steps or
            the optimizer's own rate are unknown.
        """
        if self.keeps_own_rate:
            return options
        rivals = keras.callbacks.ReduceLROnPlateau, keras.callbacks.LearningRateScheduler
        for callback in options.callbacks:
            if isinstance(callback, rivals):
                raise PluginRefused(
                    f"the workload's callback {type(callback).__name__} sets the learning rate "
                    "too, which Keras does not allow beside a schedule; take it out of the "
                    "callbacks, or lr-schedule out of the recipe"
                )
        peak = own_rate(options.optimizer) if self.peak is None else self.peak
        schedule = self.build(float(peak), run.steps_per_epoch, run.epochs)
        return attrs.evolve(options, schedule=schedule)

    @hookimpl
    def report_effect(self, run: RunContext, model: Any) -> Effect:
        """Read the schedule and the rate that it has come to back from the optimizer."""
        if self.keeps_own_rate:
            return Effect.not_applied("constant, with the optimizer's own rate and no warm-up")
        name = schedule_name(model.optimizer)
        if name is None:
            return Effect.not_applied("the optimizer has a constant learning rate")
        optimizer = model.optimizer
        # .numpy() also reads variables with replicas, which int() and float() do not
        rate, steps = float(optimizer.learning_rate), int(optimizer.iterations.numpy())
        return Effect.applied_as(f"{name}, learning rate {rate:.3g} after {steps:,} steps")

    def unwrap(self, model: Any) -> Any:
        """The model with the learning rate that the schedule ended at, as a plain number."""
        return model if self.keeps_own_rate else with_fixed_rate(model)

    def by_hand(self) -> str:
        """The same in plain code."""
        if self.keeps_own_rate:
            return "# nothing: the optimizer keeps its own rate"
        peak = "peak" if self.peak is None else repr(self.peak)
        lines = ["peak = float(optimizer.learning_rate)"] if self.peak is None else []
        rising = f"{self.warmup_epochs:g} * steps_per_epoch"
        lowest = 1.0 if self.schedule == "constant" else self.final_fraction or 0.0
        if self.first_restart_epochs is not None:
            if self.warmup_epochs:
                lines.append(f"# behind a linear rise in {rising}, which Keras has not")
            made = (
                f"CosineDecayRestarts({peak}, {self.first_restart_epochs:g} * steps_per_epoch, "
                f"t_mul={self.restart_multiplier or 2.0}, alpha={lowest})"
            )
        elif self.warmup_epochs:
            made = (
                f"CosineDecay(0.0, (epochs - {self.warmup_epochs:g}) * steps_per_epoch, "
                f"alpha={lowest}, warmup_target={peak}, warmup_steps={rising})"
            )
        else:
            made = f"CosineDecay({peak}, epochs * steps_per_epoch, alpha={lowest})"
        lines.append(f"optimizer.learning_rate = keras.optimizers.schedules.{made}")
        return "\n".join(lines)
