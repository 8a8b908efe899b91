"""Scripts as users have them, run by real processes; tests/integration/scripts/README.md says what
each is."""

import json
from pathlib import Path

import pytest
from support.forked_command import runs_forked
from support.placed_scripts import SCRIPTS, one_run, placed, recipe_for
from support.real_process import TINY, Done, make_project, python, tfopt, tfopt_anew

from tfopt_core.commands.check import check_recipe
from tfopt_core.commands.first_contact import look_alone
from tfopt_core.commands.options import ApplyOptions
from tfopt_core.diagnosis.draft import NothingToMeasure, is_unchanged
from tfopt_core.hooks.plugin_class import EXACT_EQUIVALENCES, equivalence_of
from tfopt_core.report.style.console import make_console

pytestmark = pytest.mark.slow

# A data set of files and callbacks, and a subclass with a step of its own.
WITH_FIT = ("functional_tfdata", "vae_fashion")
# Fits as many scripts have them: compiled once, dropout, a saved model that is trained on.
TWO_FITS = """
import keras
import numpy as np

if __name__ == "__main__":
    keras.utils.set_random_seed(3)
    x = np.random.normal(size=(40, 4)).astype("float32")
    layers = [keras.layers.Dropout(0.3), keras.layers.Dense(1)]
    model = keras.Sequential(layers)
    model.compile("sgd", "mse")
    first = model.fit(x, x[:, :1], epochs=2, verbose=0)
    model.save("model.keras")
    model = keras.models.load_model("model.keras")
    second = model.fit(x, x[:, :1], epochs=3, initial_epoch=2, verbose=0)
    print("history: first", first.history)
    print("history: second", second.history)
"""


def histories(done: Done) -> list[str]:
    return [line for line in done.out.splitlines() if line.startswith("history: ")]


def check_losses_are_those_of_plain_python(folder: Path, name: str, text: str) -> None:
    """Train by plain Python and by `tfopt`, both forked: a script's imports are seen elsewhere."""
    for place in ("plain", "ours"):
        (folder / place).mkdir()
        (folder / place / name).write_text(text)
    plain = python(name, cwd=folder / "plain")
    ours = tfopt("train", recipe_for(folder / "ours" / name), cwd=folder)
    assert ours.code == plain.code == 0, ours.err
    assert histories(ours) == histories(plain)
    assert len(histories(ours)) >= 1
    assert f"fit {len(histories(ours))} of " in ours.out  # each was seen


@pytest.mark.thorough
@pytest.mark.parametrize("name", WITH_FIT)
def test_with_an_empty_stack_losses_are_those_of_plain_python(tmp_path, name):
    text = (SCRIPTS / f"{name}.py").read_text()
    check_losses_are_those_of_plain_python(tmp_path, f"{name}.py", text)


# The one of them that `make test` runs. test_script_session.py has every form of `fit`.
def test_with_an_empty_stack_two_fits_lose_as_in_plain_python(tmp_path):
    check_losses_are_those_of_plain_python(tmp_path, "two_fits.py", TWO_FITS)


def test_a_loop_of_its_own_trains_as_it_is_and_is_told_what_can_be_applied(tmp_path):
    recipe = recipe_for(placed(tmp_path, "eager_tape_conv"), 'args = ["--images", "64"]')
    done = tfopt("train", recipe, cwd=tmp_path)
    assert done.code == 0
    assert "loop of its own" in " ".join(done.out.split())
    assert "tfopt_core.optimize(dataset, recipe)" in " ".join(done.out.split())


IN_A_HELPER = """
def parsed(text):
    return float(text)

parsed("five")
"""
ON_JAX = """
import os
os.environ["KERAS_BACKEND"] = "jax"
import keras
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (IN_A_HELPER, "script.py:3: raised ValueError"),
        pytest.param(ON_JAX, 'sets the Keras backend to "jax"', marks=pytest.mark.thorough),
    ],
    ids=["in a helper", "on JAX"],
)
def test_a_script_that_cannot_be_measured_is_bad_input_with_its_cause(tmp_path, text, said):
    (tmp_path / "script.py").write_text(text)
    # what a script sets before it imports Keras is read by a new process alone
    done = (tfopt_anew if text == ON_JAX else tfopt)("apply", "script.py", cwd=tmp_path)
    assert done.code == 2
    assert said in done.err
    assert "Traceback" not in done.err
    assert not list(tmp_path.glob("*.toml"))


# Goes on from the weights of the last run if these lie in the working folder.
RESUMES = """
import pathlib
import keras
import numpy as np

keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(512, 4)).astype("float32")
layers = [keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)]
model = keras.Sequential([keras.Input((4,)), *layers])
model.compile("sgd", "mse")
if pathlib.Path("last.weights.h5").exists():
    model.load_weights("last.weights.h5")
model.fit(x, x.sum(axis=1, keepdims=True), epochs=2, verbose=0)
model.save_weights("last.weights.h5")
"""
STACK = ("[[plugins]]", 'use = "chunked"', "steps = 2", "xla = false")


@pytest.mark.thorough
def test_runs_are_kept_apart_from_the_folder_and_from_each_other(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(RESUMES)
    recipe = recipe_for(script, *STACK, "[measure]", "pairs = 4", 'attribution = "off"')
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    apply = ("apply", recipe, "-q", "--json", "results.json")
    done = tfopt(*apply, cwd=tmp_path)
    assert done.code == 0, done.err
    results = json.loads((tmp_path / "results.json").read_text())
    assert {run["status"] for run in results["runs"]} == {"ok"}
    counted = [run for run in results["runs"] if run["status"] == "ok"]
    first = [run["fits"][0]["history"]["loss"][0] for run in counted]
    assert len(first) == 8
    assert min(first) > 1.0  # whoever had found weights would have begun lower
    assert any("(new)" in file for file in results["runs"][0]["written"])
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    assert {name: after[name] for name in before} == before
    assert set(after) - set(before) == {"results.json"}
    assert "writes files" in " ".join(results["warnings"])
    # a seed of its own for each pair, the same on both sides
    assert "seeds itself" in " ".join(results["warnings"])
    losses = {(run["round"], run["variant"]): loss for run, loss in
              zip(counted, first, strict=True)}  # fmt: skip
    assert len({losses[round_, "baseline"] for round_ in range(4)}) == 4


AFTERWARDS = """
import sys
import keras
import numpy as np

x = np.zeros((512, 4), "float32")
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, x[:, :1], epochs=2, verbose=0)
match sys.argv[1]:
    case "raises":
        raise ValueError("(15,) and (10,)")
    case "exits":
        sys.exit(3)
model.fit(x, x[:9, :1], epochs=2, verbose=0)
"""


def test_train_ends_with_the_status_of_the_script(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(AFTERWARDS)
    done = tfopt("train", recipe_for(script, 'args = ["exits"]'), cwd=tmp_path)
    assert done.code == 3
    assert "fit 1 of" in done.out


IN_A_FIT = "script.py:15: raised ValueError: Data cardinality"
BETWEEN = "script.py:12: raised ValueError: (15,) and (10,)"


@pytest.mark.parametrize(
    ("does", "fit", "status", "said"),
    [
        ("raises", None, "ok", BETWEEN),
        pytest.param("raises in a fit", None, "failed", IN_A_FIT, marks=pytest.mark.thorough),
        pytest.param("raises", 2, "failed", BETWEEN, marks=pytest.mark.thorough),
        pytest.param("exits", None, "ok", "sys.exit(3)", marks=pytest.mark.thorough),
    ],
)
def test_what_a_script_does_after_the_fits_that_are_judged_voids_no_run(
    tmp_path, does, fit, status, said
):
    script = tmp_path / "script.py"
    script.write_text(AFTERWARDS)
    lines = [f'args = ["{does}"]', *([] if fit is None else [f"fit = {fit}"])]
    done = one_run(recipe_for(script, *lines))
    assert done.status == status
    assert said in ((done.after_fits if status == "ok" else done.error) or "")
    assert (done.after_fits is None) == (done.error is not None)
    assert bool(done.ok and done.wall_seconds) == (status == "ok")


SMALL = """
import keras
import numpy as np

