"""`tfopt export`: the file trains as `tfopt train` does, to the same losses, without tfopt."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from support.forked_command import runs_forked
from support.in_process import InProcessRunner
from support.real_process import environment, python, tfopt

from tfopt_core.app.command_request import make_request
from tfopt_core.records.variants import FULL, ScheduledRun, Variant
from tfopt_core.trials.processes import Processes
from tfopt_core.workers.spawn import Runner, SpawnRunner

pytestmark = pytest.mark.slow

SEED = 7
# The workload's own module imports tfopt for one class, and does without.
WORK = """
import numpy as np

try:
    from tfopt_core import Workload
except ModuleNotFoundError:
    from types import SimpleNamespace as Workload


def scaled(x, y):
    return x * 2.0 + 1.0, y


def jitter(x, y, seed):
    import tensorflow as tf

    return x + 0.1 * tf.random.stateless_normal(tf.shape(x), seed), y


def model():
    import keras

    layers = keras.layers
    hidden = layers.Dense(5, "tanh")
    return keras.Sequential([keras.Input((6,)), layers.Dropout(0.3), hidden, layers.Dense(1)])


def build(count=50):
    import tensorflow as tf

    x = np.random.default_rng(0).normal(size=(count, 6)).astype("float32")
    train = tf.data.Dataset.from_tensor_slices((x, x.sum(1, keepdims=True))).map(scaled)
    return Workload(
        train=train, validation=(x[:9], x[:9, :1]), build_model=model, optimizer="sgd",
        loss="mse", metrics=["mae"], batch_size=8, class_weight=None,
    )
"""
RECIPE = """
[workload]
factory = "work.py:build"
epochs = 2
options = { count = 45 }
[[plugins]]
use = "l2"
[[plugins]]
use = "dropconnect"
[[plugins]]
use = "lr-schedule"
schedule = "cosine-restarts"
first_restart_epochs = 0.5
warmup_epochs = 0.5
[[plugins]]
use = "cache"
storage = "memory"
[[plugins]]
use = "augment"
function = "work.py:jitter"
on = "batches"
parallel = 1
[[plugins]]
use = "resident"
xla = false
steps = 2
"""
SCRIPT = """
import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(11)
x = np.random.normal(size=(60, 4)).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, x.sum(1))).map(lambda x, y: (x * 2, y))
data = data.shuffle(60).batch(16)  # shuffled anew each epoch
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile(optimizer="adam", loss="mse")  # no metrics
history = model.fit(data, epochs=2, verbose=0)
print("history", history.history)
"""
SCRIPT_RECIPE = """
[workload]
script = "script.py"
[[plugins]]
use = "cache"
storage = "memory"
[[plugins]]
use = "chunked"
steps = 3
xla = false
[[plugins]]
use = "mixed-precision"
policy = "mixed_bfloat16"
"""


@pytest.fixture
def forked() -> Iterator[Runner]:
    """Carries out runs in forks of a process that has imported TensorFlow, those of scripts too."""
    with runs_forked():
        yield SpawnRunner()


def last_line_of(path: Path, *arguments: str, without_tfopt: bool) -> str:
    done = python(path, *arguments, cwd=path.parent, without_tfopt=without_tfopt)
    assert done.code == 0, done.err
    return done.out.splitlines()[-1]


def history_of(
    recipe: str, *overrides: str, folder: Path, runner: Runner, **how: bool
) -> dict[str, Any]:
    """The history of a run as `tfopt train` makes it."""
    request = make_request(recipe, overrides, compares=False, keeps=False)[0]
    request = attrs.evolve(request, folder=folder, environment=environment())
    scheduled = ScheduledRun(0, 0, Variant(FULL, request.plugins), SEED)
    trained = Processes(request, runner).run(scheduled, "run", lambda _: None, **how)
    assert trained.ok, trained.error
    return dict(trained.fits[0].history)


def assert_same(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """The file reports what Keras does; tfopt may report a loss without penalties beside it."""
    assert ours.keys() == theirs.keys() - {"data_loss", "val_data_loss"}
    for name, values in ours.items():
        assert values == pytest.approx(list(theirs[name]), rel=1e-6), name


@pytest.mark.thorough
@pytest.mark.tensorflow
def test_the_file_of_a_factory_trains_to_the_same_losses_without_tfopt(tmp_path: Path):
    (tmp_path / "work.py").write_text(WORK)
    recipe, exported = tmp_path / "recipe.toml", tmp_path / "exported.py"
    recipe.write_text(RECIPE)
    done = tfopt("export", recipe, "--output", exported, cwd=tmp_path)
    assert (done.code, done.out) == (0, ""), done.err
    assert "import tfopt" not in exported.read_text()
    assert "drop_weights(model, [2], 0.5, 'example')" in exported.read_text()
    ours = json.loads(last_line_of(exported, "--seed", str(SEED), without_tfopt=True))
    assert_same(ours, history_of(str(recipe), folder=tmp_path / "runs", runner=InProcessRunner()))


@pytest.mark.thorough
def test_the_file_of_quickstart_trains_to_the_same_losses(tmp_path: Path, forked: Runner):
    overrides = ("workload.epochs=1", "workload.options.examples=256")
    given = [part for each in overrides for part in ("--set", each)]
    exported = tmp_path / "exported.py"
    done = tfopt("export", "quickstart", *given, "--seed", str(SEED), cwd=tmp_path)
    assert done.code == 0, done.err
    exported.write_text(done.out)
    asked = ["format", "--isolated", "--line-length", "100", "--diff", str(exported)]
    formatted = subprocess.run([sys.executable, "-m", "ruff", *asked], capture_output=True)
    assert formatted.stdout.decode() == ""
    ours = json.loads(last_line_of(exported, without_tfopt=False))
    assert_same(ours, history_of("quickstart", *overrides, folder=tmp_path / "runs", runner=forked))


@pytest.mark.thorough
def test_a_script_keeps_its_text_and_trains_to_the_same_losses(tmp_path: Path, forked: Runner):
    (tmp_path / "script.py").write_text(SCRIPT)
    recipe, exported = tmp_path / "recipe.toml", tmp_path / "exported.py"
    recipe.write_text(SCRIPT_RECIPE)
    done = tfopt("export", recipe, "--output", exported, cwd=tmp_path, imported=True)
    assert done.code == 0, done.err
    text = exported.read_text()
    kept = [line for line in SCRIPT.splitlines() if line in text.splitlines()]
    assert set(SCRIPT.splitlines()) - set(kept) == {
        'model.compile(optimizer="adam", loss="mse")  # no metrics',
        "history = model.fit(data, epochs=2, verbose=0)",
    }
    said = last_line_of(exported, without_tfopt=True)
    folder = tmp_path / "runs"
    theirs = history_of(str(recipe), folder=folder, runner=forked, as_it_is=True, own_seeds=True)
    assert_same(ast.literal_eval(said.removeprefix("history ")), theirs)


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path):
    there = tmp_path / "train.py"
    there.write_text("mine")
    done = tfopt("export", "quickstart", "--output", there, cwd=tmp_path)
    assert done.code == 2
    assert "exists already; name another file" in done.err
    assert there.read_text() == "mine"
