"""LSTM and GRU layers compute what Keras' loop over steps computes."""

import itertools

import attrs
import numpy as np
import pytest
from support.cases import mostly_thorough
from support.lazy_modules import keras, tf
from support.plugin_drive import machine_with
from tfopt_model import fused_transformer
from tfopt_model.fused_layers import FusedLayers, release
from tfopt_model.fused_recurrent import FusedRecurrent, fuse, recurrent_layers, why_not_fused
from tfopt_model.fused_transformer import FusedTransformer

from tfopt_core.errors import PluginRefused
from tfopt_core.plugins import TrainingOptions
from tfopt_core.testing import make_run

BATCH, STEPS, FEATURES, UNITS = 6, 7, 5, 4
# What another order of sums may change, of the largest number of a tensor.
ROUNDING = 2e-6


def inputs():
    return np.random.default_rng(0).normal(size=(BATCH, STEPS, FEATURES)).astype("float32")


def some_mask():
    """Of every kind: none left, all, padded right, padded left, with holes."""
    mask = np.random.default_rng(1).random((BATCH, STEPS)) > 0.4
    mask[:4] = False
    mask[1], mask[2, :3], mask[3, 4:] = True, True, True
    return mask


def outputs_and_gradients(layer, mask=None, states=None, shape=None):
    """What a traced call of the layer computes; in `shape` what is unknown to the trace is None."""
    keras.utils.set_random_seed(4)
    layer.cell.reset_dropout_mask()
    if layer.cell.dropout:
        layer.cell.seed_generator.state.assign([1, 2])
    x, shape = inputs(), (BATCH, STEPS, FEATURES) if shape is None else shape

    def computed(x, mask):
        with tf.GradientTape() as tape:
            tape.watch(x)
            given = {} if mask is None else {"mask": mask}
            outputs = layer(x, training=True, initial_state=states, **given)
            parts = tf.nest.flatten(outputs)
            # each number counts otherwise, so that a gradient of the wrong place shows
            loss = tf.add_n(
                [tf.reduce_sum(tf.sin((i + 1.0) * part)) for i, part in enumerate(parts)]
            )
        weights = [variable.value for variable in layer.trainable_variables]
        return [*parts, *tape.gradient(loss, [x, *weights], unconnected_gradients="zero")]

    specs = (
        tf.TensorSpec(shape, "float32"),
        None if mask is None else tf.TensorSpec(shape[:2], "bool"),
    )
    traced = tf.function(computed, autograph=False).get_concrete_function(*specs)
    return list(traced(*(tf.constant(one) for one in (x, mask) if one is not None)))


def lstm(**settings):
    keras.utils.set_random_seed(3)
    settings = {"unit_forget_bias": False, "bias_initializer": "random_normal", **settings}
    layer = keras.layers.LSTM(UNITS, **settings)
    layer.build((BATCH, STEPS, FEATURES))
    return layer


def gru(**settings):
    keras.utils.set_random_seed(3)
    layer = keras.layers.GRU(UNITS, **{"bias_initializer": "random_normal", **settings})
    layer.build((BATCH, STEPS, FEATURES))
    return layer


KINDS = [lstm, gru]


def assert_equal_to_keras(layer, *given, **others):
    expected = outputs_and_gradients(layer, *given, **others)
    fused = FusedLayers()
    assert fuse(layer, fused) == ""
    computed = outputs_and_gradients(layer, *given, **others)
    release(layer)
    assert list(fused.traced) == [layer.name]
    assert computed[0].shape == expected[0].shape
    for ours, theirs in zip(computed, expected, strict=True):
        scale = max(1e-3, float(np.abs(theirs).max()))
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=ROUNDING * scale)


SWITCHES = (
    "return_sequences", "go_backwards", "return_state", "zero_output_for_mask", "masked", "lstm",
)  # fmt: skip
CASES = [dict(zip(SWITCHES, on, strict=True)) for on in itertools.product((True, False), repeat=6)]
# with these, any two switches are both on, both off, and one of them on
KEPT = [
    {name: digit == "1" for name, digit in zip(SWITCHES, row, strict=True)}
    for row in ("111111", "111000", "100110", "010101", "001011", "000000")
]


@pytest.mark.parametrize(
    "on",
    mostly_thorough(
        CASES, KEPT, ids=lambda on: " ".join(name for name in on if on[name]) or "plain"
    ),
)
def test_outputs_states_and_gradients_are_those_of_keras(on):
    settings = {name: on[name] for name in SWITCHES[:4]}
    kind = lstm if on["lstm"] else gru
    assert_equal_to_keras(kind(**settings), some_mask() if on["masked"] else None)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("masked", [True, False])
def test_with_an_unknown_number_of_examples_and_steps_it_is_equal_too(masked, kind):
    layer, mask = kind(return_sequences=True), some_mask() if masked else None
    assert_equal_to_keras(layer, mask, shape=(None, None, FEATURES))


