"""Why a process is said to have ended: memory, time limits, a closed channel, others that did not
come."""

import errno
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace

import attrs
import numpy as np
import pytest
from support.in_process import ended_with

from tfopt_core.errors import PluginError, WorkloadError, ran_out_of_memory
from tfopt_core.hooks.context import Cluster
from tfopt_core.hooks.plugin_class import guarded
from tfopt_core.training.distributed.serving import answers
from tfopt_core.training.messages import EpochDone, RunReport
from tfopt_core.workers import supervise
from tfopt_core.workers.supervise import NO_LIMITS, Limits, converse, end_group, why_not_formed
from tfopt_core.workers.task import Failure, RunTask, TurnOver, encode, failure_of


class ResourceExhaustedError(Exception):
    """Named as TensorFlow's, which takes seconds to import."""


def raised(call: Callable[[], object]) -> Exception:
    """Return the exception that a call raises."""
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("raised nothing")


def chained(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def raised_by_a_plugin(error: BaseException) -> PluginError:
    def fail() -> None:
        raise error

    with pytest.raises(PluginError) as raised:
        guarded("p", "on_epoch_end", fail)
    return raised.value


@pytest.mark.parametrize(
    ("error", "memory"),
    [
        (MemoryError(), True),
        (raised(lambda: np.empty(2**60, "uint8")), True),
        (ResourceExhaustedError("OOM when allocating tensor with shape[512,224,224,64]"), True),
        (ResourceExhaustedError("Out of memory while trying to allocate 7 bytes"), True),
        (ResourceExhaustedError(os.strerror(errno.ENOMEM)), True),
        (ResourceExhaustedError(f"cache: {os.strerror(errno.ENOSPC)}"), False),
        (ResourceExhaustedError(f"a.tfrecord; {os.strerror(errno.EMFILE)}"), False),
        (ResourceExhaustedError("Received message larger than max (5 vs. 4)"), False),
        (RuntimeError("out of memory"), False),
        (chained(WorkloadError("build raised"), MemoryError()), True),
        (chained(PluginError("p", "wrap_model", "raised"), ResourceExhaustedError("OOM")), True),
        (raised_by_a_plugin(ResourceExhaustedError("OOM")), True),
        (chained(RuntimeError("x"), OSError(errno.ENOSPC, "full")), False),
    ],
)
def test_memory_ran_out_only_where_the_error_says_so(error, memory):
    if isinstance(error, PluginError) and error.out_of_memory:
        error.__cause__ = None  # as Keras does to what is raised within `fit`
    assert ran_out_of_memory(error) is memory
    assert failure_of(error).out_of_memory is memory


def test_a_cycle_of_causes_is_followed_once():
    error = WorkloadError("it broke")
    error.__cause__ = error
    assert not ran_out_of_memory(error)


def test_an_outcome_is_marked_by_its_message_or_its_cause():
    failure = Failure(error="MemoryError", message="raised MemoryError", exit_code=3)
    assert not ended_with(failure).out_of_memory
    assert ended_with(attrs.evolve(failure, out_of_memory=True)).out_of_memory
    assert ended_with(RunReport(fits=(), out_of_memory=True)).out_of_memory
    assert ended_with(cause=supervise.OUT_OF_MEMORY).out_of_memory
    assert not ended_with(cause="killed by SIGKILL (possibly out of memory)").out_of_memory


def test_the_mark_stays_where_a_cluster_puts_the_cause_in_its_own_words():
    first = ended_with(cause=supervise.OUT_OF_MEMORY)
    assert attrs.evolve(first, cause="worker 1: out of memory").out_of_memory


class Killed:
    pid = 2**22 + 1  # of no process
    peak_rss_bytes = 3 * 2**30

    def __init__(self, number: int) -> None:
        self.number = number

    def poll(self):
        return -self.number

    def wait(self, timeout=None):
        return -self.number


@pytest.fixture
def no_task(monkeypatch):
    """A process is sent nothing to do."""
    monkeypatch.setattr(supervise, "send_task", lambda channel, task: None)


@pytest.mark.usefixtures("no_task")
@pytest.mark.promise(3, injected="SIGKILL with and without a rise of the counter, replaced")
@pytest.mark.parametrize(
    ("number", "counts", "cause"),
    [
        (signal.SIGKILL, [4, 5], "out of memory: killed by SIGKILL"),
        (signal.SIGKILL, [4, 4], "killed by SIGKILL (possibly out of memory, peak memory 3 GiB)"),
        (signal.SIGSEGV, [4, 5], "killed by SIGSEGV"),
    ],
)
def test_a_sigkill_is_out_of_memory_only_if_the_kernel_counted_it(
    monkeypatch, number, counts, cause
):
    left = iter(counts)
    monkeypatch.setattr(supervise, "oom_kills", lambda: next(left))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        message, said = converse(Killed(number), ours, RunTask(job=None), NO_LIMITS, print)
    assert message is None
    assert said == cause


# What counts for the time limits of a process

TOTAL, SILENCE = 50.0, 20.0


@pytest.mark.usefixtures("no_task")
@pytest.mark.parametrize(
    ("seconds_of_turn", "seconds_of_epoch", "cause"),
    [
        (100.0, 10.0, "ended with status 0 without a result"),
        (100.0, 60.0, "took longer than its limit of 50 s"),
        (0.0, 25.0, "hung: no sign of life for 20 s"),
    ],
)
def test_the_turns_of_other_processes_do_not_count(
    monkeypatch, seconds_of_turn, seconds_of_epoch, cause
):
    """A process is stopped while it waits for its next turn; `tell` returns when it goes on."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(
        supervise, "time", SimpleNamespace(monotonic=lambda: clock.now, sleep=lambda seconds: None)
    )
    monkeypatch.setattr(supervise, "_end_gently", lambda process: None)
    process = SimpleNamespace(
        pid=2**22 + 1, peak_rss_bytes=None, poll=lambda: None, wait=lambda timeout=None: 0
    )

    def tell(message):
        clock.now += seconds_of_turn if isinstance(message, TurnOver) else seconds_of_epoch

    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            for message in (TurnOver(1), EpochDone(0, {}), TurnOver(1)):
                theirs.send(encode(message))
        limits = Limits(total=TOTAL, silence=SILENCE)
        said = converse(process, ours, RunTask(job=None), limits, tell)
    assert said == (None, cause)


# A process that closes its connection and goes on can give no result, and is not waited for

HANGS = """
import os, signal, time
for number in (signal.SIGUSR1, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
os.closerange(0, 256)
time.sleep({seconds})
"""


class Child(subprocess.Popen[bytes]):
    """A worker process that nothing waits for but this one."""

    left_behind: tuple[str, ...] = ()
    peak_rss_bytes: int | None = None


@pytest.fixture
def told(no_task, monkeypatch):
    """`told(limits, seconds)`: the last message of a process that closes all files and then sleeps,
    and the cause."""
    monkeypatch.setattr(supervise, "GRACE_SECONDS", 0.3)
    monkeypatch.setattr(supervise, "DUMP_SECONDS", 0.0)

    def go(limits, seconds):
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                process = Child(
                    [sys.executable, "-c", HANGS.format(seconds=seconds)],
                    pass_fds=[theirs.fileno()], start_new_session=True,
                )  # fmt: skip
            try:
                return converse(process, ours, RunTask(job=None), limits, print)
            finally:
                end_group(process)

    return go


def test_a_process_that_closes_all_its_files_and_hangs_is_ended(told):
    begun = time.monotonic()
    assert told(Limits(), 600) == (None, "closed its connection to tfopt and did not end")
    assert time.monotonic() - begun < 60


@pytest.mark.thorough
def test_a_training_without_limits_is_waited_for(told):
    assert told(NO_LIMITS, 1.5) == (None, "ended with status 0 without a result")


def test_a_server_that_is_called_off_is_not_waited_for(told):
    """Its chief ends once the server has closed its connection, and hangs."""
    later = time.monotonic() + 1.5
    limits = Limits(silence=None, called_off=lambda: "ended" if time.monotonic() > later else None)
    assert told(limits, 20) == (None, "ended")


# Who is said to be missing when a cluster does not form

ADDRESSES = {"worker": ("10.0.0.1:2222", "10.0.0.2:2222", "10.0.0.3:2222")}
OTHERS = Cluster(addresses=ADDRESSES, job="worker", index=0).others


@pytest.mark.parametrize(
    ("there", "cause"),
    [
        ({"10.0.0.3:2222"}, "worker 1 (10.0.0.2:2222) did not come within 60 s, or has ended"),
        (set(),
         "worker 1 (10.0.0.2:2222) and worker 2 (10.0.0.3:2222) did not come within 60 s, or have "
         "ended"),
        ({"10.0.0.2:2222", "10.0.0.3:2222"},
         "the cluster did not form within 60 s although every address answers"),
    ],
)  # fmt: skip
def test_who_did_not_come_is_named_with_address_and_limit(there, cause):
    assert why_not_formed(OTHERS, 60.0, there.__contains__) == cause


def test_an_address_answers_while_somebody_listens_there():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert answers(address)
    assert not answers(address)


@pytest.mark.parametrize("address", ["", "nowhere", "127.0.0.1:x", "127.0.0.1:99999"])
def test_what_is_no_address_answers_nothing(address):
    assert not answers(address)
