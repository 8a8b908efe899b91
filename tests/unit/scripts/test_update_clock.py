"""The clock of a script's own loop: what it reads, and when."""

import attrs
import pytest

from tfopt_core.scripts.own.update_clock import BLOCK_NS, FIRST_READS, UpdateClock

MS = 1_000_000


@attrs.define
class Loop:
    """A loop whose calls from Python take a given time and make some updates."""

    clock: UpdateClock = attrs.field(init=False)
    ns: int = 0
    updates: int = 0
    traced: int = 0
    readings: int = 0

    def __attrs_post_init__(self):
        self.clock = UpdateClock(self.read, lambda: self.traced, now=lambda: self.ns)

    def read(self):
        self.readings += 1
        return self.updates

    def call(self, ns, updates=1, *, traces=False):
        self.clock.begin(self.ns)
        self.ns += ns
        self.updates += updates
        self.traced += traces
        self.clock.boundary()


def test_updates_within_a_call_are_counted_as_often_as_they_ran():
    loop = Loop()
    for _ in range(5):
        loop.call(2 * BLOCK_NS, updates=7)
    assert loop.clock.updates == 35
    assert sum(block.steps for block in loop.clock.blocks) == 35
    assert loop.clock.seconds == pytest.approx(10 * BLOCK_NS / 1e9)


def test_a_block_in_which_a_step_is_traced_is_no_sample():
    loop = Loop()
    loop.call(900 * MS, traces=True)
    for _ in range(3):
        loop.call(10 * MS)
    assert [block.cold for block in loop.clock.blocks] == ["trace", "", "", ""]
    assert all(block.seconds == pytest.approx(0.01) for block in loop.clock.warm)


def test_after_the_first_updates_the_count_is_read_ten_times_a_second():
    loop = Loop()
    for _ in range(1000):
        loop.call(1 * MS)
    # a reading waits for the device
    assert FIRST_READS < loop.readings <= FIRST_READS + 11


@pytest.mark.parametrize("limit", [5, 100, 1234, 5000])
@pytest.mark.parametrize("calls", [1, 3])
def test_a_run_is_read_at_the_very_call_that_makes_its_last_update(limit, calls):
    loop = Loop()
    loop.clock.limit = limit
    for number in range(2 * limit * calls):
        # the first ones on a machine that is busy: a pace says nothing of those to come
        loop.call((10 if number < 20 else 1) * MS, updates=(number + 1) % calls == 0)
        if loop.clock.updates >= limit:
            break
    assert loop.clock.updates == limit == loop.updates
    assert loop.readings < 50 + limit * calls / 50


def test_calls_without_an_update_belong_to_the_block_of_the_next():
    loop = Loop()
    loop.call(10 * MS)
    loop.call(30 * MS, updates=0)  # a validation
    loop.call(10 * MS)
    assert [(block.steps, block.seconds) for block in loop.clock.blocks] == [(1, 0.01), (1, 0.04)]


def test_a_count_that_a_script_sets_back_makes_no_block():
    loop = Loop()
    loop.call(10 * MS, updates=3)
    loop.call(10 * MS, updates=-2)
    loop.call(10 * MS, updates=1)
    assert [block.steps for block in loop.clock.blocks] == [3, 1]
