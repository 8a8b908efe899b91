"""Mixed precision follows the hardware; layers stay in float32 by name, class or probe."""

from collections import Counter

import numpy as np
import pytest
from support.lazy_modules import keras, tf
from support.plugin_drive import BFLOAT16_CPU, CPU, FakeProbe, machine_with
from tfopt_precision.layer_probe import out_of_line, relative_error
from tfopt_precision.mixed_precision import (
    MixedPrecision,
    choose_policy,
    formats_of_gpu,
    layers_with_weights,
)

from tfopt_core.hooks.context import ProbedTraining
from tfopt_core.hooks.values import PrecisionPolicy, TrainingOptions
from tfopt_core.plugins import PluginRefused
from tfopt_core.training.model.loss_scaling import overflow_steps, prepare_scaling, with_scaled_step
from tfopt_core.training.model.precision import apply_precision, set_policy


@pytest.mark.parametrize(
    ("machine", "policy", "reason"),
    [
        (CPU, "float32", "neither"),
        (BFLOAT16_CPU, "mixed_bfloat16", "natively"),
        (machine_with((8, 0)), "mixed_bfloat16", "8.0"),
        (machine_with((9, 0), (9, 0)), "mixed_bfloat16", "9.0"),
        (machine_with((9, 0), (7, 5)), "mixed_float16", "7.5"),
        (machine_with((7, 0)), "mixed_float16", "7.0"),
        (machine_with((6, 1)), "float32", "no tensor cores"),
    ],
)
def test_policy_is_what_the_weakest_device_computes_natively(machine, policy, reason):
    chosen, why = choose_policy(machine)
    assert chosen == policy
    assert reason in why
    assert MixedPrecision().resolve(FakeProbe(machine=machine)).policy == policy


@pytest.mark.parametrize("policy", ["auto", "mixed_float16"])
def test_the_plan_says_what_the_gpu_computes_on_tensor_cores(policy):
    probe = FakeProbe(machine=machine_with((8, 6)))
    MixedPrecision(policy=policy).resolve(probe)
    gpu = "GPU 0 has compute capability 8.6: float16, bfloat16 and TensorFloat-32 on tensor cores"
    already = "the last in products of float32 already, which is what 16 bits must beat"
    assert probe.notes == [f"{gpu}, {already}"]
    assert "the last switched off" in formats_of_gpu(probe.machine, tf32_enabled=False)
    older = FakeProbe(machine=machine_with((7, 5)))
    MixedPrecision(policy=policy).resolve(older)
    assert older.notes[0].endswith("float16 on tensor cores, neither bfloat16 nor TensorFloat-32")


def test_float16_without_a_gpu_is_refused_unless_forced():
    with pytest.raises(PluginRefused, match="without a GPU"):
        MixedPrecision(policy="mixed_float16").resolve(FakeProbe(machine=BFLOAT16_CPU))
    forced = MixedPrecision(policy="mixed_float16", force=True)
    assert forced.resolve(FakeProbe(machine=CPU)).policy == "mixed_float16"


X = np.random.default_rng(2).random((16, 6), dtype="float32")
Y = X.sum(1, keepdims=True)


def test_an_error_is_relative_to_the_gradient_of_its_layer():
    exact = {"conv/kernel": np.full(4, 10.0), "conv/bias": np.zeros(1), "out/kernel": np.ones(4)}
    rounded = {**exact, "conv/bias": np.full(1, 0.2)}  # before a batch normalization
    assert relative_error(exact, rounded) == pytest.approx(0.01)
    assert relative_error(exact, {**exact, "out/kernel": np.full(4, np.inf)}) == np.inf
    assert relative_error(exact, {**exact, "out/kernel": np.zeros(4)}) == pytest.approx(1)


def test_what_is_out_of_line_is_named_with_the_figures():
    errors = {"a": 0.02, "b": 0.9, "c": 0.03, "d": float("inf")}
    assert list(out_of_line(errors, "float16").items()) == [
        ("b", "in float16 it puts the gradients off by 90.0%, the median of the other layers "
         "is 2.5%"),
        ("d", "its gradients overflow in float16"),
    ]  # fmt: skip
    assert out_of_line({"a": 0.15, "b": 0.001}, "bfloat16") == {}


