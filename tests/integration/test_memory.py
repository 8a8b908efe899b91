"""Memory that runs out: of a baseline it is a result, of a search for a batch size a bound."""

import json

import pytest
from support.real_process import TINY, make_distribution, make_project, tfopt

pytestmark = pytest.mark.slow

# Each training takes a block of memory at its begin, unless the plugin "lean" was in the stack.
GREEDY = """
    import attrs
    import keras
    import numpy as np
    import tiny

    class Greedy(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            if not getattr(self.model, "lean", False):
                {takes}

    def build():
        return attrs.evolve(tiny.build(), callbacks=lambda: [Greedy()])
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
GREEDY_RECIPE = """
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
    modules = {"tiny": TINY.format(says="pass"), "greedy": GREEDY.format(takes=takes)}
    project = make_project(folder / "project", GREEDY_RECIPE, **modules)
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


# A batch of more than 16 examples needs more memory than there is: a process says so, or is killed.
WIDE = """
    import os
    import signal
    from pathlib import Path

    import attrs
    import keras
    import tiny

    class Limit(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            first = Path("/proc/self/oom_score_adj").read_text().strip()
            Path(__file__).with_name("first").write_text(first)
            if self.model.optimizer.learning_rate > 0.0141:  # of 32 examples
                {ends}

    def build():
        sgd = keras.optimizers.SGD
        return attrs.evolve(
            tiny.build(), optimizer=lambda: sgd(0.01), callbacks=lambda: [Limit()]
        )
"""
WIDE_RECIPE = """
    name = "wide"
    [workload]
    factory = "wide.py:build"
    epochs = 1
    batch_size = 16
    [[plugins]]
    use = "fit-batch"
    max = 32
    learning_rate = "sqrt"
"""


@pytest.mark.promise(40, injected="a trial that raises MemoryError, or is killed")
@pytest.mark.thorough
@pytest.mark.parametrize(
    "ends", ["raise MemoryError", "os.kill(os.getpid(), 9)"], ids=["raised", "killed"]
)
def test_memory_that_runs_out_in_the_search_is_a_bound(tmp_path, ends):
    modules = {"tiny": TINY.format(says="pass"), "wide": WIDE.format(ends=ends)}
    project = make_project(tmp_path, WIDE_RECIPE, **modules)
    done = tfopt("plan", "recipe.toml", cwd=project)
    assert done.code == 0, done.out + done.err
    shown = " ".join(done.out.split())
    assert "batch_size: auto -> 16" in shown, shown
    assert "32 (out of memory)" in shown
    # the kernel would have ended it first
    assert (project / "first").read_text() == "1000"
