"""Loops and branches that the graph optimizer of this TensorFlow leaves."""

from __future__ import annotations

import inspect

import pytest
from support.lazy_modules import keras, tf

from tfopt_core.training.model.graphs import StepGraph, graph_findings, optimized_graph, traced_step

pytestmark = pytest.mark.tensorflow


def found(call):
    """The findings about the step of a model whose layer calls this."""

    class Layer(keras.layers.Layer):
        def build(self, shape):
            self.kernel = self.add_weight(shape=(64, 64))

        def call(self, x):
            return call(x, self.kernel)

    given = keras.Input((64,))
    model = keras.Model(given, Layer()(given))
    model.compile("sgd", "mse", jit_compile=False)
    batch = (tf.ones((32, 64)), tf.ones((32, 64)))
    model.optimizer.build(model.trainable_variables)
    return list(graph_findings(traced_step(model, batch)))


def line_of(function, text):
    lines, start = inspect.getsourcelines(function)
    return f"{__file__}:{start + next(i for i, line in enumerate(lines) if text in line)}"


def once(x, kernel):
    return tf.sin(tf.matmul(x, kernel))


def branch(x, kernel):
    return tf.cond(tf.reduce_sum(x) > 0.0, lambda: x @ kernel, lambda: tf.sin(x @ kernel))


def loop(x, kernel):
    return tf.while_loop(
        lambda n, y: n < 5, lambda n, y: (n + 1, y @ kernel), (0, x), maximum_iterations=5
    )[1]


def test_a_step_without_loops_has_no_finding():
    assert found(once) == []


def python(x, kernel):
    same = tf.numpy_function(lambda value: value, [x], tf.float32)
    return tf.ensure_shape(same, x.shape) @ kernel


def test_a_call_of_python_in_each_step_is_named_with_its_line():
    [finding] = found(python)
    assert finding.kind == "python-function"
    assert finding.place == line_of(python, "tf.numpy_function")


def test_a_branch_is_named_with_its_line():
    [finding] = found(branch)
    assert finding.kind == "control-flow"
    assert "a branch" in finding.detail
    assert finding.place == line_of(branch, "tf.cond")


def test_a_loop_is_named_once_with_its_rounds():
    [finding] = found(loop)
    assert finding.kind == "control-flow"
    assert "a loop of 5 rounds" in finding.detail
    assert finding.place == line_of(loop, "tf.while_loop")


def test_the_graph_optimizers_output_can_be_read_in_this_tensorflow():
    function = tf.function(lambda x: tf.sin(x) + 1.0)
    nodes = optimized_graph(lambda: function(tf.ones(3)))[1]
    assert {"Sin", "AddV2"} <= {node.op for node in nodes}


def test_what_cannot_be_read_is_unknown():
    def fails():
        raise RuntimeError("another version")

    assert optimized_graph(fails) is None
    traced = tf.function(lambda: tf.ones(3)).get_concrete_function()
    assert list(graph_findings(StepGraph(traced.graph, fails))) == []


def test_graphs_of_functions_that_ran_before_are_not_taken_for_this_one():
    small, large = (tf.function(lambda x, n=n: [tf.sin(x * i) for i in range(n)]) for n in (2, 60))
    optimized_graph(lambda: small(tf.ones(3)))
    large(tf.ones(3))
    other = tf.function(lambda x: tf.cos(x))
    nodes = optimized_graph(lambda: other(tf.ones(3)))[1]
    assert "Cos" in {node.op for node in nodes}
