"""Adaptive L2: the strength of the L2 penalties follows the trend of the validation loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

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
from tfopt_model.l2 import Penalties, follower, layers_with_kernels, scale_penalties, unscale


def trend(values: Sequence[float]) -> float:
    """Return the slope of the least-squares line through the values, as a fraction of their mean
    for each epoch: 0.02 is a rise of 2% an epoch."""
    count = len(values)
    middle, mean = (count - 1) / 2, sum(values) / count
    spread = sum((place - middle) ** 2 for place in range(count))
    slope = sum((place - middle) * value for place, value in enumerate(values)) / spread
    return slope / abs(mean) if mean else 0.0


def next_scale(scale: float, slope: float, *, factor: float, flat: float, most: float) -> float:
    """Return the scale after an epoch: higher where the loss rises, lower where it falls.

    :param flat: slopes of at most this leave the scale as it is.
    :param most: the scale stays between 1 / most and most.
    """
    if slope > flat:
        scale *= factor
    elif slope < -flat:
        scale /= factor
    return min(max(scale, 1 / most), most)


@plugin
class AdaptiveL2(Plugin):
    """Has the strength of L2 penalties follow the trend of the validation loss.

    What it does: multiplies all L2 penalties of the model's kernels by one variable. After each
    epoch a line is laid through the last values of a validation loss: where it rises, the variable
    grows; where it falls, it shrinks. The training step is not traced again. Kernels without a
    penalty get one; penalties of another kind are left alone.

    Why it helps: a model that begins to overfit is held back by more, one that still learns by
    less, so that the strength need not be searched. A step does not become faster.

    When it does not: for short trainings, whose trend is noise; without validation data; where
    nothing overfits, the penalty only shrinks.

    Mixes with: l2, which comes before it: its strength is then the one to begin with. A schedule of
    the learning rate changes the trend as well.

    Reference: Krogh and Hertz, A Simple Weight Decay Can Improve Generalization, NIPS 1991
    """

    targets = ("convergence",)
    model_change = "in-place"
    after = ("swap-backbone", "slim-head", "l2")
    equivalence = "changes"  # another loss is minimized

    strength: float = setting(
        default=1e-4,
        validator=validators.gt(0),
        help="The first strength for kernels that have no penalty yet, above 0.",
    )
    monitor: str = setting(
        default="val_loss",
        validator=validators.min_len(1),
        help="The loss whose trend counts; of val_loss the penalties are taken off.",
    )
    window: int = setting(
        default=3,
        validator=validators.ge(2),
        help="The epochs that a trend is taken over, at least 2.",
    )
    factor: float = setting(
        default=1.5,
        validator=validators.gt(1),
        help="What one step multiplies or divides the strength by, above 1.",
    )
    flat: float = setting(
        default=0.01,
        validator=validators.ge(0),
        help="The change in an epoch, as a fraction of the loss, that is no trend.",
    )
    most: float = setting(
        default=100.0,
        validator=validators.gt(1),
        help="How many times higher or lower than at first the strength may get.",
    )

    @hookimpl
    def wrap_model(self, run: RunContext, model: Any) -> Any:
        """Give the L2 penalties of the model that comes a common scale; see
        `layers_with_kernels`."""
        layers = tuple(layers_with_kernels(model))
        run.state_of(self)["penalties"] = scale_penalties(layers, self.strength)
        return model

    @hookimpl
    def configure_training(self, run: RunContext, options: TrainingOptions) -> TrainingOptions:
        """Set the scale at the start of each epoch: of a resumed training, the one it had.

        :raises PluginRefused: without validation data.
        """
        if "validation" not in tuple(run.datasets):
            raise PluginRefused(
                "there are no validation data whose loss it could follow; add them, or use l2"
            )
        state = run.state_of(self)
        state.setdefault("scales", [self._penalties(run).scale()])
        set_scale = follower(self._penalties(run), lambda: state["scales"][-1])
        return attrs.evolve(options, callbacks=(*options.callbacks, set_scale))

    @hookimpl
    def on_epoch_end(self, run: RunContext, epoch: int, logs: Mapping[str, float]) -> None:
        """Take the trend of the last epochs, and set the scale for the next.

        :raises ValueError: if there is no such metric.
        """
        loss, state = run.metric_in(logs, self.monitor), run.state_of(self)
        if loss is None:
            return
        if self.monitor == "val_loss":
            loss -= self._penalties(run).total()  # they alone would make a trend
        # a new list each time: a checkpoint keeps what is there when it is written
        state["seen"] = [*state.get("seen", ()), loss][-self.window :]
        scales = state["scales"]
        scale = scales[-1]
        if len(state["seen"]) == self.window:
            slope = trend(state["seen"])
            scale = next_scale(scale, slope, factor=self.factor, flat=self.flat, most=self.most)
        state["scales"] = [*scales, scale]
        self._penalties(run).set_scale(scale)

    @hookimpl
    def report_effect(self, run: RunContext, model: Any) -> Effect:
        """Read the scale and the number of penalties back from the model."""
        penalties = self._penalties(run)
        in_effect, scale = penalties.in_effect(), penalties.scale()
        if not in_effect:
            return Effect.not_applied("no layer has a trainable kernel with an L2 penalty or none")
        scales = run.state_of(self)["scales"]
        changes = sum(one != other for one, other in pairwise(scales))
        if not changes:
            reason = (
                f"the strength never changed in {len(scales) - 1} epochs: a trend is taken over "
                f"{self.window} and must exceed {self.flat:.1%} an epoch"
            )
            added = penalties.added
            if not added:
                return Effect.not_applied(reason)
            return Effect.applied_as(f"{added} kernels penalized with {self.strength:g}; {reason}")
        return Effect.applied_as(
            f"{in_effect} kernels; strength changed {changes} times, from {min(scales):.3g} to "
            f"{max(scales):.3g} times the first one, {scale:.3g} times at the end"
        )

    def unwrap(self, model: Any) -> Any:
        """The model with its last strength as a plain number."""
        unscale(layers_with_kernels(model))
        return model

    def _penalties(self, run: RunContext) -> Penalties:
        penalties: Penalties = run.state_of(self)["penalties"]
        return penalties

    def by_hand(self) -> str:
        """The same in plain code."""
        return "# the strength follows the loss from epoch to epoch; l2 has lines of its own"