@pytest.mark.parametrize(("steps", "compiled"), [(STEPS, True), (None, False)])
def test_xla_compiles_the_gradient_of_a_known_number_of_steps(steps, compiled):
    layer = lstm()
    fuse(layer, FusedLayers())

    def gradients(x):
        with tf.GradientTape() as tape:
            outputs = layer(x)
        return tape.gradient(outputs, [variable.value for variable in layer.trainable_variables])

    spec = tf.TensorSpec([None, steps, FEATURES], "float32")
    graph = tf.function(gradients, autograph=False).get_concrete_function(spec).graph
    kinds = {operation.type for operation in graph.get_operations()}
    assert ("BlockLSTMGrad" in kinds) is not compiled
    functions = graph.as_graph_def().library.function
    assert any(one.attr["_XlaMustCompile"].b for one in functions) is compiled


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_initial_states_biases_and_dropout_are_those_of_keras(kind):
    states = [np.full((BATCH, UNITS), value, "float32") for value in (0.5, -0.3)]
    states = states[: len(kind().cell.get_initial_state(1))]
    assert_equal_to_keras(kind(return_state=True), states=states)
    assert_equal_to_keras(kind(return_state=True, return_sequences=True), some_mask(), states)
    assert_equal_to_keras(kind(use_bias=False))
    assert_equal_to_keras(kind(dropout=0.4, return_sequences=True), some_mask())


def normalization():
    return keras.layers.LayerNormalization()


@pytest.mark.parametrize(
    ("kind", "fuse", "plugin"),
    [
        (normalization, fused_transformer.fuse, "fused-transformer"),
        *(pytest.param(kind, fuse, "fused-recurrent", marks=pytest.mark.thorough)
          for kind in KINDS),
    ],
)  # fmt: skip
def test_a_second_derivative_is_an_error_that_names_the_plugin(kind, fuse, plugin):
    layer, x = kind(), tf.constant(inputs())
    layer(x)
    fuse(layer, FusedLayers())

    def derived_twice(x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                outputs = tf.reduce_sum(layer(x) ** 3)
            first = inner.gradient(outputs, x)
        return outer.gradient(first, x)

    with pytest.raises(NotImplementedError, match=f"{plugin} has no second derivative"):
        tf.function(derived_twice, autograph=False)(x)


def test_a_layer_in_bfloat16_keeps_its_own_loop_and_is_named():
    layer, fused = lstm(dtype="mixed_bfloat16"), FusedLayers()
    expected = layer(inputs())
    fuse(layer, fused)
    np.testing.assert_array_equal(layer(inputs()), expected)
    assert not fused.traced
    assert fused.reasons == {layer.name: "it computes in bfloat16, and only float32 is reached"}


def test_layers_within_wrappers_are_found_once():
    layers = keras.layers
    shared = layers.LSTM(UNITS, name="shared")
    start = keras.Input((STEPS, FEATURES))
    both = layers.Bidirectional(layers.LSTM(UNITS, name="both"))(start)
    inner = keras.Sequential([start, layers.RNN(layers.LSTMCell(UNITS), name="inner")])
    model = keras.Model(start, [both, inner(start), shared(start), shared(start)])
    names = sorted(layer.name for layer in recurrent_layers(model))
    assert names == ["backward_both", "forward_both", "inner", "shared"]


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"activation": "relu"}, "activation is relu"),
        ({"recurrent_activation": "hard_sigmoid"}, "recurrent_activation is hard_sigmoid"),
        ({"recurrent_dropout": 0.1}, "recurrent states"),
        ({"dropout": 0.1, "implementation": 1}, "implementation=1"),
        ({"unroll": True}, "unrolled"),
    ],
)
def test_a_layer_that_is_not_computed_is_named(settings, word):
    assert word in why_not_fused(lstm(**settings))
    assert word in why_not_fused(gru(**settings))


def test_a_reset_gate_before_the_product_is_left_to_keras():
    assert "reset_after=False" in why_not_fused(gru(reset_after=False))


def test_other_cells_and_loops_of_users_are_left_alone():
    class Own(keras.layers.LSTM):
        def inner_loop(self, *args, **kwargs):
            return super().inner_loop(*args, **kwargs)

    class OwnCell(keras.layers.LSTMCell):
        pass

    assert "inner_loop of its own" in why_not_fused(Own(3))
    assert "SimpleRNNCell" in why_not_fused(keras.layers.SimpleRNN(3))
    assert "OwnCell" in why_not_fused(keras.layers.RNN(OwnCell(3)))


@pytest.mark.parametrize("plugin", [FusedRecurrent(), FusedTransformer()])
def test_xla_of_another_plugin_is_refused_with_the_mend(plugin):
    run = make_run(settings={"resident": {"xla": True}})
    with pytest.raises(PluginRefused, match='set xla = false in "resident"'):
        plugin.configure_training(run, None, TrainingOptions(optimizer="adam"))


@pytest.mark.parametrize(
    ("plugin", "kind", "method", "compiled", "on_gpu"),
    [(FusedRecurrent(), "LSTM", "inner_loop", "the workload compiles", "cuDNN"),
     (FusedTransformer(), "LayerNormalization", "call", "the workload has XLA", "on a GPU")],
)  # fmt: skip
def test_a_gpu_or_a_workload_that_compiles_by_xla_is_left_alone(
    plugin, kind, method, compiled, on_gpu
):
    plain = TrainingOptions(optimizer="adam")
    for run, options, word in (
        (make_run(), attrs.evolve(plain, jit_compile=True), compiled),
        (make_run(machine=machine_with((8, 0))), plain, on_gpu),
    ):
        layer = lstm() if kind == "LSTM" else getattr(keras.layers, kind)()
        model = plugin.wrap_model(run, keras.Sequential([keras.Input((STEPS, FEATURES)), layer]))
        plugin.configure_training(run, model, options)
        assert method not in vars(model.layers[0])
        assert word in plugin.report_effect(run).detail