def network():
    layers = keras.layers
    keras.utils.set_random_seed(3)
    inputs = keras.Input((6,))
    x = layers.Reshape((2, 3))(inputs)
    x = layers.Bidirectional(layers.SimpleRNN(3, return_sequences=True, unroll=True))(x)
    x = layers.MultiHeadAttention(1, 2, name="attention")(x, x)
    x = layers.Dense(4, dtype="float32", name="pinned")(layers.Flatten()(x))
    return keras.Model(inputs, layers.Dense(1, name="out")(x))


def types_in_step(model):
    model.compile("sgd", "mse")
    step = tf.function(lambda: model.train_step((tf.constant(X), tf.constant(Y))))
    graph = step.get_concrete_function().graph.as_graph_def()
    nodes = [*graph.node, *(node for f in graph.library.function for node in f.node_def)]
    named = [node for node in nodes if "MatMul" in node.op or node.op == "Einsum"]
    return Counter((node.op, tf.dtypes.as_dtype(node.attr["T"].type).name) for node in named)


@pytest.mark.thorough
def test_a_step_has_the_same_products_as_one_built_under_the_policy():
    counted = []
    for scope in ("layers", "global"):
        policy = PrecisionPolicy(policy="mixed_bfloat16", scope=scope)
        default = set_policy(policy)
        model = network()
        apply_precision(model, policy, default)
        counted.append(types_in_step(model))
        assert model.get_layer("pinned").compute_dtype == "float32"
        assert {variable.dtype for variable in model.trainable_variables} == {"float32"}
    assert counted[0] == counted[1]
    assert any(dtype == "bfloat16" for _, dtype in counted[0])


def test_layers_stay_in_float32_by_class_with_what_is_within():
    policy = PrecisionPolicy(policy="mixed_bfloat16", scope="layers", float32_types=("MultiHead*",))
    default = set_policy(policy)
    model = network()
    apply_precision(model, policy, default)
    attention = model.get_layer("attention")
    assert {part.compute_dtype for part in attention._flatten_layers()} == {"float32"}


def ends():
    """Layers that may make a model's output, by what they are."""
    layers = keras.layers

    def functional(*parts):
        inputs = hidden = keras.Input((3, 6))
        for part in parts:
            hidden = part(hidden)
        return keras.Model(inputs, hidden)

    def middle():
        return layers.Dense(6, name="middle")

    sequential = [keras.Input((3, 6)), middle(), layers.Dense(2)]
    return {
        "a functional model": functional(middle(), layers.Dense(2)),
        "a sequential model": keras.Sequential(sequential),
        "a model in a model": functional(middle(), functional(layers.Dense(2))),
        "a wrapper in a model": functional(middle(), layers.TimeDistributed(layers.Dense(2))),
        "a wrapper": layers.TimeDistributed(layers.Dense(2)),
        "two wrapped layers": layers.Bidirectional(layers.GRU(2)),
    }


@pytest.mark.thorough
@pytest.mark.parametrize("scope", ["global", "layers"])
def test_an_output_layer_within_another_stays_in_float32_and_those_before_it_do_not(scope):
    policy = PrecisionPolicy(policy="mixed_bfloat16", scope=scope)
    for what in ends():
        default = set_policy(policy)
        end, inputs = ends()[what], keras.Input((3, 6))
        model = keras.Model(inputs, end(keras.layers.Dense(6, name="first")(inputs)))
        apply_precision(model, policy, default)
        low = {part.name for part in layers_with_weights(model) if part.compute_dtype != "float32"}
        before = {"first", "middle"} if "model" in what else {"first"}
        assert low == before, what
        assert model(np.zeros((1, 3, 6))).dtype == "float32", what


