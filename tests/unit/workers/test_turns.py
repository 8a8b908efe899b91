"""Processes that train in turns, here without a training: one computes while the others are
stopped."""

import itertools
import json
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from tfopt_core.training.messages import StepDone
from tfopt_core.workers import turns
from tfopt_core.workers.reaper import end_with_parent
from tfopt_core.workers.task import TurnOver
from tfopt_core.workers.turns import CannotTakeTurns, TurnsOfProcesses

COUNT = 4

# A process and its child compute, and say when; the turn is over after each piece of work.
PROGRAM = """
import json, subprocess, sys, time
from tfopt_core.training.clock import running_ns
from tfopt_core.workers.turns import stop_this_process

helper = subprocess.Popen([sys.executable, "-S", "-c", '''
import time
while True:
    print(time.monotonic(), flush=True)
    time.sleep(0.002)
'''], stdout=open(sys.argv[1], "w"))
started, ran = time.monotonic(), running_ns()
for number in range(int(sys.argv[2])):
    begun = time.monotonic()
    time.sleep(float(sys.argv[3]))
    print(json.dumps({"begun": begun, "ended": time.monotonic()}), flush=True)
    stop_this_process(lambda message: print(json.dumps({"pid": message.pid}), flush=True))
ran = (running_ns() - ran) / 1e9
print(json.dumps({"ran": ran, "took": time.monotonic() - started}), flush=True)
helper.kill()
"""


class Worker:
    """The work of one side: a process whose lines are messages."""

    def __init__(self, folder, name, count=COUNT, seconds=0.05):
        given = [str(folder / name), str(count), str(seconds)]
        self.command = [sys.executable, "-c", PROGRAM, *given]
        self.pieces, self.last, self.process = [], {}, None
        self.started = None

    def __call__(self, tell):
        self.started = time.monotonic()
        with subprocess.Popen(
            self.command, stdout=subprocess.PIPE, text=True, start_new_session=True
        ) as self.process:
            try:
                for line in self.process.stdout:
                    message = json.loads(line)
                    if "pid" in message:
                        tell(TurnOver(message["pid"]))
                    elif "begun" in message:
                        tell(StepDone(0, len(self.pieces)))
                        self.pieces.append((message["begun"], message["ended"]))
                    else:
                        self.last = message
            finally:
                for one in psutil.Process(self.process.pid).children():
                    one.kill()
                self.process.kill()
        return len(self.pieces)


@pytest.fixture
def workers(tmp_path):
    return [Worker(tmp_path, name) for name in "ab"]


def in_turns(work, interrupt=lambda: None):
    source = random.Random(1)
    return TurnsOfProcesses(work, source, interrupt).carry_out()


def test_one_side_computes_at_a_time_and_no_time_passes_for_the_other(workers, tmp_path):
    assert in_turns(workers) == [COUNT, COUNT]
    named = zip("ab", workers, strict=True)
    pieces = sorted((*piece, name) for name, worker in named for piece in worker.pieces)
    order = [name for *_, name in pieces]
    # each starts alone, and has one turn in each cycle
    assert order[:2] == ["a", "b"]
    assert all({*order[at : at + 2]} == {"a", "b"} for at in range(0, 2 * COUNT, 2))
    assert all(one[1] <= following[0] for one, following in itertools.pairwise(pieces))
    for worker in workers:
        assert COUNT * 0.05 <= worker.last["ran"] < worker.last["took"] - 0.05
    # nor do the processes that it has started compute in the other's turn
    ticks = [float(line) for line in (tmp_path / "a").read_text().splitlines()]
    begun, ended, _ = next(piece for piece in pieces if piece[2] == "b")
    assert ticks
    assert not [tick for tick in ticks if begun + 0.01 < tick < ended]


@pytest.mark.thorough
def test_the_order_of_the_turns_is_drawn_anew_for_each_cycle(tmp_path):
    sides = [Worker(tmp_path, name, 8) for name in "ab"]
    in_turns(sides)
    named = zip("ab", sides, strict=True)
    order = [name for *_, name in sorted((*p, name) for name, side in named for p in side.pieces)]
    assert len({tuple(order[at : at + 2]) for at in range(0, 16, 2)}) == 2


