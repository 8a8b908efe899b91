"""What takes another's place in a model: a slimmer head, or another network for its backbone."""

import numpy as np
import pytest
from support.lazy_modules import keras
from support.small_workloads import with_own_step
from tfopt_model.graph_rewrite import parameters
from tfopt_model.slim_head import SlimHead, with_slim_head
from tfopt_model.swap_backbone import SwapBackbone, application_named, backbone_of, with_application

from tfopt_core.errors import PluginRefused
from tfopt_core.testing import make_run


def convolutional(between=None, last=None):
    layers = keras.layers
    pictures = keras.Input((8, 8, 3), name="pictures")
    hidden = layers.Conv2D(6, 3, name="conv")(pictures)
    hidden = layers.Flatten(name="flat")(hidden)
    for layer in between() if between else [layers.Dropout(0.2)]:
        hidden = layer(hidden)
    hidden = layers.Dense(32, "relu", name="dense")(hidden)
    outputs = layers.Dense(3, name="out")(hidden)
    return keras.Model(pictures, outputs, name="mine")


def slim_of(model, **settings):
    made = with_slim_head(model, **settings)
    assert not isinstance(made, str), made
    return made[0]


def test_pooling_shares_the_other_layers_and_sums_the_kernel_over_the_places():
    model = convolutional()
    slim = slim_of(model)
    assert parameters(model)[0] - parameters(slim)[0] == (36 - 1) * 6 * 32
    assert slim.name == "mine"
    assert slim.inputs[0].name == "pictures"
    for name in ("conv", "dropout", "out"):
        assert any(layer is slim.get_layer(layer.name) for layer in model.layers), name
    kernel = model.get_layer("dense").kernel.numpy().reshape(36, 6, 32).sum(0)
    np.testing.assert_allclose(slim.get_layer("dense").kernel.numpy(), kernel, rtol=1e-5)
    even = np.ones((2, 8, 8, 3), "float32")  # a feature map that is the same everywhere
    np.testing.assert_allclose(
        slim.predict(even, verbose=0), model.predict(even, verbose=0), rtol=1e-4, atol=1e-6
    )


def test_rank_makes_the_best_product_of_two_kernels():
    model = convolutional()
    slim = slim_of(model, pool=False, rank=8)
    first, second = slim.get_layer("dense_reduced"), slim.get_layer("dense")
    assert first.kernel.shape == (216, 8)
    product = first.kernel.numpy() @ second.kernel.numpy()
    left, values, right = np.linalg.svd(model.get_layer("dense").kernel.numpy())
    best = (left[:, :8] * values[:8]) @ right[:8]
    np.testing.assert_allclose(product, best, atol=1e-5)
    assert [layer.name for layer in slim.layers][-1] == "out"
    assert slim.get_layer("out") is model.get_layer("out")  # 32 x 3 is smaller than rank 8


@pytest.mark.thorough
def test_saved_model_loads_as_plain_keras(train, tmp_path):
    def model():
        dense = keras.layers.Dense
        return keras.Sequential(
            [keras.Input((4,)), dense(64, "relu", name="wide"), dense(64), dense(1)]
        )

    driven = train(SlimHead(pool=False, rank=4), model=model)
    assert driven.effect.applied
    assert "4,545 -> 961 trainable parameters" in driven.effect.detail
    driven.model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    x = np.eye(4, dtype="float32")
    np.testing.assert_allclose(loaded.predict(x, verbose=0), driven.model.predict(x, verbose=0))


def test_flattened_map_that_another_layer_reads_stays():
    def normalized():
        return [keras.layers.BatchNormalization()]

    assert "no feature map" in with_slim_head(convolutional(normalized))


def test_model_with_a_class_of_its_own_is_left_alone():
    assert 'the class "Own"' in with_slim_head(with_own_step(convolutional()))


def small_network(include_top, weights, input_shape, name="small"):
    """Stands in for a function of `keras.applications`, which take seconds to build."""
    pictures = keras.Input(input_shape)
    hidden = keras.layers.Conv2D(5, 3, strides=4, padding="same")(pictures)
    return keras.Model(pictures, hidden, name=name)


