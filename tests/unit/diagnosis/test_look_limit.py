"""A first look says what a step costs, and makes few of them where they are slow."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tfopt_core.diagnosis.step_rounds import LookLimit


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def limit_at(seconds: float, step_seconds: float | None):
    """A limit of 30 s of which so many are over, and what it has said."""
    said: list[str] = []
    clock = Clock()
    limit = LookLimit(said.append, now=clock, step_seconds=step_seconds)
    clock.now = seconds
    return limit, said


@pytest.mark.parametrize(
    ("seconds", "step_seconds", "short"),
    [
        (1.0, None, False),
        (1.0, 0.1, False),
        (1.0, 20.0, True),
        (29.0, 0.1, True),
        (31.0, None, True),
    ],
)
def test_a_look_is_short_where_the_usual_repetitions_do_not_fit(seconds, step_seconds, short):
    limit, said = limit_at(seconds, step_seconds)
    assert limit.is_short() is short
    assert bool(said) is short


def test_what_a_step_costs_is_said_once():
    limit, said = limit_at(45.0, 21.34)
    assert limit.is_short()
    assert limit.is_short()
    assert said == ["a step takes about 21 s so far: going on with fewer repetitions"]


def test_a_cost_that_was_not_known_in_time_is_said_later():
    limit, said = limit_at(31.0, None)
    assert limit.is_short()
    limit.learn(25.0)
    assert said == [
        "no step could be timed in 30 s, since one takes long: going on with fewer repetitions",
        "a step takes about 25 s so far: going on with fewer repetitions",
    ]


def test_it_is_said_in_time_even_while_a_step_lasts():
    said = threading.Event()
    with LookLimit(lambda text: said.set(), seconds=0.0).running():
        assert said.wait(60.0)


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
@pytest.mark.parametrize(("step_seconds", "most"), [(20.0, 0), (None, 2)])
def test_a_look_at_slow_steps_makes_a_handful_of_them(built, step_seconds, most):
    from tfopt_core.diagnosis.step_rounds import time_rounds

    limit, _ = limit_at(31.0, step_seconds)
    found = time_rounds(built, lambda phase: None, limit=limit)
    # two more if reading a batch alone takes long, as it may seem to on a busy machine
    assert int(built.model.optimizer.iterations) <= most + 2
    [measured] = found.rounds
    assert measured.graph is None
    assert measured.cached <= measured.real
    assert step_seconds in (None, measured.real)
    assert any("few steps were timed" in warning for warning in found.warnings)
