"""The operations of fused-transformer compute what Keras' layers compute, gradients included."""

import numpy as np
import pytest
from support.lazy_modules import keras, tf
from tfopt_model.fused_layers import FusedLayers, release
from tfopt_model.fused_transformer import fuse, fusible_layers, why_not_fused

BATCH, PLACES, WIDTH = 3, 5, 8
# What another order of sums may change, of the largest number of a tensor.
ROUNDING = 1e-5


def numbers(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("float32")


def outputs_and_gradients(layer, inputs, settings):
    given = [tf.constant(each) for each in inputs]

    def derived():
        with tf.GradientTape() as tape:
            tape.watch(given)
            outputs = layer(*given, **settings)
            # each number counts otherwise, so that a gradient of the wrong place shows
            loss = tf.reduce_sum(tf.sin(outputs) * numbers(*outputs.shape))
        weights = [variable.value for variable in layer.trainable_variables]
        return [outputs, *tape.gradient(loss, [*given, *weights], unconnected_gradients="zero")]

    return tf.function(derived, autograph=False)()


def assert_equal_to_keras(layer, *inputs, **settings):
    layer(*inputs)
    for index, variable in enumerate(layer.trainable_variables):
        variable.assign(variable + 0.3 * numbers(*variable.shape, index + 1)[..., 0])
    expected = outputs_and_gradients(layer, list(inputs), settings)
    fused = FusedLayers()
    assert fuse(layer, fused) == ""
    computed = outputs_and_gradients(layer, list(inputs), settings)
    assert list(fused.traced) == [layer.name]
    assert not fused.reasons
    assert any(not np.array_equal(one, two) for one, two in zip(computed, expected, strict=True))
    for ours, theirs in zip(computed, expected, strict=True):
        scale = max(1.0, np.abs(theirs).max())
        np.testing.assert_allclose(ours, theirs, atol=ROUNDING * scale, rtol=0)


def some_mask():
    """A mask of queries and keys, with a query that sees nothing."""
    mask = np.random.default_rng(1).random((BATCH, PLACES, PLACES)) > 0.4
    mask[0, 2] = False
    return mask


@pytest.mark.thorough
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"use_causal_mask": True},
        {"attention_mask": some_mask()},
        {"attention_mask": some_mask(), "use_causal_mask": True},
        {"query_mask": some_mask()[0, :BATCH]},
    ],
    ids=["no mask", "causal", "given", "both", "query"],
)
def test_attention_is_that_of_keras(settings):
    inputs = [numbers(BATCH, PLACES, WIDTH), numbers(BATCH, PLACES, WIDTH) + 1]
    assert_equal_to_keras(keras.layers.MultiHeadAttention(2, 3), *inputs, **settings)


def test_attention_over_another_sequence_with_wider_values_is_that_of_keras():
    layer = keras.layers.MultiHeadAttention(2, 3, value_dim=5)
    assert_equal_to_keras(layer, numbers(BATCH, PLACES, WIDTH), numbers(BATCH, 7, WIDTH))


@pytest.mark.parametrize("shape", [(BATCH, PLACES, WIDTH), (BATCH, WIDTH), (2, 3, 4, WIDTH)])
def test_layer_normalization_is_that_of_keras(shape):
    assert_equal_to_keras(keras.layers.LayerNormalization(), 5 + 3 * numbers(*shape))


def test_gelu_is_that_of_keras():
    far = 4 * numbers(BATCH, PLACES, WIDTH)
    assert_equal_to_keras(keras.layers.Dense(6, activation="gelu"), far)
    assert_equal_to_keras(keras.layers.Activation("gelu"), far)


def test_what_cannot_be_computed_is_named():
    class Own(keras.layers.LayerNormalization):
        pass

    layers = keras.layers
    assert "Own may compute something else" in why_not_fused(Own())
    assert "several axes" in why_not_fused(layers.LayerNormalization(axis=[1, 2]))
    assert "no scale" in why_not_fused(layers.LayerNormalization(scale=False))
    assert "drops out" in why_not_fused(layers.MultiHeadAttention(2, 3, dropout=0.1))


@pytest.mark.parametrize(
    ("kind", "settings", "called", "word"),
    [
        ("LayerNormalization", {"dtype": "mixed_bfloat16"}, {}, "computes in bfloat16"),
        ("LayerNormalization", {"axis": 1}, {}, "another axis than the last"),
        (
            "MultiHeadAttention", {"num_heads": 2, "key_dim": 3},
            {"return_attention_scores": True}, "attention scores",
        ),
    ],
)  # fmt: skip
def test_a_call_that_is_left_to_keras_is_named(kind, settings, called, word):
    layer, fused = getattr(keras.layers, kind)(**settings), FusedLayers()
    inputs = [numbers(BATCH, PLACES, WIDTH)] * (2 if kind == "MultiHeadAttention" else 1)
    expected = keras.tree.flatten(layer(*inputs, **called))
    fuse(layer, fused)
    computed = keras.tree.flatten(layer(*inputs, **called))
    for ours, theirs in zip(computed, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert not fused.traced
    assert word in fused.reasons[layer.name]


def block():
    """A model with one layer of each kind, and two that are not of them."""
    from keras import layers

    start = keras.Input((PLACES, WIDTH))
    normal = layers.LayerNormalization(name="norm")(start)
    hidden = layers.MultiHeadAttention(2, 3, name="attention")(normal, normal)
    hidden = layers.Dense(4, activation="gelu", name="wide")(hidden)
    return keras.Model(start, layers.Dense(2, activation="relu")(hidden))


def test_layers_are_found_and_given_back():
    model = block()
    config, layers = model.get_config(), fusible_layers(model)
    assert sorted(layer.name for layer in layers) == ["attention", "norm", "wide"]
    for layer in layers:
        fuse(layer, FusedLayers())
    model(numbers(BATCH, PLACES, WIDTH))
    assert model.get_config() == config
    release(model)
    assert not any({"call", "_compute_attention"} & set(vars(layer)) for layer in layers)


def test_a_method_that_somebody_else_replaced_stays_theirs():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="gelu")])
    [layer] = model.layers
    theirs = vars(layer)["call"] = type(layer).call.__get__(layer)
    assert "its call was replaced already" in why_not_fused(layer)
    release(model)
    assert vars(layer)["call"] is theirs
    del vars(layer)["call"]
    fuse(layer, FusedLayers())
    assert why_not_fused(layer) == ""
    release(model)
    assert "call" not in vars(layer)
