"""Loops that know the shapes of their data are made anew when the data are."""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any

import attrs
import numpy as np
import pytest
from support.in_process import build_here
from tfopt_runtime.chunked import Chunked

from tfopt_core import Workload, hookimpl, loop_report
from tfopt_core.training.fit import train

pytestmark = pytest.mark.tensorflow

EXAMPLES = 40


@attrs.frozen(kw_only=True, eq=False)
class Growing:
    """Pictures of 4 pixels a side in the first epoch, of 8 from the second on."""

    @hookimpl(wrapper=True)
    def build_dataset(self, run, split):
        plan = yield
        run.state["built"] = run.state.get("built", 0) + (split == "train")
        side = 4 if run.state["built"] == 1 and split == "train" else 8

        def resized(x: Any, y: Any) -> Any:
            import tensorflow as tf

            return tf.ensure_shape(tf.image.resize(x, (side, side)), (None, side, side, 1)), y

        return plan.map(resized)

    @hookimpl
    def on_epoch_end(self, epoch, control):
        if epoch == 0:
            control.rebuild_data()


def pictures() -> Workload:
    import keras

    def build_model() -> Any:
        layers = keras.layers
        return keras.Sequential([
            keras.Input((None, None, 1)), layers.GlobalAveragePooling2D(), layers.Dense(2)
        ])  # fmt: skip

    source = np.random.default_rng(0)
    x = source.random((EXAMPLES, 16, 16, 1), dtype="float32")
    return Workload(
        train=(x, (x.mean((1, 2, 3)) > 0.5).astype("int32")), build_model=build_model,
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), quality_metric="loss",
    )  # fmt: skip


@pytest.mark.parametrize(
    "xla",
    [pytest.param(True, marks=pytest.mark.thorough, id="XLA"), pytest.param(False, id="no XLA")],
)
def test_a_chunked_loop_goes_on_with_pictures_of_another_size(xla, tmp_path):
    losses = []
    for loop in ((), (Chunked(steps=2, xla=xla),)):
        built = build_here(
            pictures(), Growing(), *loop, folder=tmp_path, seed=3, epochs=3, batch_size=8
        )
        losses.append(train(built, perf_counter_ns(), lambda message: None).history["loss"])
    assert losses[1] == pytest.approx(losses[0], abs=1e-4)
    made = loop_report(built.model)
    assert made.steps == 3 * EXAMPLES // 8
    assert (made.compiled_steps > 0) is xla


def test_a_callback_on_validation_batches_keeps_keras_own_loop(tmp_path):
    import keras

    class Counts(keras.callbacks.Callback):
        batches = 0

        def on_test_batch_end(self, batch, logs=None):
            Counts.batches += 1

    given = pictures()
    given = attrs.evolve(given, validation=given.train, callbacks=lambda: [Counts()])
    loop = Chunked(steps=2, xla=False)
    built = build_here(given, loop, folder=tmp_path, seed=3, epochs=1, batch_size=8)
    train(built, perf_counter_ns(), lambda message: None)
    assert Counts.batches == EXAMPLES // 8
    effect = built.stack.report_effects(built.run, built.model)["Chunked"]
    assert not effect.applied
    assert "Counts acts on every batch" in effect.detail
