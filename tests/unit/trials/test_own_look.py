"""How long a look at a training loop of a script's own takes."""

from types import SimpleNamespace

import pytest

from tfopt_core.trials.scripts.own_loop import LoopOfScript


@pytest.mark.parametrize(
    ("seconds", "warm", "updates", "known"),
    [
        (6.5, 5.0, 4000, True),
        (6.5, 4.0, 4000, False),
        (10.0, 0.0, 4000, True),  # each block traces something
        (29.0, 20.0, 9, False),  # a few slow updates
        (30.0, 20.0, 2, True),
        (30.0, 0.0, 1, False),
    ],
)
def test_a_look_ends_once_enough_was_seen_beside_tracing(seconds, warm, updates, known):
    clock = SimpleNamespace(
        is_over=False, seconds=seconds, updates=updates, warm=[SimpleNamespace(seconds=warm)]
    )
    own = LoopOfScript(job=None, session=None, guard=None)
    own.clock = clock
    assert own.is_known(whole=False) is known
    # a trial makes as many updates as a run
    assert own.is_known(whole=True) is (seconds >= 30.0 and known)