source = np.random.default_rng(0)
x = source.normal(size=(2048, 8)).astype("float32")
model = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, x.sum(axis=1), epochs=2, verbose=0)
"""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("target", "key"), [("small.py", "script"), ("tiny.py:build", "factory")], ids=str
)
def test_a_first_contact_writes_the_recipe_that_it_would_measure(
    tmp_path, monkeypatch, target, key
):
    smaller = SMALL.replace('keras.layers.Dense(8, activation="relu"), ', "")
    make_project(tmp_path, "", small=smaller, tiny=TINY.format(says="pass"))
    monkeypatch.chdir(tmp_path)
    # the plugin that costs least is written even where none saves time
    options = ApplyOptions(target=target, measure_anyway=True)
    with runs_forked():
        found = look_alone(options, make_console(quiet=True))
    assert not isinstance(found, NothingToMeasure)
    contact, path = found
    assert path == tmp_path / f"{target.partition('.')[0]}.tfopt.toml"
    checked = check_recipe(path, compares=False)
    assert getattr(checked.recipe.workload, key) == target
    assert [one.name for one in checked.plugins] == [one.plugin for one in contact.stack]
    # what is not exact is a comment
    maths = {equivalence_of(one.name, one.plugin) for one in checked.plugins}
    assert maths <= set(EXACT_EQUIVALENCES)
    assert contact.extended
    text = path.read_text()
    named = {one.plugin for one in (*contact.extended, *contact.left_out)}
    assert all(text.count(f'use = "{plugin}"') == 1 for plugin in named)
    assert is_unchanged(text)
    assert not (tmp_path / ".tfopt").exists()


@pytest.mark.thorough
def test_where_nothing_is_gained_the_look_ends_with_its_json_and_no_recipe(tmp_path):
    script = tmp_path / "small.py"
    script.write_text(SMALL)
    before = tmp_path.with_suffix(".py")
    before.write_text(
        "from tfopt_core.diagnosis import screening\n"
        "screening.LEAST_SAVED_SECONDS = 1e9  # no plugin saves so much\n"
    )
    apply = ("apply", script.name, "--json", "found.json", "--require", "faster")
    done = tfopt(*apply, cwd=tmp_path, before=before)
    assert done.code == 1, done.err
    assert "Nothing to gain" in done.out
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["measured"] is False
    assert found["script"] == "small.py"
    assert " of a step is " in found["bound"]
    assert found["diagnosis"]["step_seconds"] > 0
    left_out = found["left_out"]
    assert left_out
    assert all({"plugin", "reason", "estimate", "untried"} == set(one) for one in left_out)
    assert not list(tmp_path.glob("*.toml"))


UPDATES_BEFORE_FIT = """
import keras
import numpy as np
import tensorflow as tf

x = np.random.default_rng(1).normal(size=(64, 3)).astype("float32")
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
model.compile("adam", "mse")
with tf.GradientTape() as tape:
    loss = tf.reduce_mean(model(x) ** 2)
gradients = tape.gradient(loss, model.trainable_variables)
model.optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
model.fit(x, x[:, :1], verbose=0)
"""


@pytest.mark.thorough
def test_updates_of_a_scripts_own_are_made_within_a_strategy_in_a_dry_build_too(tmp_path):
    (tmp_path / "own.py").write_text(UPDATES_BEFORE_FIT)
    recipe = '[workload]\nscript = "own.py"\n[[plugins]]\nuse = "one-device"\n'
    (tmp_path / "recipe.toml").write_text(recipe)
    done = tfopt("plan", "recipe.toml", cwd=tmp_path)
    assert done.code == 0, done.err


WITHIN_A_STRATEGY = """
import keras, numpy as np, tensorflow as tf
x = np.arange(36, dtype="float32").reshape(12, 3)
with tf.distribute.MirroredStrategy(["/cpu:0"]).scope():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(x, x[:, :1], shuffle=False, verbose=0)
print("updates:", model.optimizer.iterations.numpy())
"""


def test_a_script_trains_within_its_own_strategy_and_no_other_is_built_beside_it(tmp_path):
    (tmp_path / "own.py").write_text(WITHIN_A_STRATEGY)
    (tmp_path / "empty.toml").write_text('[workload]\nscript = "own.py"\n')
    (tmp_path / "other.toml").write_text(
        '[workload]\nscript = "own.py"\n[[plugins]]\nuse = "one-device"\n'
    )
    done = tfopt("train", "empty.toml", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "updates: 1" in done.out
    refused = tfopt("train", "other.toml", cwd=tmp_path)
    assert refused.code == 2
    message = 'plugin "one-device": the script has a strategy of its own, MirroredStrategy'
    assert message in " ".join(refused.err.split())
