"""Loops, branches and repetitions that the graph optimizer of this TensorFlow leaves."""

from __future__ import annotations

import inspect

import pytest
from support.lazy_modules import keras, tf

from tfopt_core.training.graphs.findings import graph_findings
from tfopt_core.training.graphs.operations import StepGraph, optimized_graph, traced_step
from tfopt_core.training.graphs.repetitions import map_repetitions, repeated_nodes

pytestmark = pytest.mark.tensorflow


def found(call, *, elements=64):
    """The findings about the step of a model whose layer calls this."""

    class Layer(keras.layers.Layer):
        def build(self, shape):
            self.kernel = self.add_weight(shape=(elements, elements))

        def call(self, x):
            return call(x, self.kernel)

    given = keras.Input((elements,))
    model = keras.Model(given, Layer()(given))
    model.compile("sgd", "mse", jit_compile=False)
    batch = (tf.ones((32, elements)), tf.ones((32, elements)))
    model.optimizer.build(model.trainable_variables)
    return list(graph_findings(traced_step(model, batch)))


def line_of(function, text):
    lines, start = inspect.getsourcelines(function)
    return f"{__file__}:{start + next(i for i, line in enumerate(lines) if text in line)}"


def twice(x, kernel):
    one = tf.sin(tf.matmul(x, kernel))
    return one + tf.sin(tf.matmul(x, kernel)) * 2.0


def merged_product(x, kernel):
    # the same tensor twice, not two reads of a variable
    one = tf.matmul(x, x, transpose_a=True)
    return x @ (one + tf.matmul(x, x, transpose_a=True)) @ kernel


def once(x, kernel):
    return tf.sin(tf.matmul(x, kernel))


def branch(x, kernel):
    return tf.cond(tf.reduce_sum(x) > 0.0, lambda: x @ kernel, lambda: tf.sin(x @ kernel))


def loop(x, kernel):
    return tf.while_loop(
        lambda n, y: n < 5, lambda n, y: (n + 1, y @ kernel), (0, x), maximum_iterations=5
    )[1]


def test_what_is_computed_twice_is_named_with_its_lines():
    [finding, *others] = [f for f in found(twice) if not f.detail.startswith("Cos")]
    assert finding.kind == "repeated-subexpression"
    assert "Sin of 2,048 numbers is computed 2 times" in finding.detail
    assert finding.place == line_of(twice, "one = ")
    assert line_of(twice, "return one") in finding.detail
    assert [f for f in others if f.place] == []  # not the product within it too


def test_what_the_optimizer_merges_is_not_named():
    assert not any("4,096 numbers" in finding.detail for finding in found(merged_product))


def test_in_a_map_look_ups_are_repeated_and_other_operations_are_merged():
    words = tf.lookup.KeyValueTensorInitializer(["a", "b"], [0.0, 1.0])
    table = tf.lookup.StaticHashTable(words, -1.0)

    def reads_twice(text):
        one = table.lookup(text)
        return tf.sin(one), tf.cos(table.lookup(text))

    def multiplies_twice(x):
        return tf.matmul(x, x) + tf.matmul(x, x) * 2.0

    def in_graph(function, spec):
        return list(
            map_repetitions(tf.function(function).get_concrete_function(spec).graph, "train")
        )

    [read] = in_graph(reads_twice, tf.TensorSpec((None,), tf.string))
    assert (read.kind, read.split) == ("repeated-subexpression", "train")
    assert read.place.startswith(__file__)
    assert "TensorFlow does not merge them" in read.detail
    assert in_graph(multiplies_twice, tf.TensorSpec((64, 64))) == []


def test_what_is_computed_once_is_not_named():
    assert found(once) == []


def test_repetitions_of_few_numbers_are_not_worth_a_word():
    assert found(twice, elements=16) == []


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


def nodes_of(function, *specs):
    graph = tf.function(function).get_concrete_function(*specs).graph
    return list(graph.as_graph_def().node)


def names(function, *specs):
    return [same.op for same in repeated_nodes(nodes_of(function, *specs))]


def test_random_numbers_are_never_the_same():
    assert names(lambda: tf.sin(tf.random.normal((9,))) + tf.sin(tf.random.normal((9,)))) == []


def test_a_variable_read_again_after_a_change_is_another_value():
    variable = tf.Variable(tf.ones((9,)))

    def around():
        before = tf.sin(variable)
        variable.assign_add(before)
        return before + tf.sin(variable)

    assert names(around) == []
    assert names(lambda: tf.sin(variable) + tf.sin(variable)) == ["Sin"]


def test_other_attributes_make_another_value():
    spec = tf.TensorSpec((9, 9))
    assert names(lambda x: tf.matmul(x, x) + tf.matmul(x, x, transpose_a=True), spec) == []


def test_the_graph_optimizers_output_can_be_read_in_this_tensorflow():
    function = tf.function(lambda x: tf.sin(x) + 1.0)
    nodes = optimized_graph(lambda: function(tf.ones(3))).after
    assert {"Sin", "AddV2"} <= {node.op for node in nodes}


def test_what_cannot_be_read_is_unknown():
    def fails():
        raise RuntimeError("another version")

    assert optimized_graph(fails) is None
    assert list(graph_findings(StepGraph(None, fails))) == []


def test_graphs_of_functions_that_ran_before_are_not_taken_for_this_one():
    small, large = (tf.function(lambda x, n=n: [tf.sin(x * i) for i in range(n)]) for n in (2, 60))
    optimized_graph(lambda: small(tf.ones(3)))
    large(tf.ones(3))
    other = tf.function(lambda x: tf.cos(x))
    nodes = optimized_graph(lambda: other(tf.ones(3))).after
    assert "Cos" in {node.op for node in nodes}
