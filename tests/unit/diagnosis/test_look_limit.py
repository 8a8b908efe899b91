"""A first look makes few steps where they are slow."""

from time import monotonic

import numpy as np
import pytest

from tfopt_core.diagnosis import step_rounds

X = np.random.default_rng(1).random((64, 3), "float32")


@pytest.fixture
def built(tmp_path):
    import keras
    from support.in_process import build_here

    from tfopt_core import Workload

    def build_model():
        return keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])

    workload = Workload(
        train=(X, X[:, :1]), validation=None, build_model=build_model, optimizer="sgd", loss="mse"
    )
    return build_here(workload, folder=tmp_path, batch_size=4)


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("left", "step_seconds", "most"), [(29.0, 20.0, 0), (-1.0, None, 2), (29.0, 0.1, None)]
)
def test_a_look_at_slow_steps_makes_a_handful_of_them(built, monkeypatch, left, step_seconds, most):
    monkeypatch.setattr(step_rounds, "QUICK_ROUNDS", 1)
    monkeypatch.setattr(step_rounds, "QUICK_SHARE", 0.05)
    said: list[str] = []
    found = step_rounds.time_rounds(
        built, said.append, ends_at=monotonic() + left, step_seconds=step_seconds
    )
    [measured] = found.rounds
    assert any("fewer repetitions" in text for text in said) is (most is not None)
    assert any("few steps were timed" in text for text in found.warnings) is (most is not None)
    if most is None:
        assert measured.graph is not None
        return
    # two more if reading a batch alone takes long, as it may seem to on a busy machine
    assert int(built.model.optimizer.iterations) <= most + 2
    assert measured.graph is None
    assert measured.cached <= measured.real
    assert step_seconds in (None, measured.real)
