"""Another network takes the place of the backbone; what does not fit is named."""

from typing import Any

import numpy as np
import pytest
from support.lazy_modules import keras
from tfopt_model.swap_backbone import SwapBackbone, application_named, backbone_of, with_application

from tfopt_core.errors import PluginRefused
from tfopt_core.testing import make_run

pytestmark = pytest.mark.tensorflow


def small_network(include_top: bool, weights: Any, input_shape: Any, name: str = "small") -> Any:
    """Stands in for a function of `keras.applications`, which take seconds to build."""
    pictures = keras.Input(input_shape)
    hidden = keras.layers.Conv2D(5, 3, strides=4, padding="same")(pictures)
    return keras.Model(pictures, hidden, name=name)


def scaling_network(include_top: bool, weights: Any, input_shape: Any) -> Any:
    """Divides its pixels by 255, as EfficientNetB0 does."""
    pictures = keras.Input(input_shape)
    hidden = keras.layers.Rescaling(1 / 255)(pictures)
    return keras.Model(pictures, keras.layers.Conv2D(5, 3)(hidden), name="scaling")


def nested(trainable: bool = True, head: int = 0, **named: Any) -> Any:
    """A model with a nested base of 7 channels and a head."""
    layers = keras.layers
    base = keras.Sequential([keras.Input((16, 16, 3)), layers.Conv2D(7, 3)], name="base")
    base.trainable = trainable
    pictures = keras.Input((16, 16, 3), name="pictures")
    hidden = layers.Rescaling(2.0, offset=-1.0, name="scale")(pictures)
    hidden = layers.GlobalAveragePooling2D(name="pool")(base(hidden, **named))
    hidden = layers.Dense(8, name="hidden")(hidden)
    return keras.Model(pictures, layers.Dense(2, name="out")(hidden), name="mine")


def flat() -> Any:
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((16, 16, 3)),
            layers.Rescaling(2.0, name="scale"),
            layers.Conv2D(4, 3, name="first"),
            layers.ReLU(),
            layers.Conv2D(6, 3, strides=2, name="last"),
            layers.Flatten(),
            layers.Dense(2, name="out"),
        ],
        name="flat",
    )


def swapped(model: Any, application: Any = small_network, scale: float | None = None) -> Any:
    found = backbone_of(model)
    assert not isinstance(found, str), found
    return with_application(model, found, application, None, scale)[0]


def test_nested_backbone_is_replaced_and_only_what_no_longer_fits_is_new() -> None:
    model = nested()
    new = swapped(model)
    assert new.name == "mine"
    assert new.inputs[0].name == "pictures"
    assert new.get_layer("base") is not model.get_layer("base")
    assert new.get_layer("hidden").kernel.shape == (5, 8)
    assert new.get_layer("out") is model.get_layer("out")
    assert new.get_layer("scale") is model.get_layer("scale")


def test_layers_of_the_model_itself_are_a_backbone_too() -> None:
    model = flat()
    new = swapped(model)
    assert [layer.name for layer in new.layers][1:3] == ["scale", "small"]
    assert new.get_layer("out").kernel.shape == (4 * 4 * 5, 2)
    assert new.predict(np.zeros((1, 16, 16, 3)), verbose=0).shape == (1, 2)


def test_saved_model_loads_as_plain_keras(tmp_path: Any) -> None:
    new = swapped(flat())
    new.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    picture = np.random.default_rng(0).random((2, 16, 16, 3))
    np.testing.assert_allclose(
        loaded.predict(picture, verbose=0), new.predict(picture, verbose=0), rtol=1e-5
    )


def test_frozen_backbone_is_not_replaced_by_random_weights() -> None:
    for model in (nested(trainable=False), nested(training=False)):
        with pytest.raises(PluginRefused, match=r'"base" \(196 parameters\) is frozen'):
            swapped(model)


def test_network_that_scales_pixels_itself_asks_what_they_are() -> None:
    with pytest.raises(PluginRefused, match="set pixel_scale = 255 if they lie between 0 and 1"):
        swapped(nested(), scaling_network)
    new = swapped(nested(), scaling_network, scale=255.0)
    assert new.get_layer("backbone_pixels").scale == 255.0


def test_shortcut_around_the_backbone_is_named() -> None:
    layers = keras.layers
    pictures = keras.Input((16, 16, 3))
    begin = layers.Conv2D(4, 3, padding="same", name="begin")(pictures)
    end = layers.Conv2D(4, 3, padding="same", name="end")(begin)
    pooled = [layers.GlobalAveragePooling2D(name=f"pool{i}")(x) for i, x in enumerate((begin, end))]
    model = keras.Model(pictures, layers.Concatenate()(pooled))
    assert backbone_of(model, "end") == '"pool0" reads what lies within the backbone'


def test_unknown_names_are_refused_with_what_is_there() -> None:
    with pytest.raises(PluginRefused, match='no "EfficientNetV2B9"; did you mean'):
        application_named("EfficientNetV2B9")
    with pytest.raises(PluginRefused, match='no layer "bas"; did you mean "base"'):
        backbone_of(nested(), "bas")


def test_model_without_pictures_is_not_applied() -> None:
    plugin, run = SwapBackbone(), make_run()
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    assert plugin.wrap_model(run, model) is model
    effect = plugin.report_effect(run, model)
    assert not effect.applied
    assert effect.detail == "no layer makes a feature map of pictures"


@pytest.mark.thorough
def test_efficientnet_takes_the_place_of_another_application() -> None:
    pictures = keras.Input((32, 32, 3))
    base = keras.applications.MobileNetV2(
        include_top=False, weights=None, input_shape=(32, 32, 3), name="base"
    )
    hidden = keras.layers.GlobalAveragePooling2D()(base(pictures))
    model = keras.Model(pictures, keras.layers.Dense(2)(hidden))
    plugin, run = SwapBackbone(), make_run()
    new = plugin.wrap_model(run, model)
    effect = plugin.report_effect(run, new)
    assert '"base" (2,257,984 parameters) became EfficientNetV2B0 (5,919,312)' in effect.detail
    assert not any(type(layer).__name__ == "Rescaling" for layer in new.get_layer("base").layers)
