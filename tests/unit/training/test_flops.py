"""Operations of a step, against what can be counted by hand."""

from __future__ import annotations

import pytest
from support.lazy_modules import keras, layers, tf

from tfopt_core.training.graphs.flops import NotCountable, operations_of
from tfopt_core.training.graphs.operations import traced_step

pytestmark = pytest.mark.tensorflow


def counted(model, x, y, loss="mse"):
    model.compile("sgd", loss, jit_compile=False)
    model.optimizer.build(model.trainable_variables)
    return operations_of(traced_step(model, (x, y)).graph)


def zeros(*shape):
    return tf.zeros(shape)


def test_a_dense_layer_multiplies_forward_and_for_both_gradients():
    model = keras.Sequential([keras.Input((30,)), layers.Dense(20), layers.Dense(7)])
    first, second = 2 * 16 * 30 * 20, 2 * 16 * 20 * 7
    # nobody needs the gradient of the input
    assert counted(model, zeros(16, 30), zeros(16, 7)) == 2 * first + 3 * second


def test_a_convolution_multiplies_its_filter_at_each_position():
    model = keras.Sequential([
        keras.Input((10, 12, 3)), layers.Conv2D(8, 3, padding="same"),
        layers.Conv2D(5, (3, 5), strides=2), layers.GlobalAveragePooling2D(),
    ])  # fmt: skip
    first = 2 * 4 * (10 * 12 * 8) * (3 * 3 * 3)
    second = 2 * 4 * (4 * 4 * 5) * (3 * 5 * 8)
    assert counted(model, zeros(4, 10, 12, 3), zeros(4, 5)) == 2 * first + 3 * second


def test_a_depthwise_convolution_has_a_filter_for_each_channel():
    model = keras.Sequential([
        keras.Input((8, 8, 6)), layers.DepthwiseConv2D(3, padding="same"),
        layers.GlobalAveragePooling2D(),
    ])  # fmt: skip
    assert counted(model, zeros(2, 8, 8, 6), zeros(2, 6)) == 2 * (2 * 2 * (8 * 8 * 6) * 9)


def test_a_recurrent_layer_counts_as_often_as_it_goes_round():
    model = keras.Sequential([keras.Input((20, 8)), layers.LSTM(16), layers.Dense(1)])
    inputs, state, dense = 2 * 32 * 8 * 64, 2 * 32 * 16 * 64, 2 * 32 * 16
    assert counted(model, zeros(32, 20, 8), zeros(32, 1)) == (
        20 * (2 * inputs + 3 * state) + 3 * dense
    )


def test_attention_counts_its_products_of_batches_and_einsums():
    given = keras.Input((10, 16))
    attention = layers.MultiHeadAttention(2, 4, flash_attention=False)(given, given)
    model = keras.Model(given, attention)
    projection = 2 * 3 * 10 * 16 * (2 * 4)  # of query, key and value, and back
    product = 2 * 3 * 2 * 10 * 10 * 4  # of scores, and of values
    assert counted(model, zeros(3, 10, 16), zeros(3, 10, 16)) == (
        3 * 2 * projection + 3 * projection + 2 * 3 * product
    )


def test_a_loop_whose_rounds_nobody_knows_is_not_counted():
    def until(x):
        return tf.while_loop(
            lambda x: tf.reduce_sum(x) < 100.0, lambda x: (tf.matmul(x, x) + 1.0,), (x,)
        )

    graph = tf.function(until).get_concrete_function(tf.TensorSpec((4, 4))).graph
    with pytest.raises(NotCountable, match="rounds"):
        operations_of(graph)


def test_an_unknown_shape_is_not_counted():
    graph = tf.function(lambda x: x @ x).get_concrete_function(tf.TensorSpec((None, None))).graph
    with pytest.raises(NotCountable, match="shape"):
        operations_of(graph)


def test_of_two_branches_the_dearer_counts():
    def choose(x):
        return tf.cond(tf.reduce_sum(x) > 0, lambda: x @ x @ x, lambda: x @ x)

    graph = tf.function(choose).get_concrete_function(tf.TensorSpec((4, 4))).graph
    assert operations_of(graph) == 2 * (2 * 4 * 4 * 4)
