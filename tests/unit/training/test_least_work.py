"""The least work of a step, which never exceeds what it really computes."""

from __future__ import annotations

import pytest
from support.lazy_modules import keras, tf

from tfopt_core.training.graphs.flops import operations_of
from tfopt_core.training.graphs.least_work import least_state_bytes, least_work
from tfopt_core.training.graphs.operations import traced_step

pytestmark = pytest.mark.tensorflow


def least(function, *shapes, fast_convolutions=False):
    specs = [tf.TensorSpec(shape) for shape in shapes]
    graph = tf.function(function, autograph=False).get_concrete_function(*specs).graph
    return least_work(graph, fast_convolutions=fast_convolutions)


PRODUCT = 2 * 3 * 4 * 5


def test_equal_products_count_once_since_the_graph_optimizer_merges_them():
    assert least(lambda a, b: a @ b + a @ b, (3, 4), (4, 5)).operations == PRODUCT
    transposed = least(
        lambda a, b: a @ b + tf.matmul(a, tf.transpose(b), transpose_b=True), (3, 4), (4, 5)
    )
    assert transposed.operations == 2 * PRODUCT


def test_products_of_two_reads_of_a_variable_count_once():
    weights = tf.Variable(tf.ones((4, 5)))
    assert least(lambda a: a @ weights + a @ weights, (3, 4)).operations == PRODUCT


def test_of_two_branches_the_cheaper_counts():
    def branches(a, b):
        return tf.cond(a[0, 0] > 0, lambda: a @ b, lambda: tf.zeros((3, 5)))

    assert least(branches, (3, 4), (4, 5)).operations == 0


def test_a_loop_that_may_end_early_counts_nothing_and_is_named():
    def rounds(a, b, early):
        return tf.while_loop(
            lambda n, x: tf.logical_and(n < 6, tf.reduce_sum(x) < 1e9) if early else n < 6,
            lambda n, x: (n + 1, x + tf.reduce_sum(a @ b)),
            (0, a), maximum_iterations=6,
        )  # fmt: skip

    whole = least(lambda a, b: rounds(a, b, False), (3, 4), (4, 5))
    assert (whole.operations, whole.uncounted) == (6 * PRODUCT, ())
    early = least(lambda a, b: rounds(a, b, True), (3, 4), (4, 5))
    assert early.operations == 0
    assert "the number of rounds of" in early.uncounted[0]


def test_unknown_shapes_count_nothing_and_are_named():
    unknown = least(lambda a, b: a @ b, (None, 4), (4, 5))
    assert unknown.operations == 0
    assert "shape" in unknown.uncounted[0]


def test_gpu_libraries_may_multiply_less_in_a_convolution():
    def convolve(pictures, filters):
        return tf.nn.conv2d(pictures, filters, 1, "SAME")

    shapes = ((2, 8, 8, 3), (3, 3, 3, 5))
    whole = 2 * (2 * 8 * 8 * 5) * (3 * 3 * 3)
    assert least(convolve, *shapes).operations == whole
    assert least(convolve, *shapes, fast_convolutions=True).operations == pytest.approx(whole / 4)


def test_a_step_of_keras_counts_as_it_is():
    model = keras.Sequential([
        keras.Input((12, 6)), keras.layers.LSTM(8), keras.layers.Dense(4),
    ])  # fmt: skip
    model.compile("adam", "mse", jit_compile=False)
    model.optimizer.build(model.trainable_variables)
    graph = traced_step(model, (tf.zeros((5, 12, 6)), tf.zeros((5, 4)))).graph
    work = least_work(graph, fast_convolutions=False)
    assert work.uncounted == ()
    assert work.operations == operations_of(graph) > 0


def test_rows_of_an_embedding_need_not_move():
    model = keras.Sequential([
        keras.Input((3,)), keras.layers.Embedding(100, 7), keras.layers.Flatten(),
        keras.layers.Dense(5),
    ])  # fmt: skip
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    # weights, and Adam's two moments of each
    assert least_state_bytes(model) == 3 * 4 * (21 * 5 + 5)
