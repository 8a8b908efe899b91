"""Swap backbone: a network of `keras.applications` in the place of the model's own."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import attrs
from attrs import validators

from tfopt_core.plugins import Effect, Plugin, PluginRefused, RunContext, hookimpl, plugin, setting
from tfopt_core.toolkit import describe, did_you_mean, keras, nested_layers, why_without
from tfopt_model.graph_rewrite import Call, calls_of, parameters, rewritten, why_no_graph


@attrs.frozen(eq=False)
class Backbone:
    """The part of a model that makes features of pictures.

    :param first: the call whose input the backbone takes.
    :param last: the call whose output are the features; the same one for a nested model.
    :param layers: the layers of the part.
    """

    first: Call
    last: Call
    layers: tuple[Any, ...]

    @property
    def nested(self) -> Any:
        """Return the nested model, None if the layers are the model's own."""
        return self.first.layer if self.first is self.last else None

    @property
    def scales_pixels(self) -> bool:
        """Whether the backbone scales its pixels itself."""
        return any(map(_scales, self.layers))

    def in_words(self) -> str:
        """Return what it is called and how many parameters it has."""
        if self.nested is not None:
            return f'"{self.nested.name}" ({parameters(self.nested)[1]:,} parameters)'
        total = sum(parameters(layer)[1] for layer in self.layers)
        return f'"{self.first.layer.name}" to "{self.last.layer.name}" ({total:,} parameters)'


def backbone_of(model: Any, layer: str | None = None) -> Backbone | str:
    """Return the backbone of a model, or why none was found.

    It is the nested model with convolutions; else the layers from the first one with trainable
    weights, or its padding, to the last feature map before the head.

    :param layer: the name of the nested model, or of the layer that makes the features.
    :raises PluginRefused: if there is no such layer.
    """
    reason = why_no_graph(model)
    if reason:
        return reason
    calls = calls_of(model)
    maps = [
        call for call in calls if _rank(call.outputs) == 4 and isinstance(call.layer, keras.Layer)
    ]
    if layer is not None:
        named = [call for call in calls if getattr(call.layer, "name", None) == layer]
        if not named:
            known = [call.layer.name for call in calls]
            hint = did_you_mean(layer, known) or f"it has {', '.join(known)}"
            raise PluginRefused(f'the model has no layer "{layer}"; {hint}')
        last = named[-1]
    else:
        nested = [call for call in calls if _is_network(call)]
        if len(nested) > 1:
            names = ", ".join(f'"{call.layer.name}"' for call in nested)
            return f"{names} may each be the backbone; name one: layer"
        if not nested and not maps:
            return "no layer makes a feature map of pictures"
        last = nested[0] if nested else maps[-1]
    if _is_network(last):
        return Backbone(last, last, tuple(nested_layers(last.layer)))
    return _own_layers(calls, last)


def with_application(
    model: Any, found: Backbone, application: Any, weights: str | None, scale: float | None
) -> tuple[Any, Any]:
    """Return the model with a Keras application in the place of its backbone, and that network.

    Layers behind it whose inputs have another shape now are made anew.

    :param application: a function of `keras.applications`.
    :param weights: as Keras takes them; None for random ones.
    :param scale: what the pixels are multiplied by first; None where the old backbone tells.
    :raises PluginRefused: if the network does not fit the pictures or the model.
    """
    network = _made(application, found, weights)
    before = _rescaling(application, network, found, scale)
    frozen = not any(layer.trainable_weights for layer in found.layers)
    if weights is None and (frozen or found.last.named.get("training") is False):
        raise PluginRefused(
            f"{found.in_words()} is frozen, and the new backbone would be with random weights; "
            'set weights = "imagenet" or a file, or train the backbone'
        )
    network.trainable = not frozen
    made: dict[str, Any] = {}

    def replace(call: Call) -> Any:
        if call.index == found.first.index:
            made["picture"] = call.tensors[0]
        if call.index != found.last.index:
            return None
        picture = made["picture"]
        if before is not None:
            picture = before(picture)
        features = network(picture, **(dict(call.named) if found.nested is not None else {}))
        if _rank(found.last.outputs) == 2 and _rank(features) == 4:
            features = keras.layers.GlobalAveragePooling2D(name=f"{network.name}_average")(features)
        return features

    try:
        return rewritten(model, replace), network
    except ValueError as error:
        raise PluginRefused(
            f"the layers behind the backbone do not take its features: {describe(error)}"
        ) from error