def scaling_network(include_top, weights, input_shape):
    """Divides its pixels by 255, as EfficientNetB0 does."""
    pictures = keras.Input(input_shape)
    hidden = keras.layers.Rescaling(1 / 255)(pictures)
    return keras.Model(pictures, keras.layers.Conv2D(5, 3)(hidden), name="scaling")


def nested(trainable=True, head=0, **named):
    """A model with a nested base of 7 channels and a head."""
    layers = keras.layers
    base = keras.Sequential([keras.Input((16, 16, 3)), layers.Conv2D(7, 3)], name="base")
    base.trainable = trainable
    pictures = keras.Input((16, 16, 3), name="pictures")
    hidden = layers.Rescaling(2.0, offset=-1.0, name="scale")(pictures)
    hidden = layers.GlobalAveragePooling2D(name="pool")(base(hidden, **named))
    hidden = layers.Dense(8, name="hidden")(hidden)
    return keras.Model(pictures, layers.Dense(2, name="out")(hidden), name="mine")


def flat():
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


def swapped(model, application=small_network, scale=None):
    found = backbone_of(model)
    assert not isinstance(found, str), found
    return with_application(model, found, application, None, scale)[0]


def test_nested_backbone_is_replaced_and_only_what_no_longer_fits_is_new():
    model = nested()
    new = swapped(model)
    assert new.name == "mine"
    assert new.inputs[0].name == "pictures"
    assert new.get_layer("base") is not model.get_layer("base")
    assert new.get_layer("hidden").kernel.shape == (5, 8)
    assert new.get_layer("out") is model.get_layer("out")
    assert new.get_layer("scale") is model.get_layer("scale")


def test_layers_of_the_model_itself_are_a_backbone_too():
    model = flat()
    new = swapped(model)
    assert [layer.name for layer in new.layers][1:3] == ["scale", "small"]
    assert new.get_layer("out").kernel.shape == (4 * 4 * 5, 2)
    assert new.predict(np.zeros((1, 16, 16, 3)), verbose=0).shape == (1, 2)


def test_a_saved_model_with_another_backbone_loads_as_plain_keras(tmp_path):
    new = swapped(flat())
    new.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    picture = np.random.default_rng(0).random((2, 16, 16, 3))
    np.testing.assert_allclose(
        loaded.predict(picture, verbose=0), new.predict(picture, verbose=0), rtol=1e-5
    )


def test_frozen_backbone_is_not_replaced_by_random_weights():
    for model in (nested(trainable=False), nested(training=False)):
        with pytest.raises(PluginRefused, match=r'"base" \(196 parameters\) is frozen'):
            swapped(model)


def test_network_that_scales_pixels_itself_asks_what_they_are():
    with pytest.raises(PluginRefused, match="set pixel_scale = 255 if they lie between 0 and 1"):
        swapped(nested(), scaling_network)
    new = swapped(nested(), scaling_network, scale=255.0)
    assert new.get_layer("backbone_pixels").scale == 255.0


def test_shortcut_around_the_backbone_is_named():
    layers = keras.layers
    pictures = keras.Input((16, 16, 3))
    begin = layers.Conv2D(4, 3, padding="same", name="begin")(pictures)
    end = layers.Conv2D(4, 3, padding="same", name="end")(begin)
    pooled = [layers.GlobalAveragePooling2D(name=f"pool{i}")(x) for i, x in enumerate((begin, end))]
    model = keras.Model(pictures, layers.Concatenate()(pooled))
    assert backbone_of(model, "end") == '"pool0" reads what lies within the backbone'


def test_unknown_names_are_refused_with_what_is_there():
    with pytest.raises(PluginRefused, match='no "EfficientNetV2B9"; did you mean'):
        application_named("EfficientNetV2B9")
    with pytest.raises(PluginRefused, match='no layer "bas"; did you mean "base"'):
        backbone_of(nested(), "bas")


def test_model_without_pictures_is_not_applied():
    plugin, run = SwapBackbone(), make_run()
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    assert plugin.wrap_model(run, model) is model
    effect = plugin.report_effect(run, model)
    assert not effect.applied
    assert effect.detail == "no layer makes a feature map of pictures"


@pytest.mark.thorough
def test_efficientnet_takes_the_place_of_another_application():
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
