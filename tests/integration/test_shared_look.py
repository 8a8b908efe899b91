"""A fit that is made again in the same process is the one that a new process makes."""

import functools
from pathlib import Path
from typing import Any

import attrs
import pytest
from support.in_process import script_job
from support.lazy_modules import keras
from tfopt_data.parallel_map import ParallelMap
from tfopt_model.fused_recurrent import FusedRecurrent
from tfopt_precision.mixed_precision import MixedPrecision
from tfopt_runtime.steps_per_execution import StepsPerExecution
from tfopt_runtime.threads import Threads

from tfopt_core.errors import CannotShare
from tfopt_core.hooks.values import RuntimeOptions
from tfopt_core.scripts.fit_workload import FitWorkload
from tfopt_core.scripts.fitting import FitState, train_fit
from tfopt_core.scripts.session import Session

SEED = 5
# Dropout draws random numbers, Adam has variables of its own, Keras shuffles the arrays, and takes
# an attribute from the model behind the validation.
SCRIPT_TEXT = """
import keras
import numpy as np

keras.utils.set_random_seed(3)
x = np.random.default_rng(1).normal(size=(256, 8)).astype("float32")
model = keras.Sequential([
    keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dropout(0.5),
    keras.layers.BatchNormalization(), keras.layers.Dense(1),
])
model.compile("adam", "mse", metrics=["mae"])
model.fit(x, x[:, :1], batch_size=16, epochs=2, verbose=0, validation_data=(x, x[:, :1]))
"""

# A model of the script's own around built layers, which is not built itself before its first step.
AROUND_TEXT = SCRIPT_TEXT.replace(
    "model.compile(",
    """
class Around(keras.Model):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def call(self, x, training=None):
        return self.inner(x, training=training)

model = Around(model)
model.compile(""",
)


def at_the_fit(folder: Path, act: Any, text: str = SCRIPT_TEXT) -> Any:
    """What a function of the session and the fit returns, in the place of the fit."""
    found = []

    def on_fit(fit: FitWorkload, started: int) -> Any:
        found.append(act(session, fit))

    session = Session(script_job(folder=folder, seed=SEED), on_fit)
    session.begin()
    try:
        exec(text, {"__name__": "__main__"})
    finally:
        session.end()
    return found[0]


def losses(session: Session, fit: FitWorkload, *plugins: Any) -> dict[str, list[float]]:
    """The history of the fit with these plugins."""
    job = script_job(*plugins, folder=session.job.folder, seed=SEED)
    session.take(job)
    keras.utils.set_random_seed(SEED)
    workload = FitWorkload.of(session, fit.call, ended=True)
    _, history = train_fit(workload, workload.built(job), 0, lambda message: None)
    return dict(history.history)


@pytest.mark.thorough
@pytest.mark.parametrize("text", [SCRIPT_TEXT, AROUND_TEXT], ids=["sequential", "own class"])
def test_a_fit_is_made_again_from_where_it_began(tmp_path, text):
    def three_times(session: Session, fit: FitWorkload) -> list[dict[str, list[float]]]:
        state = FitState.of(fit)
        fit.built(session.job)  # as a look does, without a fit
        state.note_parts()
        first = losses(session, fit)
        state.restore()
        losses(session, fit, StepsPerExecution(steps=4))
        state.restore()
        return [first, losses(session, fit)]

    first, again = at_the_fit(tmp_path, three_times, text)
    alone = at_the_fit(tmp_path, losses, text)  # without a state, as a new process begins
    assert first == again == alone
    assert len(first["loss"]) == 2


def refused(act: Any) -> str:
    with pytest.raises(CannotShare) as caught:
        act()
    return str(caught.value)


def test_a_stack_that_acts_before_the_fit_takes_a_new_process(tmp_path):
    def reasons(session: Session, fit: FitWorkload) -> list[str]:
        def with_(plugin: Any) -> Any:
            return script_job(plugin, folder=tmp_path, seed=SEED)

        threads = attrs.evolve(with_(Threads()), runtime=RuntimeOptions(intra_op_threads=1))
        return [
            refused(lambda: session.take(with_(MixedPrecision()))),
            refused(lambda: session.take(with_(FusedRecurrent()))),
            refused(lambda: session.take(threads)),
        ]

    precision, model, start = at_the_fit(tmp_path, reasons)
    assert precision == 'plugin "mixedprecision" changes the model'
    assert model == 'plugin "fusedrecurrent" changes the model'
    assert start == "the stack changes how TensorFlow starts"


def test_a_model_that_a_plugin_changed_for_good_is_not_used_again(tmp_path):
    def change(session: Session, fit: FitWorkload) -> str:
        state = FitState.of(fit)
        state.note_parts()
        state.restore()
        fit.call.model.layers[0].dtype_policy = "mixed_bfloat16"
        return refused(state.restore)

    assert "has changed the model for good" in at_the_fit(tmp_path, change)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("keras.Input((8,)), ", "", "gets its weights in its first step"),
        ("model.fit(x, x[:, :1], batch_size=16, ",
         "model.fit(((x[:16], x[:16, :1]) for _ in range(99)), steps_per_epoch=4, ",
         "changed by being read"),
        ("model.fit", "model.other = keras.optimizers.SGD()\nmodel.fit", "optimizers of its own"),
    ],
)  # fmt: skip
def test_a_fit_that_cannot_be_made_again_is_not(tmp_path, old, new, reason):
    text = SCRIPT_TEXT.replace(old, new)
    assert text != SCRIPT_TEXT
    assert reason in at_the_fit(tmp_path, lambda _, fit: refused(lambda: FitState.of(fit)), text)


def over(data: str) -> str:
    """The script with a fit on batches of the data set that these lines make."""
    fed = f"import tensorflow as tf\n{data}model.fit(data.batch(16), "
    text = SCRIPT_TEXT.replace("model.fit(x, x[:, :1], batch_size=16, ", fed)
    assert text != SCRIPT_TEXT
    return text


def stages(session: Session, fit: FitWorkload, *, ended: bool) -> str:
    """What the data of the fit consist of behind a plugin that makes maps parallel."""
    job = script_job(ParallelMap(), folder=session.job.folder, seed=SEED)
    session.take(job)
    workload = FitWorkload.of(session, fit.call, ended=ended)
    return str([stage.describe() for stage in workload.built(job).plans["train"].stages])


SLICES = "data = tf.data.Dataset.from_tensor_slices((x, x[:, :1]))"


@pytest.mark.thorough
def test_a_cache_of_the_scripts_that_a_task_has_read_is_rewritten_in_the_next_one(tmp_path):
    def twice(session: Session, fit: FitWorkload) -> str:
        state = FitState.of(fit)
        fit.built(session.job)
        state.note_parts()
        losses(session, fit)
        state.restore()
        return stages(session, fit, ended=True)

    text = over(f"{SLICES}.shuffle(256).map(lambda a, b: (a * 2, b)).cache()\n")
    assert "parallel" in at_the_fit(tmp_path, twice, text)


def test_what_stands_before_a_cache_that_was_looked_at_is_rewritten_unless_it_draws(tmp_path):
    def found(more: str) -> str:
        data = f"{SLICES}{more}.map(lambda a, b: (a * 2, b)).cache()\nnext(iter(data))\n"
        return str(at_the_fit(tmp_path, functools.partial(stages, ended=False), over(data)))

    assert "parallel" in found("")
    assert "parallel" not in found(".shuffle(256)")
