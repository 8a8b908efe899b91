"""What a timed loop notes, with a clock of the test's own."""

from __future__ import annotations

from tfopt_core.diagnosis.step_parts import Call, Recorder, RecordingLimits

SECOND = 10**9


class Hands:
    def __init__(self):
        self.now = 0

    def __call__(self):
        return self.now


def drive(recorder, hands, steps, seconds=1.0, epochs=9):
    """A loop of epochs that stops when it is told to; how many calls it made."""
    calls = 0
    for _ in range(epochs):
        recorder.begin_epoch()
        stop = False
        for _ in range(steps):
            hands.now += int(seconds * SECOND)
            calls += 1
            stop = recorder.called()
            if stop:
                break
        if recorder.end_epoch(complete=not stop) or stop:
            break
    return calls


def recorder(hands, seconds, at_most, **changes):
    changes.setdefault("steps_per_epoch", None)
    longest = changes.pop("longest", float("inf"))
    limits = RecordingLimits(seconds, at_most, changes.pop("calls", 2), longest)
    return Recorder(limits, now=hands, **changes)


def test_a_short_epoch_is_seen_to_its_end():
    noted = recorder(hands := Hands(), 2.5, 100)
    assert drive(noted, hands, steps=2) == 4  # the second epoch ends after 4 s
    assert [epoch.complete for epoch in noted.epochs] == [True, True]


def test_a_long_epoch_is_stopped():
    noted = recorder(hands := Hands(), 2, 5)
    assert drive(noted, hands, steps=100) == 5
    assert [epoch.complete for epoch in noted.epochs] == [False]


def test_the_least_number_of_calls_is_made_however_long_they_take():
    noted = recorder(hands := Hands(), 0, 1, calls=3)
    assert drive(noted, hands, steps=100, seconds=60) == 3


def test_the_last_call_of_an_epoch_makes_the_steps_that_are_left():
    noted = recorder(hands := Hands(), 0, 100, steps_per_epoch=10, steps_per_call=4)
    drive(noted, hands, steps=3)
    assert [call.steps for call in noted.epochs[0].calls] == [4, 4, 2]


def test_the_device_is_waited_for_at_the_edges_only():
    hands, waits = Hands(), []

    def sync():
        waits.append(hands.now)
        hands.now += SECOND // 2

    noted = recorder(hands, 0, 100, sync=sync)
    drive(noted, hands, steps=4)
    assert len(waits) == 2  # after the first call, and at the end
    assert noted.epochs[0].calls[0] == Call(SECOND * 3 // 2, 1)
    assert noted.epochs[0].calls[-1].end == 5 * SECOND


def test_an_epoch_without_a_call_is_none():
    noted = recorder(Hands(), 0, 1)
    noted.begin_epoch()
    noted.end_epoch(complete=True)
    assert noted.epochs == []


def test_one_slow_call_is_enough():
    for longest, calls in ((6.0, 1), (15.0, 2), (float("inf"), 5)):
        hands = Hands()
        slow = recorder(hands, 0.0, 0.3, calls=5, longest=longest)
        assert drive(slow, hands, steps=9, seconds=10.0) == calls


def test_a_slow_call_that_traced_is_not_enough():
    hands = Hands()
    slow = recorder(hands, 0.0, 0.3, calls=5, longest=6.0)
    slow.begin_epoch()
    hands.now += 10 * SECOND
    assert not slow.called(traced=True)
    hands.now += 10 * SECOND
    assert slow.called()