@pytest.mark.thorough
@pytest.mark.parametrize("evenly", [True, False])
def test_where_time_is_shared_a_side_with_long_turns_waits_for_the_other(tmp_path, evenly):
    long, short = Worker(tmp_path, "a", 3, seconds=1.0), Worker(tmp_path, "b", 20)
    TurnsOfProcesses([long, short], random.Random(1), lambda: None, evenly=evenly).carry_out()
    _, (_, second), (third, _) = long.pieces
    between = [begun for begun, _ in short.pieces if second <= begun < third]
    # without it, a turn in each cycle
    assert len(between) >= 3 if evenly else len(between) <= 2


@pytest.mark.thorough
def test_a_side_that_waits_for_what_a_stopped_one_holds_ends_the_turns(workers, monkeypatch):
    monkeypatch.setattr(turns, "WAITING_SECONDS", 1.0)
    first, second = workers
    ended = threading.Event()

    def waits(tell):
        """Its program waits for ever behind its first turn, as for a lock."""
        second.command[-2] = "1"
        second(tell)
        ended.wait(30)
        return 0

    first.command[-2] = "100"
    begun = time.monotonic()
    with pytest.raises(CannotTakeTurns):
        in_turns([waits, first], ended.set)
    assert time.monotonic() - begun < 20


def test_where_another_process_has_no_room_one_follows_the_other(workers, monkeypatch):
    monkeypatch.setattr(turns, "available_memory_bytes", lambda: 1000)
    assert in_turns(workers) == [COUNT, COUNT]
    first, second = workers
    assert first.pieces[-1][1] < second.started


@pytest.mark.thorough
def test_a_side_that_ends_or_fails_leaves_all_turns_to_the_other(workers, tmp_path):
    def fails(tell):
        raise OSError("no process")

    with pytest.raises(OSError, match="no process"):
        in_turns([fails, workers[0]])
    assert len(workers[0].pieces) == COUNT
    long = Worker(tmp_path, "long", 2 * COUNT)
    assert in_turns([workers[1], long]) == [COUNT, 2 * COUNT]


def test_an_interruption_ends_the_process_that_waits_and_the_one_that_runs(workers):
    first, second = workers

    def interrupts(tell):
        def then(message):
            if first.pieces and isinstance(message, StepDone):
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                assert ended.wait(10)
                raise InterruptedError
            tell(message)

        return second(then)

    ended = threading.Event()
    with pytest.raises(KeyboardInterrupt):
        in_turns([first, interrupts], ended.set)
    assert first.process.returncode == second.process.returncode == -signal.SIGKILL
    assert len(first.pieces) < COUNT


def test_an_interruption_before_all_have_begun_ends_those_that_have(monkeypatch):
    class Interrupted(ThreadPoolExecutor):
        def submit(self, *given):
            if self._threads:
                raise KeyboardInterrupt
            return super().submit(*given)

    monkeypatch.setattr(turns, "ThreadPoolExecutor", Interrupted)
    ended = threading.Event()
    with pytest.raises(KeyboardInterrupt):
        in_turns([lambda tell: ended.wait(10), lambda tell: None], ended.set)
    assert ended.is_set()


def test_a_stopped_fork_ends_with_the_process_that_would_resume_it():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = subprocess.Popen(["sleep", "60"], start_new_session=True)
    with theirs:
        process.send_signal(signal.SIGSTOP)
        ours.close()
        end_with_parent(theirs, process.pid, threading.Event())
        assert process.wait(10) == -signal.SIGKILL


def test_a_turn_waits_while_nothing_computes_and_not_because_a_process_is_gone(monkeypatch):
    now, used = [0.0], [9.0]
    monkeypatch.setattr(turns.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(turns, "_cpu_seconds_of_children", lambda: used[0])
    watch = turns._Watch(begun=0.0)
    assert not watch.is_idle(1)
    # of 9 s a process takes 6 s with it; another one computes
    for now[0], used[0] in ((3.0, 3.0), (6.0, 5.0), (9.0, 7.0)):
        assert not watch.is_idle(1)
    # for as long as the processes have lived, tf.data's tuning thread may sleep at an epoch's end
    for now[0], idle in ((15.0, False), (17.9, False), (18.1, True)):
        assert watch.is_idle(1) is idle
    # it never sleeps for more than a minute
    now[0], used[0] = 1000.0, 99.0
    for now[0], idle in ((1000.0, False), (1059.0, False), (1061.0, True)):
        assert watch.is_idle(2) is idle
