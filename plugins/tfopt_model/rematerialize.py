"""Rematerialize: activations are computed again in the backward pass, in place of being kept."""

from __future__ import annotations

from typing import Any, Literal

from attrs import validators

from tfopt_core.plugins import (
    Effect,
    Plugin,
    RunContext,
    TrainingOptions,
    hookimpl,
    plugin,
    setting,
)
from tfopt_core.toolkit import trained_part
from tfopt_model.segments import (
    LEAST_SAVING,
    TRACED,
    Piece,
    Segment,
    cheapest,
    held,
    pieces_of,
    with_segments,
    without_segments,
)


def chosen_segments(pieces: list[Piece] | str, most: int | None) -> list[Segment] | str:
    """Return the segments with which a step holds least, or why there are none worth it."""
    if isinstance(pieces, str):
        return pieces
    segments = cheapest(pieces, most)
    whole = sum(piece.inside for piece in pieces)
    if held(segments) > whole * (1 - LEAST_SAVING):
        reasons = [piece.why_once for piece in pieces if piece.why_once]
        why = f" ({reasons[0]})" if reasons else ""
        return f"the model cannot be cut into segments that hold much less than the whole{why}"
    return segments


@plugin
class Rematerialize(Plugin):
    """Computes activations again in the backward pass, instead of keeping them.

    What it does: cuts the graph of a functional or Sequential model where a single tensor is passed
    on, such as between the blocks of a Transformer or ResNet, into the segments with which a step
    holds least, and computes each again when its gradient is needed (tf.recompute_grad, as
    keras.remat does). The training stays the same, but for the rounding of GELU on CPUs.

    Why it helps: between the passes a step holds what segments pass on, and one segment's
    activations at a time.

    When it does not: where memory is not short: each segment but the last is computed twice, so a
    step takes up to a third longer, under XLA more. Segments that draw at random or change their
    state, as dropout and batch normalization do, are computed once, as are those with inputs that
    are no floating-point numbers. Not applied where the layers are no graph, where a layer makes a
    mask, and where no cut saves much: each is named.

    Mixes with: gradient-accumulation, xla, mixed-precision, fit-batch; frozen-features, behind
    which the part that is trained is cut.

    Reference: Chen et al., Training deep nets with sublinear memory cost,
    https://arxiv.org/abs/1604.06174
    """

    targets = ("memory",)
    model_change = "in-place"
    segments: int | None = setting(
        default=None,
        validator=validators.optional(validators.ge(1)),
        help="How many segments are computed again at most; left out, as many as hold least.",
    )
    rounding: bool = setting(
        default=True,
        help="Whether results may differ by rounding; false asks for the same bits, and computes "
        "segments with a GELU once.",
    )

    def equivalence(self) -> Literal["exact", "rounding"]:
        """The same operations, some of them twice, and fused otherwise where that may round."""
        return "rounding" if self.rounding else "exact"

    @hookimpl
    def wrap_model(self, run: RunContext, model: Any) -> Any:
        """Cut the model, where it can be."""
        self._cut(run, model)
        return model

    @hookimpl
    def configure_training(
        self, run: RunContext, model: Any, options: TrainingOptions
    ) -> TrainingOptions:
        """Cut the part of the model that is trained, where steps call it in place of the whole."""
        part = trained_part(model)
        if part is not model:
            self._cut(run, part)
        return options

    def _cut(self, run: RunContext, model: Any) -> None:
        state = run.state_of(self)
        state.clear()
        without_segments(model)  # an earlier fit's
        segments = chosen_segments(pieces_of(model, rounding=self.rounding), self.segments)
        if isinstance(segments, str):
            state["reason"] = segments
            return
        state["again"] = sum(segment.again for segment in segments)
        state["of"] = len(segments)
        whole = sum(segment.inside for segment in segments)
        state["share"] = held(segments) / whole
        with_segments(model, segments)

    def unwrap(self, model: Any) -> Any:
        """Return the model as it was."""
        without_segments(model)
        return model

    @hookimpl
    def report_effect(self, run: RunContext, model: Any) -> Effect:
        """Report whether the segments were traced."""
        state = run.state_of(self)
        if "reason" in state:
            return Effect.not_applied(state["reason"])
        if trained_part(model) not in TRACED:
            return Effect.not_applied(
                "no training step called the model on dense tensors without a mask"
            )
        return Effect.applied_as(
            f"{state['again']} of {state['of']} segments computed again; a step holds "
            f"{state['share']:.0%} of the activations, as estimated from the model"
        )

    def by_hand(self) -> str:
        """The same in plain code."""
        return "block = keras.remat(block)  # each block of the model, where it is called"
