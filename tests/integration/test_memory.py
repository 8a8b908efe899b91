"""Memory that runs out in the search for a batch size is a bound."""

import pytest
from support.real_process import TINY, make_project, tfopt

pytestmark = pytest.mark.slow

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
