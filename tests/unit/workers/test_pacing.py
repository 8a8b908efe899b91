"""When a training that takes turns stops, and when it ends."""

import itertools

import pytest

from tfopt_core.training.messages import Block
from tfopt_core.workers import turns
from tfopt_core.workers.turns import TURN_SECONDS, Pacing, Turn, first_warm_steps

WARM, LONGEST, STEPS = 0.125, 2.0, 10  # sums of these are exact
TRACED = Block(1, 0.75, 0, "trace")


@pytest.fixture
def training(monkeypatch):
    """Returns the numbers of the blocks after which a training stopped, and of its last one."""

    def go(steps_per_epoch, epochs=5, warm_seconds=LONGEST, of_first=""):
        blocks, stops = [TRACED], []

        def now():
            return int(sum(block.seconds for block in blocks) * 1e9)

        monkeypatch.setattr(turns, "running_ns", now)
        monkeypatch.setattr(turns, "stop_this_process", lambda tell: stops.append(len(blocks)))
        pacing = Pacing(
            epochs=epochs, steps_per_epoch=steps_per_epoch,
            warm_seconds=warm_seconds, turn=Turn(lambda message: None), now=now,
        )  # fmt: skip
        made = 0
        while not pacing(blocks) and made < epochs * steps_per_epoch:
            epoch = made // steps_per_epoch
            blocks.append(Block(STEPS, WARM, epoch, of_first if epoch == 0 else ""))
            made += STEPS
        return stops, len(blocks), [block.epoch for block in blocks]

    return go


def test_a_long_epoch_is_stopped_at_its_first_warm_step_and_then_at_the_end_of_each_turn(training):
    stops, last, _ = training(100_000)
    assert stops[0] == 2
    assert {after - before for before, after in itertools.pairwise(stops)} == {TURN_SECONDS / WARM}
    assert last == stops[0] + LONGEST / WARM


def test_an_epoch_whose_start_can_be_told_is_one_turn_and_the_first_one_comes_before(training):
    # 1.125 s, and four starts take less than five seconds
    stops, last, epochs = training(90, epochs=9, warm_seconds=5.0)
    assert [epochs[stop - 1] for stop in stops] == [1, 2, 3, 4, 5]
    # at the first block of an epoch the thread of its iterator has hardly slept
    assert all(epochs[stop - 2] == epochs[stop - 1] - 1 for stop in stops)
    assert last == stops[0] + 5.0 / WARM


def test_of_fewer_epochs_longer_ones_are_turns(training):
    stops, _, epochs = training(180, epochs=3, warm_seconds=5.0)
    assert [epochs[stop - 1] for stop in stops] == [1, 2]
    stops, *_ = training(180, epochs=9, warm_seconds=5.0)
    assert stops[0] == 2


def test_an_epoch_that_fills_a_cache_is_trained_alone_however_long_it_takes(training):
    stops, _, epochs = training(2000, of_first="cache")
    assert epochs[stops[0] - 1] == 1


def test_of_whole_trainings_each_epoch_is_a_turn_unless_it_is_very_long(training):
    stops, last, epochs = training(1000, epochs=4, warm_seconds=None)
    assert last == 1 + 4 * 1000 // STEPS
    assert [epochs[stop - 1] for stop in stops] == [1, 2, 3]
    stops, *_ = training(10_000, epochs=2, warm_seconds=None)
    assert len(stops) > 2 * 10_000 // STEPS * WARM / TURN_SECONDS - 5


def test_of_one_epoch_no_start_is_waited_for(training):
    stops, _, _ = training(200, epochs=1)
    assert stops[0] == 2


def test_a_run_for_its_memory_ends_with_the_first_warm_steps():
    assert not first_warm_steps([TRACED])
    assert first_warm_steps([TRACED, Block(STEPS, WARM)])