def test_the_probe_keeps_what_fails_and_what_is_out_of_line():
    layers = keras.layers

    class Draws(layers.Layer):
        def call(self, inputs):
            return inputs + 0 * keras.random.normal(keras.ops.shape(inputs), seed=1)

    class Cancels(layers.Layer):
        def call(self, inputs):
            return (inputs + 1000.0) - 1000.0

    default = set_policy(PrecisionPolicy(policy="mixed_bfloat16", scope="layers"))
    parts = [keras.Input((6,)), layers.Dense(8, name="first"), Cancels(name="cancels")]
    parts += [layers.Dense(8, name="second"), Draws(name="draws"), layers.Dropout(0.5)]
    model = keras.Sequential([*parts, layers.Dense(8, name="third"), layers.Dense(1)])
    apply_precision(model, PrecisionPolicy(policy="mixed_bfloat16", scope="layers"), default)
    model.compile("sgd", "mse")
    before = [variable.numpy().tolist() for variable in model.variables]
    probe = FakeProbe(machine=BFLOAT16_CPU, probed=ProbedTraining(model, model.train_step, (X, Y)))
    plugin = MixedPrecision(policy="mixed_bfloat16", scope="layers", float32_layers="auto")
    assert plugin.resolve(probe).float32_layers == ("cancels", "draws")
    assert [reason.split(":")[0] for reason in probe.notes[:2]] == [
        'layer "cancels" stays in float32', 'layer "draws" stays in float32',
    ]  # fmt: skip
    assert "raised InvalidArgumentError" in probe.notes[1]
    assert [variable.numpy().tolist() for variable in model.variables] == before
    assert model.get_layer("draws").compute_dtype == "bfloat16"  # as it was


def test_a_block_with_dropout_inside_is_not_kept_for_it():
    layers = keras.layers

    class Block(layers.Layer):
        def __init__(self):
            super().__init__(name="block")
            self.dense, self.dropout = layers.Dense(8), layers.Dropout(0.5)

        def call(self, inputs, training=None):
            return inputs + self.dropout(self.dense(inputs), training=training)

    default = set_policy(PrecisionPolicy(policy="mixed_bfloat16", scope="layers"))
    model = keras.Sequential([keras.Input((6,)), layers.Dense(8), Block(), layers.Dense(1)])
    apply_precision(model, PrecisionPolicy(policy="mixed_bfloat16", scope="layers"), default)
    model.compile("sgd", "mse")
    probe = FakeProbe(machine=BFLOAT16_CPU, probed=ProbedTraining(model, model.train_step, (X, Y)))
    plugin = MixedPrecision(policy="mixed_bfloat16", scope="layers", float32_layers="auto")
    assert plugin.resolve(probe).float32_layers == ()


def own_step(clip=False):
    class Own(keras.Sequential):
        """A model whose step knows nothing of loss scaling."""

        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(self(x, training=True) - y)) * self.factor
            grads = tape.gradient(loss, self.trainable_weights)
            if clip:
                grads = [tf.clip_by_value(gradient, -1e3, 1e3) for gradient in grads]
            self.optimizer.apply_gradients(zip(grads, self.trainable_weights, strict=True))
            return {"loss": loss}

    keras.utils.set_random_seed(3)
    dense = keras.layers.Dense
    return Own([keras.Input((6,)), dense(4), dense(1, dtype="float32")])


def trained(policy, factor, clip=False):
    """A model after 4 steps of its own, with the loss scale of tfopt."""
    chosen = PrecisionPolicy(policy=policy, loss_scale="dynamic")
    set_policy(chosen)
    model = own_step(clip)
    model.factor = factor
    options = with_scaled_step(model, TrainingOptions(optimizer="sgd"), chosen, 1)
    model.compile(keras.optimizers.SGD(0.01 / factor))
    prepare_scaling(model, chosen, 1)
    if options.wrap_train_step is not None:
        model.train_step = options.wrap_train_step(model.train_step)
    model.fit(X, Y, batch_size=16, epochs=4, verbose=0)
    return model


@pytest.mark.thorough
def test_a_step_that_does_not_scale_trains_in_float16_as_in_float32():
    unpatched = tf.GradientTape.gradient
    # gradients of a loss this small are 0 in float16 unless they are scaled
    low, full = (trained(policy, 1e-6) for policy in ("mixed_float16", "float32"))
    start = own_step()
    for a, b, at_start in zip(low.weights[:1], full.weights[:1], start.weights[:1], strict=True):
        moved = np.abs(b.numpy() - at_start.numpy()).max()
        assert np.abs(a.numpy() - b.numpy()).max() < 0.02 * moved
    assert overflow_steps(low.optimizer) == 0
    assert tf.GradientTape.gradient is unpatched


def test_steps_that_overflow_are_skipped_and_counted_even_if_the_step_clips():
    model = trained("mixed_float16", 1.0, clip=True)
    skipped = overflow_steps(model.optimizer)
    assert skipped is not None
    assert 0 < skipped < 4
    assert float(model.optimizer.dynamic_scale.numpy()) == 2.0 ** (15 - skipped)
    assert all(np.isfinite(weight.numpy()).all() for weight in model.weights)
