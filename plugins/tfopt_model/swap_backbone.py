"""Swap backbone: a network of `keras.applications` in the place of the model's own."""

from __future__ import annotations

from typing import Any

from attrs import validators

from tfopt_core.plugins import Effect, Plugin, PluginRefused, RunContext, hookimpl, plugin, setting
from tfopt_core.toolkit import did_you_mean, keras, why_without
from tfopt_model.backbone import backbone_of, with_application
from tfopt_model.graph_rewrite import parameters


def application_named(name: str) -> Any:
    """Return the function of `keras.applications` that makes this network.

    :raises PluginRefused: if there is none.
    """
    known = [one for one in dir(keras.applications) if one[0].isupper()]
    if name not in known:
        hint = did_you_mean(name, known) or f"it has {', '.join(known)}"
        raise PluginRefused(f'keras.applications has no "{name}"; {hint}')
    return getattr(keras.applications, name)


@plugin
class SwapBackbone(Plugin):
    """Trains with another network of Keras' applications in the place of the backbone.

    What it does: finds the part of the model that makes features of pictures, a nested model or the
    layers up to the last feature map, and puts an application of Keras without its top there. The
    layers before it keep their weights; those behind it do too, unless the features have another
    size: then they are made anew. Whether the pixels are scaled follows from the old backbone.

    Why it helps: networks of about the same accuracy differ several times in parameters, products
    and how well the hardware computes them. Which is faster here is measured, not assumed.

    When it does not: where the backbone is frozen and holds trained weights for just these
    pictures; a smaller network may need more epochs, and a larger one pictures that are not there.
    Downloaded weights need a network.

    Mixes with: slim-head, l2, adaptive-l2 and dropconnect, which come after it; mixed-precision,
    which may lose on depthwise convolutions. Scripts are refused: a script keeps its own model.

    Reference: Tan and Le, EfficientNetV2, https://arxiv.org/abs/2104.00298
    """

    targets = ("compute", "memory")
    model_change = "replaces"
    equivalence = "changes"  # another model is trained

    application: str = setting(
        default="EfficientNetV2B0",
        validator=validators.min_len(1),
        help="The network, by its name in keras.applications.",
    )
    weights: str = setting(
        default="none",
        validator=validators.min_len(1),
        help="none for random weights; imagenet, which is downloaded; or a file.",
    )
    layer: str | None = setting(
        default=None,
        help=("The nested model, or the layer that makes the features; left out, it is "
                  "looked for."),
    )  # fmt: skip
    pixel_scale: float | None = setting(
        default=None,
        validator=validators.optional(validators.gt(0)),
        help="What pixels are multiplied by first; left out, as the backbone had it.",
    )

    @hookimpl
    def wrap_model(self, run: RunContext, model: Any) -> Any:
        """Return the model with the other backbone.

        :raises PluginRefused: if it is unknown, or does not fit.
        """
        state = run.state_of(self)
        application = application_named(self.application)
        state["reason"] = why_without("nested-layers")
        if state["reason"]:
            return model
        found = backbone_of(model, self.layer)
        if isinstance(found, str):
            state["reason"] = found
            return model
        weights = None if self.weights == "none" else self.weights
        new, network = with_application(model, found, application, weights, self.pixel_scale)
        state["was"], state["network"] = found.in_words(), network.name
        # a plugin behind this one may change the model further
        state["before"], state["after"] = parameters(model)[0], parameters(new)[0]
        return new

    @hookimpl
    def report_effect(self, run: RunContext, model: Any) -> Effect:
        """Read the new backbone and the trainable parameters back from the model."""
        state = run.state_of(self)
        if state["reason"]:
            return Effect.not_applied(state["reason"])
        network = model.get_layer(state["network"])
        return Effect.applied_as(
            f"{state['was']} became {self.application} ({parameters(network)[1]:,}); the model: "
            f"{state['before']:,} -> {state['after']:,} trainable parameters"
        )

    def by_hand(self) -> str:
        """The same in plain code."""
        weights = None if self.weights == "none" else self.weights
        scaled = (
            ""
            if self.pixel_scale is None
            else f"x = keras.layers.Rescaling({self.pixel_scale})(x)\n"
        )
        return (
            f"{scaled}backbone = keras.applications.{self.application}("
            f"include_top=False, weights={weights!r})"
        )
