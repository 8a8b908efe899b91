"""When a training that takes turns stops, and when it ends."""

from __future__ import annotations

import itertools

import pytest

from tfopt_core.records.fit import Block
from tfopt_core.statistics.timing.cutting import CutRule
from tfopt_core.trials import turns
from tfopt_core.trials.turns import ALONE_SECONDS, InTurns

WARM, LONGEST, TURN = 0.125, 2.0, 0.5  # sums of these are exact
TRACED = Block(1, 0.75, 0, "trace")


@pytest.fixture
def training(monkeypatch):
    """Returns the numbers of the blocks after which a training stopped, and of its last one."""

    def go(steps_per_epoch, epochs=5):
        blocks, stops = [TRACED], []
        monkeypatch.setattr(turns, "running_ns", lambda: sum(b.seconds for b in blocks) * 1e9)
        monkeypatch.setattr(turns, "stop_this_process", lambda tell: stops.append(len(blocks)))
        rule = CutRule(epochs=epochs, steps_per_epoch=steps_per_epoch, longest_seconds=LONGEST)
        in_turns = InTurns(rule, TURN, lambda message: None)
        while not in_turns(blocks):
            done = sum(block.steps for block in blocks)
            blocks.append(Block(10, WARM, (done + 10) // steps_per_epoch))
        return stops, len(blocks)

    return go


@pytest.mark.parametrize(("epochs", "starts"), [(5, 2), (2, 1)])
def test_some_short_epochs_are_trained_alone_for_what_their_starts_take(training, epochs, starts):
    stops, _ = training(steps_per_epoch=100, epochs=epochs)
    assert stops[0] == 1 + starts * 10


def test_a_short_epoch_is_trained_alone_and_then_both_sides_train_equally_long(training):
    stops, last = training(steps_per_epoch=300)
    assert stops[0] == 31  # with the first block of the second epoch
    assert [after - before for before, after in itertools.pairwise(stops)] == [4] * 3
    assert last == stops[0] + LONGEST / WARM


@pytest.mark.parametrize(("steps_per_epoch", "epochs"), [(100_000, 5), (300, 1)])
def test_no_start_of_an_epoch_is_waited_for_that_is_far_or_never_comes(
    training, steps_per_epoch, epochs
):
    assert steps_per_epoch * WARM / 10 > ALONE_SECONDS or epochs == 1
    stops, last = training(steps_per_epoch, epochs)
    assert stops[0] <= 2
    assert last == stops[0] + LONGEST / WARM
