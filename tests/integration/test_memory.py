"""Real trainings: a baseline that does not fit into memory is a result."""

import json

import pytest
from support.real_process import make_distribution, make_project, tfopt

pytestmark = pytest.mark.slow

# Each training takes a block of memory at its begin, unless the plugin "lean" was in the stack.
GREEDY = """
    import keras
    import numpy as np
    from tfopt_core import Workload

    class Greedy(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            if not getattr(self.model, "lean", False):
                {takes}

    def build():
        x = np.arange(80, dtype="float32").reshape(40, 2) / 80
        def build_model():
            return keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
        return Workload(
            train=(x, x[:, :1]), validation=(x, x[:, :1]), build_model=build_model,
            optimizer="sgd", loss="mse", baseline="a line through points",
            callbacks=lambda: [Greedy()],
        )
"""
LEAN = """
    import attrs
    from tfopt_core.plugins import Plugin, hookimpl
    from tfopt_core.plugins import Effect

    @attrs.frozen(kw_only=True, eq=False)
    class Lean(Plugin):
        equivalence = "exact"

        @hookimpl
        def wrap_model(self, model):
            model.lean = True
            return model

        @hookimpl
        def report_effect(self, model):
            return Effect.applied_as("no block of memory")
"""
RECIPE = """
    name = "greedy"
    [workload]
    factory = "greedy.py:build"
    epochs = 2
    batch_size = 16
    [[plugins]]
    use = "lean"
    [measure]
    pairs = 4
    attribution = "off"
    objective = "memory"
"""
RAISES = "import tensorflow as tf; raise tf.errors.ResourceExhaustedError(None, None, 'OOM')"
# of the process itself, so that what it takes fails as it does where memory is short
LIMITED = (
    "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**36, 2**36)); "
    "self.block = np.ones(2**34)"
)


def measured(folder, takes: str, *options: str):
    site = make_distribution(folder / "site", "lean", {"lean": "lean:Lean"}, lean=LEAN)
    project = make_project(folder / "project", RECIPE, greedy=GREEDY.format(takes=takes))
    done = tfopt(
        "apply", "recipe.toml", "--quiet", "--json", "out.json", *options, cwd=project, site=site
    )  # fmt: skip
    return done, json.loads((project / "out.json").read_text())


@pytest.mark.promise(4, injected="ResourceExhaustedError in each run of the baseline")
@pytest.mark.parametrize(
    "takes", [RAISES, pytest.param(LIMITED, marks=pytest.mark.thorough)], ids=["device", "process"]
)
def test_a_baseline_out_of_memory_is_a_result(tmp_path, takes):
    done, data = measured(tmp_path, takes)
    assert done.code == 0, done.out + done.err
    statement = "fits: the baseline ran out of memory at batch 16, the stack trained (2 runs each)"
    assert data["comparison"]["verdict"] == "fits"
    assert data["comparison"]["statement"] == statement
    assert data["comparison"]["speedup"] is None
    marks = {(run["variant"], run["status"], run["out_of_memory"]) for run in data["runs"]}
    assert marks == {("baseline", "failed", True), ("full", "ok", False)}
    assert statement in " ".join(done.out.split())
    assert "2 of 4 runs ran out of memory" in done.out
