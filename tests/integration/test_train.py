"""tfopt train: its output, a saved model, failures, and a training that goes on."""

import signal
import sys

import pytest
from support.real_process import (
    make_project,
    run,
    started,
    tfopt,
    wait_until,
)
from support.small_workloads import STATEFUL

from tfopt_core.training.checkpoints.folder import names_in, newest_in

pytestmark = pytest.mark.slow

# Of the validation data a few, so that an epoch takes a moment.
LOUD = """
    import attrs
    from tfopt_core.data import Take
    from tfopt_workloads import flights

    def build(**options):
        print("THE WORKLOAD SPEAKS", flush=True)
        workload = flights.build(**options)
        few = workload.validation.insert(1, Take(count=320))
        return attrs.evolve(workload, validation=few)
"""

RECIPE = """
    [workload]
    factory = "loud.py:build"
    epochs = 2
    batch_size = 64
    [workload.options]
    examples = 640
    prepare = "ahead"
    [[plugins]]
    use = "l2"
    [[plugins]]
    use = "mixed-precision"
    policy = "mixed_bfloat16"
    [[plugins]]
    use = "lr-schedule"
    warmup_epochs = 0.5
"""

LOAD = """
import sys
import keras, numpy as np

model = keras.saving.load_model(sys.argv[1])
given = {"numbers": np.zeros((3, 10), "float32"), "codes": np.zeros((3, 3), "int32")}
answer = model.predict(given, verbose=0)
assert answer.shape == (3, 1) and np.isfinite(answer).all(), answer
assert len(model.losses) > 0, "the penalties are gone"
assert model.get_layer("logits").compute_dtype == "float32"
assert model.get_layer("dense").compute_dtype == "bfloat16"
model.fit(given, np.zeros((3, 1)), verbose=0)
assert not any(name.startswith("tfopt") for name in sys.modules)
print("LOADED", type(model.optimizer.learning_rate).__name__)
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    project = make_project(tmp_path_factory.mktemp("trained"), RECIPE, loud=LOUD)
    return project, tfopt("train", "recipe.toml", "--save", "m.keras", cwd=project)


def test_training_ends_well_and_what_the_workload_prints_passes_through(trained):
    _, done = trained
    assert done.code == 0, done.err
    assert done.out.count("THE WORKLOAD SPEAKS") == 1  # the dry build is silent
    assert "epoch 1/2" in done.out
    assert "epoch 2/2" in done.out
    assert "saved: m.keras" in done.out
    assert "Traceback" not in done.err


def test_every_plugin_says_what_it_did(trained):
    _, done = trained
    for plugin in ("l2", "mixed-precision", "lr-schedule"):
        assert f"{plugin} applied: " in " ".join(done.out.split())


@pytest.mark.thorough
def test_a_saved_model_loads_predicts_and_trains_on_without_tfopt(trained):
    project, _ = trained
    (project / "load.py").write_text(LOAD)
    done = run([sys.executable, "-P", "load.py", "m.keras"], cwd=project)
    assert done.code == 0, done.err
    assert "LOADED" in done.out


# `tfopt train --resume` as a command

RESUMED = """
    name = "tiny"
    [workload]
    factory = "small.py:build"
    epochs = 3
    batch_size = 8
    [[plugins]]
    use = "prefetch"
"""

FOLDER = ".tfopt/checkpoints/tiny"


def test_the_model_of_a_finished_training_is_saved_without_training(tmp_path):
    project = make_project(tmp_path, RESUMED, small=STATEFUL)
    trained = tfopt("train", "recipe.toml", "--resume", cwd=project)
    assert trained.code == 0, trained.err
    assert "writes checkpoints to " in trained.out
    assert "trained 3 epochs" in trained.out
    done = tfopt("train", "recipe.toml", "--resume", "--save", "m.keras", cwd=project)
    assert done.code == 0, done.err
    assert "epoch 1/3" not in done.out
    assert "saved: m.keras" in done.out
    assert (project / "m.keras").stat().st_size > 0


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_training_says_after_which_epoch_it_resumes(tmp_path, number):
    paced = RESUMED.replace("batch_size = 8", "batch_size = 8\n    options = { pause = 0.1 }")
    project = make_project(tmp_path, paced, small=STATEFUL)
    with started("train", "recipe.toml", "--resume", "--seed", "5", cwd=project) as process:
        wait_until("the first epoch's end", lambda: names_in(project / FOLDER))
        process.send_signal(number)
        assert process.wait(60) == 130
    said = (project / "stdout.txt").read_text()
    assert "--resume continues after epoch 1, from checkpoint-000001.tfopt" in said
    assert (project / "stderr.txt").read_text().rstrip().endswith("interrupted")
    assert newest_in(project / FOLDER).damaged == ()
