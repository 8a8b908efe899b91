"""Two replicas train as one device does where Keras alone would not have them do so."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.real_process import python

pytestmark = pytest.mark.thorough

TESTS = Path(__file__).parents[1]

# In a process of its own: the devices are made when TensorFlow starts. It ends by `os._exit`, since
# several MirroredStrategies of one process hang in TensorFlow's own end.
SCRIPT = """
import json, os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import tensorflow as tf
[cpu] = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
import keras
import numpy as np
from support.in_process import train_here
from tfopt_core import Workload
from tfopt_core.errors import TfoptError
from tfopt_distribute.mirrored import Mirrored

rng = np.random.default_rng(0)
x = rng.normal(size=(13, 4)).astype("float32")
y = (3 * x.sum(1) + 1).astype("float32")

class OwnLoss(keras.Model):
    def train_step(self, data):
        a, b = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(a, b, self(a, training=True))
        grads = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables))
        return {"loss": 7.0 + 0.0 * loss, "extra": tf.reduce_max(b)}

def workload(optimizer, loss="mse", own=False, normalized=False):
    def build():
        inputs = keras.Input((4,))
        hidden = keras.layers.BatchNormalization()(inputs) if normalized else inputs
        outputs = keras.layers.Dense(1)(hidden)
        return (OwnLoss if own else keras.Model)(inputs, outputs)
    return Workload(train=(x, y), build_model=build, optimizer=optimizer, loss=loss,
                    quality_metric="loss")

def weights(work, *plugins, name):
    folder = Path(sys.argv[2]) / f"{name}-{len(plugins)}"
    built, outcome = train_here(work(), *plugins, folder=folder, epochs=3, batch_size=5)
    found = [float(z) for w in built.model.get_weights() for z in np.ravel(w)]
    return {"weights": found, "history": outcome.history, "model": built.model}

SGD = keras.optimizers.SGD
cases = {
    "clipnorm": lambda: workload(lambda: SGD(0.1, clipnorm=0.5)),
    "global_clipnorm": lambda: workload(lambda: SGD(0.1, global_clipnorm=0.5)),
    "clipvalue": lambda: workload(lambda: SGD(0.1, clipvalue=0.2)),
    "sum": lambda: workload(lambda: SGD(0.01), loss=keras.losses.MeanSquaredError("sum")),
    "own": lambda: workload(lambda: SGD(0.1), own=True),
    "normalized": lambda: workload(lambda: SGD(0.01), normalized=True),
}
broken = {
    "accumulation": lambda: workload(lambda: SGD(0.1, gradient_accumulation_steps=2)),
    "reduction": lambda: workload("sgd", loss=keras.losses.MeanSquaredError(
        reduction="mean_with_sample_weight")),
}
name = sys.argv[3]
if name in cases:
    work = cases[name]
    one, two = weights(work, name=name), weights(work, Mirrored(), name=name)
    model = two.pop("model")
    one.pop("model")
    averages = [[float(part.numpy()[0]) for part in variable.value.values]
                for variable in model.non_trainable_variables if "moving" in variable.path]
    said = {"one": one, "two": two, "averages": averages}
else:
    try:
        weights(broken[name], Mirrored(), name=name)
    except TfoptError as error:
        said = str(error)
Path(sys.argv[2], f"{name}.json").write_text(json.dumps(said))
os._exit(0)
""".replace("Mirrored()", 'Mirrored(devices=("/cpu:0", "/cpu:1"))')


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """What a case said, which is trained the first time that it is asked for."""
    folder = tmp_path_factory.mktemp("replicas")

    @functools.cache
    def said_by(case: str) -> Any:
        done = python("-c", SCRIPT, TESTS, folder, case, cwd=folder)
        assert (folder / f"{case}.json").exists(), done.err
        return json.loads((folder / f"{case}.json").read_text())

    return said_by


@pytest.mark.parametrize("case", ["clipnorm", "global_clipnorm", "clipvalue", "sum", "own"])
def test_weights_are_those_of_one_device(said: Callable[[str], Any], case: str) -> None:
    """Clipped gradients, a loss that is a sum, a step of one's own; with an uneven last batch."""
    one, two = said(case)["one"]["weights"], said(case)["two"]["weights"]

    assert two == pytest.approx(one, rel=1e-5, abs=1e-6)


def test_a_log_that_is_named_as_a_metric_stays_the_steps_own(said: Callable[[str], Any]) -> None:
    assert said("own")["one"]["history"]["loss"] == [7.0] * 3
    assert said("own")["two"]["history"]["loss"] == [7.0] * 3


def test_moving_averages_are_the_same_on_all_replicas_when_an_epoch_ends(
    said: Callable[[str], Any],
) -> None:
    averages = said("normalized")["averages"]

    assert len(averages) == 2
    for first, second in averages:
        assert first == second != 0


@pytest.mark.parametrize(
    ("case", "words"),
    [("accumulation", "raise the batch size"), ("reduction", "mean_with_sample_weight")],
)
def test_what_cannot_be_taken_over_replicas_is_refused(
    said: Callable[[str], Any], case: str, words: str
) -> None:
    assert words in said(case)
