"""What `control` asks for in `on_epoch_end` really happens."""

import attrs
import numpy as np
import pytest
from support.in_process import train_here
from support.lazy_modules import keras
from tfopt_runtime.chunked import Chunked

from tfopt_core import Workload
from tfopt_core.plugins import Plugin, hookimpl

pytestmark = pytest.mark.tensorflow

X = np.linspace(-1, 1, 24, dtype="float32").reshape(12, 2)


def workload(callbacks=tuple):
    def model():
        return keras.Sequential(
            [keras.layers.Input((2,)), keras.layers.Dense(3), keras.layers.Dense(1)]
        )

    return Workload(
        train=(X, X[:, :1]), validation=(X, X[:, :1]), build_model=model, optimizer="adam",
        loss="mse", callbacks=callbacks,
    )  # fmt: skip


def recorder():
    class Records(keras.callbacks.Callback):
        def __init__(self):
            super().__init__()
            self.calls = []

        def on_train_begin(self, logs=None):
            self.calls.append("begin")

        def on_train_end(self, logs=None):
            self.calls.append("end")

        def on_epoch_end(self, epoch, logs=None):
            self.calls.append(epoch)

    return Records()


@attrs.frozen(kw_only=True, eq=False)
class Stops(Plugin):
    """Stops after an epoch, for two reasons."""

    last: int

    @hookimpl
    def on_epoch_end(self, epoch, control):
        if epoch == self.last:
            control.stop("enough")
            control.stop("too much")


def test_stop_ends_the_training_after_that_epoch_with_the_first_reason(tmp_path):
    records = recorder()
    _, outcome = train_here(
        workload(lambda: [records]), Stops(last=1), folder=tmp_path, epochs=5
    )  # fmt: skip
    assert outcome.epochs == 2
    assert outcome.stop_reason == "enough"
    assert records.calls == ["begin", 0, 1, "end"]


@pytest.mark.thorough
def test_a_trace_within_a_training_is_counted_with_its_cause(tmp_path):
    class Unfreezes(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch:
                self.model.make_train_function(force=True)

    _, plain = train_here(workload(), folder=tmp_path, epochs=3, batch_size=4)
    assert {(trace.steps, trace.cause) for trace in plain.traces} == {(0, "first")}
    _, again = train_here(workload(lambda: [Unfreezes()]), folder=tmp_path, epochs=3, batch_size=4)
    later = [trace for trace in again.traces if trace.cause != "first"]
    assert [(trace.steps, trace.cause) for trace in later] == [(3, "python"), (6, "python")]
    assert later[0].shapes == "(4, 2), (4, 1)"


@pytest.mark.thorough
def test_a_loop_that_traces_for_a_smaller_call_is_no_retrace(tmp_path):
    stack = Chunked(steps=4, xla=False)
    _, outcome = train_here(workload(), stack, folder=tmp_path, epochs=3, batch_size=2)
    assert outcome.traces[0].cause == "first"
    assert {trace.cause for trace in outcome.traces} <= {"first", "loop"}