def _own_layers(calls: Sequence[Call], last: Call) -> Backbone | str:
    """Return the backbone that ends at this call and consists of the model's own layers."""
    upstream = [last]
    for call in reversed(calls[: last.index]):
        if any(other.reads(call) for other in upstream):
            upstream.insert(0, call)
    start = next((place for place, call in enumerate(upstream) if _begins(call)), None)
    if start is None:
        return f'the layers up to "{last.layer.name}" have no trainable weights'
    first, inner = upstream[start], upstream[start:]
    begin = [id(one) for one in first.tensors]
    if len(begin) != 1 or _rank(first.tensors) != 4:
        return f'"{first.layer.name}" takes no single tensor of pictures'
    for call in inner:
        if call is not first and any(other.index < first.index for other in upstream
                                     if call.reads(other)):  # fmt: skip
            return f'"{call.layer.name}" reads what comes before the backbone as well'
    for call in calls:
        if call not in inner and any(call.reads(one) for one in inner if one is not last):
            return f'"{call.layer.name}" reads what lies within the backbone'
    layers = tuple(call.layer for call in inner if isinstance(call.layer, keras.Layer))
    return Backbone(first, last, layers)


def _made(application: Any, found: Backbone, weights: str | None) -> Any:
    """Return the application without its top, for the pictures of the backbone."""
    accepted = inspect.signature(application).parameters
    options: dict[str, Any] = {}
    if "include_preprocessing" in accepted:
        options["include_preprocessing"] = found.scales_pixels
    shape = tuple(found.first.tensors[0].shape[1:])
    try:
        network = application(include_top=False, weights=weights, input_shape=shape, **options)
    except Exception as error:  # a download fails with a plain Exception
        raise PluginRefused(f"{application.__name__} for pictures of {shape}: {describe(error)}") \
            from error  # fmt: skip
    if found.nested is not None:
        # not as an argument: EfficientNetV2 looks its settings up by the name
        network.name = found.nested.name
    return network


def _rescaling(application: Any, network: Any, found: Backbone, scale: float | None) -> Any:
    """Return the layer that scales the pixels for the network, None for none."""
    scales = any(map(_scales, nested_layers(network)))
    if scale is not None:
        return None if scale == 1 else keras.layers.Rescaling(scale, name="backbone_pixels")
    if scales and not found.scales_pixels:
        raise PluginRefused(
            f"{application.__name__} divides its pixels by 255 itself, and {found.in_words()} does "
            "not; set pixel_scale = 255 if they lie between 0 and 1 there, or 1 if up to 255"
        )
    if found.scales_pixels and not scales:
        return keras.layers.Rescaling(1 / 127.5, offset=-1.0, name="backbone_pixels")
    return None


def _scales(layer: Any) -> bool:
    return isinstance(layer, keras.layers.Rescaling)


def _is_network(call: Call) -> bool:
    """Return whether a nested model with convolutions is called on pictures."""
    if not isinstance(call.layer, keras.Model) or _rank(call.tensors) != 4:
        return False
    return any(isinstance(one, _convolutions()) for one in nested_layers(call.layer))


def _begins(call: Call) -> bool:
    """Return whether a backbone may begin here: what stands before only prepares pictures."""
    if not isinstance(call.layer, keras.Layer):
        return False
    return bool(call.layer.trainable_weights) or isinstance(
        call.layer, (keras.layers.ZeroPadding2D, *_convolutions())
    )


def _convolutions() -> tuple[type, ...]:
    layers = keras.layers
    return layers.Conv2D, layers.DepthwiseConv2D, layers.SeparableConv2D


def _rank(tensors: Any) -> int:
    """Return the rank of a single tensor, 0 for several."""
    flat = keras.tree.flatten(tensors)
    return len(flat[0].shape) if len(flat) == 1 else 0


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
        scaled = f"x = keras.layers.Rescaling({self.pixel_scale})(x)\n" if self.pixel_scale else ""
        return (
            f"{scaled}backbone = keras.applications.{self.application}("
            f"include_top=False, weights={weights!r})"
        )
