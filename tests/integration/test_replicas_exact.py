"""Two replicas train as one device does where Keras alone would not have them do so."""

import json
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

def tokens():
    inputs = keras.Input((6,), dtype="int32")
    return inputs, keras.layers.Embedding(9, 4, mask_zero=True)(inputs)

def padded():
    inputs, hidden = tokens()
    return keras.Model(inputs, keras.layers.Dense(5)(hidden))

def two_outputs():
    inputs, hidden = tokens()
    pooled = keras.layers.GlobalAveragePooling1D()(hidden)
    penalized = keras.layers.Dense(1, kernel_regularizer="l2", activity_regularizer="l2")
    return keras.Model(inputs, [keras.layers.Dense(5)(hidden), penalized(pooled)])

def classified():
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])

# whole sequences and nearly empty ones: the halves of a batch hold other numbers of tokens
words = rng.integers(1, 9, (13, 6)) * (np.arange(6) < rng.integers(1, 7, (13, 1)))
words[1::2, 1:] = 0
words[12] = [0, 0, 3, 0, 4, 5]
tags = (words + np.arange(6)) % 5
sparse = keras.losses.SparseCategoricalCrossentropy
own_classes = np.arange(13) % 3

def of(data, build, loss, **more):
    return lambda: Workload(train=data, validation=data, build_model=build, loss=loss,
                            optimizer=lambda: SGD(0.1), quality_metric="loss", **more)

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
    "masked and weighted": of((words, tags, rng.random((13, 6))), padded, sparse(from_logits=True)),
    # the last batch is of one example, so that a replica has none
    "ignored class": of((words[:11], np.where(words, tags, -1)[:11]), padded,
                        sparse(from_logits=True, ignore_class=-1)),
    "one output masked": of((words, (tags, y)), two_outputs, [sparse(from_logits=True), "mse"],
                            loss_weights=[1.0, 0.1]),
    "a sum and a mean": of((words, (tags, y)), two_outputs,
                           [sparse(from_logits=True), keras.losses.MeanSquaredError("sum")],
                           loss_weights=[1.0, 0.01]),
    "masked sum": of((words, tags), padded, sparse(from_logits=True, reduction="sum")),
    "example weights": of((x, y, np.arange(13.0)), lambda: workload("sgd").build_model(), "mse"),
    "class weights": of((x, own_classes), classified, sparse(from_logits=True),
                        class_weight={0: 1.0, 1: 5.0, 2: 0.1}),
}
broken = {
    "accumulation": lambda: workload(lambda: SGD(0.1, gradient_accumulation_steps=2)),
    "reduction": lambda: workload("sgd", loss=keras.losses.MeanSquaredError(
        reduction="mean_with_sample_weight")),
    "one number": lambda: workload("sgd", loss=lambda a, b: keras.ops.mean((a - b) ** 2)),
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


def said(case: str, folder: Path) -> Any:
    """Return what a case said of its trainings."""
    done = python("-c", SCRIPT, TESTS, folder, case, cwd=folder)
    found = folder / f"{case}.json"
    assert found.exists(), done.err
    return json.loads(found.read_text())


CLIPPED = ["clipnorm", "global_clipnorm", "clipvalue"]
MASKED = ["masked and weighted", "ignored class", "one output masked", "masked sum"]
WEIGHTED = ["example weights", "class weights", "a sum and a mean"]


@pytest.mark.parametrize("case", [*CLIPPED, "sum", "own", *MASKED, *WEIGHTED])
def test_weights_and_losses_are_those_of_one_device(case: str, tmp_path: Path) -> None:
    """Clipped gradients, a loss that is a sum, masks; with an uneven last batch."""
    found = said(case, tmp_path)
    one, two = found["one"], found["two"]
    assert two["weights"] == pytest.approx(one["weights"], rel=1e-5, abs=1e-6)
    assert one["history"].keys() == two["history"].keys()
    if case == "own":  # a log that is named as a metric stays the step's own
        assert one["history"]["loss"] == two["history"]["loss"] == [7.0] * 3
    elif case not in CLIPPED:
        # Keras logs the loss of each of several outputs as a mean over replicas of any size
        for name, values in one["history"].items():
            if not name.removeprefix("val_").startswith("dense"):
                assert two["history"][name] == pytest.approx(values, rel=1e-5, abs=1e-6), name


def test_moving_averages_are_the_same_on_all_replicas_when_an_epoch_ends(tmp_path: Path) -> None:
    averages = said("normalized", tmp_path)["averages"]

    assert len(averages) == 2
    for first, second in averages:
        assert first == second != 0


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("accumulation", "raise the batch size"),
        ("reduction", "mean_with_sample_weight"),
        ("one number", "one number for a whole batch"),
    ],
)
def test_what_cannot_be_taken_over_replicas_is_refused(case, words, tmp_path):
    assert words in said(case, tmp_path)
