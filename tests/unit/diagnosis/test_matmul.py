"""Matrix products: those of a step, against what can be counted by hand, and the peak."""

import pytest
from support.lazy_modules import keras, layers, tf

from tfopt_core.diagnosis.matmul import (
    dtypes_worth_measuring,
    matmul_peak,
    matmul_share,
    operations_of,
    products,
)
from tfopt_core.hooks.machine import Gpu
from tfopt_core.testing import make_machine
from tfopt_core.toolkit.graphs import traced_step


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
    assert operations_of(graph) is None


def test_an_unknown_shape_is_not_counted():
    graph = tf.function(lambda x: x @ x).get_concrete_function(tf.TensorSpec((None, None))).graph
    assert operations_of(graph) is None


def test_of_two_branches_the_dearer_counts():
    def choose(x):
        return tf.cond(tf.reduce_sum(x) > 0, lambda: x @ x @ x, lambda: x @ x)

    graph = tf.function(choose).get_concrete_function(tf.TensorSpec((4, 4))).graph
    assert operations_of(graph) == 2 * (2 * 4 * 4 * 4)


def test_a_matrix_product_has_a_rate_and_keeps_its_numbers():
    assert matmul_peak("float32", 0.01, sizes=(64,)) > 1e6
    assert float(products(64, "float32")(50)) == pytest.approx(1.0)


def test_types_are_measured_where_the_hardware_has_them():
    plain = make_machine(cpu_flags=frozenset(), gpus=())
    native = make_machine(cpu_flags=frozenset({"avx512_bf16"}), gpus=())
    volta = make_machine(gpus=(Gpu("V100", (7, 0), 2**34),))
    assert dtypes_worth_measuring(plain, "float32") == ("float32",)
    assert dtypes_worth_measuring(plain, "mixed_float16") == ("float32", "float16")
    assert dtypes_worth_measuring(native, "float32") == ("float32", "bfloat16")
    assert dtypes_worth_measuring(volta, "float32") == ("float32", "float16")


def test_a_share_is_unknown_where_nothing_is_counted_or_the_peak_is_of_a_busier_moment():
    assert matmul_share(100.0, 2.0, 100.0) == pytest.approx(0.5)
    assert matmul_share(None, 2.0, 100.0) is None
    assert matmul_share(300.0, 2.0, 100.0) is None
