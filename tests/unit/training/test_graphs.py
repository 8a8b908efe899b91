"""What is read of a model: loops and branches of its step, frozen weights, penalties."""

import inspect

import numpy as np
import pytest
from support.lazy_modules import keras, layers, tf

from tfopt_core.diagnosis.step_graph import graph_findings
from tfopt_core.toolkit.graphs import StepGraph, optimized_graph, traced_step
from tfopt_core.training.fit_monitor import with_data_loss
from tfopt_core.training.model.layers import frozen_share


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


def python(x, kernel):
    same = tf.numpy_function(lambda value: value, [x], tf.float32)
    return tf.ensure_shape(same, x.shape) @ kernel


@pytest.mark.parametrize(
    ("call", "kind", "said", "line"),
    [
        (python, "python-function", "", "tf.numpy_function"),
        (branch, "control-flow", "a branch", "tf.cond"),
        (loop, "control-flow", "a loop of 5 rounds", "tf.while_loop"),
    ],
)
def test_what_holds_up_a_step_is_named_once_with_its_line(call, kind, said, line):
    [finding] = found(call)
    assert finding.kind == kind
    assert said in finding.detail
    assert finding.place == line_of(call, line)
    assert found(once) == []


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


# The share of a model's weights that are frozen


def test_weights_of_nested_frozen_layers_count_once_and_statistics_of_trained_ones_do_not():
    base = keras.Sequential([keras.Input((4,)), layers.Dense(10), layers.BatchNormalization()])
    base.trainable = False
    inputs = keras.Input((4,))
    hidden = layers.BatchNormalization()(base(inputs))
    model = keras.Model(inputs, layers.Dense(1)(hidden))
    # 50 + 40 frozen, 40 + 11 not
    assert frozen_share(model) == pytest.approx(90 / 141)
    base.trainable = True
    assert frozen_share(model) == 0


# The validation loss without the penalties on weights


def model_of(*names, **arguments):
    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(1, kernel_initializer="ones", **arguments)]
    )
    model.layers[0].trainable = "frozen" not in names
    return model


@pytest.mark.parametrize(
    ("model", "data_loss"),
    [
        (lambda: model_of(), 9.0),
        (lambda: model_of(kernel_regularizer=keras.regularizers.L2(0.5)), 7.5),
        (lambda: model_of("frozen", kernel_regularizer="l2"), 9.0),
        (lambda: model_of(activity_regularizer="l1"), 9.0),  # it is a loss of the data
    ],
)
def test_the_penalties_on_trained_weights_are_taken_off(model, data_loss):
    metrics = with_data_loss({"loss": 10.0, "val_loss": 9.0}, model())
    assert metrics == {"loss": 10.0, "val_loss": 9.0, "val_data_loss": pytest.approx(data_loss)}


def test_what_is_taken_off_is_what_keras_adds():
    model = model_of(kernel_regularizer="l2")
    model.compile("sgd", "mse")
    logs = model.evaluate(np.ones((1, 3)), np.zeros((1, 1)), return_dict=True, verbose=0)
    metrics = with_data_loss({"val_loss": logs["loss"]}, model)
    assert metrics["val_data_loss"] == pytest.approx(9.0)
