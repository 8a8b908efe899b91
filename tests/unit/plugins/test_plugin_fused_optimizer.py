"""The kernels make the updates of Keras' optimizers; what keeps Keras' own is named."""

import numpy as np
import pytest
from support.lazy_modules import keras, tf
from support.plugin_drive import machine_with
from tfopt_training.fused_optimizer import FusedOptimizer, FusedUpdates
from tfopt_training.update_kernels import Kernels, kernels_of

from tfopt_core.plugins import TrainingOptions
from tfopt_core.testing import make_run

ROWS, WIDTH, STEPS = 9, 4, 4
# Row 2 stands three times in each batch, and others in none.
INDICES = [2, 5, 2, 7, 0, 2]
# The kernel of Adam computes 1 - beta_2 in float32.
SLOTS_WITHIN, WEIGHTS_WITHIN = 2e-5, 2e-6
# optimizers, and whether XLA compiles the step
KEPT = [("adam", False), ("adam", True), ("adamw", False), ("nesterov", False), ("rmsprop", False)]
REST = [
    ("averaged", False), ("accumulating", False), ("scaling", False), ("descent", False),
    ("momentum", True), ("nesterov", True), ("rmsprop", True),
]  # fmt: skip


def made(name):
    from keras import optimizers as kinds

    return {
        "adam": lambda: kinds.Adam(0.01),
        "adamw": lambda: kinds.AdamW(
            kinds.schedules.CosineDecay(0.01, 5), weight_decay=0.1, global_clipnorm=1.0
        ),
        "averaged": lambda: kinds.Adam(0.01, use_ema=True, ema_overwrite_frequency=3),
        "accumulating": lambda: kinds.Adam(0.01, gradient_accumulation_steps=2),
        "scaling": lambda: kinds.LossScaleOptimizer(kinds.Adam(0.01), initial_scale=8.0),
        "descent": lambda: kinds.SGD(0.1),
        "momentum": lambda: kinds.SGD(0.1, momentum=0.9),
        "nesterov": lambda: kinds.SGD(0.1, momentum=0.9, nesterov=True, clipnorm=1.0),
        "rmsprop": lambda: kinds.RMSprop(0.01),
    }[name]()


def updated(optimizer, updates, *, compiled=False):
    """Return the weights and the optimizer's variables after some updates."""
    random = np.random.default_rng(0)
    table, kernel = (
        keras.Variable(random.normal(size=(ROWS, WIDTH)).astype("float32"), name=name)
        for name in ("table", "kernel")
    )
    optimizer.build([table, kernel])
    model = keras.Model()
    model.optimizer, model.jit_compile = optimizer, compiled

    def step(values, whole):
        rows = tf.IndexedSlices(values, tf.constant(INDICES), tf.constant([ROWS, WIDTH]))
        optimizer.apply([rows, whole], [table, kernel])

    def fused(values, whole):
        if updates is None:
            step(values, whole)
        else:
            with updates.within(model):
                step(values, whole)

    function = tf.function(fused, jit_compile=compiled)
    for _ in range(STEPS):
        values = random.normal(size=(len(INDICES), WIDTH)).astype("float32")
        function(tf.constant(values), tf.constant(values[:1] * np.ones((ROWS, 1), "float32")))
    return [table.numpy(), kernel.numpy(), *(v.numpy() for v in optimizer.variables)]


@pytest.mark.parametrize(
    ("name", "compiled"), [*KEPT, *(pytest.param(*one, marks=pytest.mark.thorough) for one in REST)]
)
def test_the_kernels_make_the_updates_of_keras(name, compiled):
    updates = FusedUpdates(min_elements=1)
    expected, fused = updated(made(name), None), updated(made(name), updates, compiled=compiled)
    for index, (theirs, ours) in enumerate(zip(expected, fused, strict=True)):
        within = WEIGHTS_WITHIN if index < 2 else SLOTS_WITHIN
        np.testing.assert_allclose(ours, theirs, rtol=within, atol=within)
    # Keras makes these a gradient of the whole table: by clipping the norm of all, and by adding up
    dense = name in ("adamw", "accumulating")
    assert ("table" in updates.rows) == (not dense and name != "descent")
    assert ("table" in updates.whole) == dense
    assert ("kernel" in updates.whole) == (not compiled and name != "rmsprop")


def test_a_row_that_stands_several_times_has_its_gradients_squared_by_each_optimizer_of_a_model():
    table, optimizer = keras.Variable(np.zeros((3, 1), "float32")), keras.optimizers.Adam()
    optimizer.build([table])
    gradient = tf.IndexedSlices(tf.constant([[1.0], [2.0]]), tf.constant([1, 1]), [3, 1])
    model = keras.Model()
    model.optimizer, model.of_its_own_step = keras.optimizers.SGD(), optimizer
    updates = FusedUpdates(min_elements=1)
    with updates.within(model):
        optimizer.apply([gradient], [table])
    assert len(updates.rows) == 1
    _, _, momentum, velocity = optimizer.variables
    np.testing.assert_allclose(momentum.numpy()[1], 0.1 * (1 + 2), rtol=1e-6)
    np.testing.assert_allclose(velocity.numpy()[1], 0.001 * (1 + 4), rtol=1e-6)


def test_optimizers_that_keep_their_own_updates_are_named():
    from keras import optimizers as kinds

    class Mine(kinds.Adam):
        pass

    patched = kinds.Adam()
    patched.update_step = lambda gradient, variable, rate: None
    for optimizer, message in [
        (Mine(), "the optimizer is Mine"),
        (kinds.Lion(), "the optimizer is Lion"),
        (kinds.Adam(amsgrad=True), "with amsgrad"),
        (kinds.Adam(beta_1=0.0), "no number between 0 and 1"),
        (kinds.RMSprop(centered=True), "another slot"),
        (kinds.RMSprop(momentum=0.5), "another slot"),
        (patched, "an update_step of its own"),
    ]:
        reason = kernels_of(optimizer)
        assert isinstance(reason, str)
        assert message in reason
    assert isinstance(kernels_of(kinds.AdamW()), Kernels)


def test_small_variables_keep_their_update_and_the_optimizer_is_left_as_it_was():
    updates, optimizer = FusedUpdates(min_elements=ROWS * WIDTH + 1), made("adam")
    expected = updated(made("adam"), None)
    for theirs, ours in zip(expected, updated(optimizer, updates), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert updates.reasons == dict.fromkeys(("table", "kernel"), "fewer than 37 elements")
    assert "update_step" not in vars(optimizer)


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (make_run(replicas=2), "the updates are those of 2 replicas"),
        (make_run(machine=machine_with((8, 0))), "on CPUs alone"),
        (make_run(cluster=object()), "several processes share"),
    ],
)
def test_replicas_clusters_and_gpus_are_left_alone(run, message):
    plugin, before = FusedOptimizer(), TrainingOptions(optimizer="adam")
    assert plugin.configure_training(run, None, before) is before
    effect = plugin.report_effect(run)
    assert not effect.applied
    assert message in effect.detail
