"""What is called "out of memory", and what only looks like it."""

from __future__ import annotations

import errno
import os
import signal
import socket
from collections.abc import Callable

import attrs
import numpy as np
import pytest

from tfopt_core.errors import PluginError, WorkloadError, ran_out_of_memory
from tfopt_core.hooks.card import guarded
from tfopt_core.records.messages import Failure
from tfopt_core.records.run import RunReport
from tfopt_core.workers import supervise
from tfopt_core.workers.spawn import ProcessOutcome
from tfopt_core.workers.supervise import NO_LIMITS, converse
from tfopt_core.workers.task import failure_of


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


def outcome(message=None, cause=None) -> ProcessOutcome:
    return ProcessOutcome(
        message=message, cause=cause, seconds=1.0, output_path=None, output_tail=""
    )


def test_an_outcome_is_marked_by_its_message_or_its_cause():
    failure = Failure(error="MemoryError", message="raised MemoryError", exit_code=3)
    assert not outcome(failure).out_of_memory
    assert outcome(attrs.evolve(failure, out_of_memory=True)).out_of_memory
    assert outcome(RunReport(fits=(), out_of_memory=True)).out_of_memory
    assert outcome(cause=supervise.OUT_OF_MEMORY).out_of_memory
    assert not outcome(cause="killed by SIGKILL (possibly out of memory)").out_of_memory


def test_the_mark_stays_where_a_cluster_puts_the_cause_in_its_own_words():
    first = outcome(cause=supervise.OUT_OF_MEMORY)
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
    monkeypatch.setattr(supervise, "send_task", lambda channel, task: None)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        message, said = converse(Killed(number), ours, None, NO_LIMITS, lambda message: None)
    assert message is None
    assert said == cause
