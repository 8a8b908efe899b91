"""A run's process is started below one that ends what it leaves behind, and tells of it."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import textwrap

import psutil
import pytest
from support.real_process import wait_until

from tfopt_core.workers.process import ParentGone, WorkerProcess, start_process
from tfopt_core.workers.supervise import end_group

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="other systems know no subreapers"
)

PR_GET_CHILD_SUBREAPER = 37  # from <linux/prctl.h>

# Leaves the session, as a daemon does.
# a number that no other test's sleeper has
SLEEPER = f"987.{os.getpid()}"
DAEMON = f"import subprocess; subprocess.Popen(['sleep', '{SLEEPER}'], start_new_session=True)"


@pytest.fixture
def start(tmp_path):
    """Starts Python with a program below the process that reaps."""
    sockets = []

    def go(code):
        ours, theirs = socket.socketpair()
        sockets.append(ours)
        with theirs, (tmp_path / "output.txt").open("wb") as output:
            program = [sys.executable, "-c", textwrap.dedent(code), str(theirs.fileno())]
            return start_process(program, os.environ, theirs.fileno(), output)

    yield go
    for each in sockets:
        each.close()


def sleepers():
    """The processes of DAEMON that run."""
    return [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", SLEEPER]]


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("pass", 0),
        ("raise SystemExit(3)", 3),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
    ],
)
def test_the_exit_status_is_that_of_the_program(start, code, status):
    process = start(code)
    assert process.wait(60) == status
    assert process.poll() == status
    assert process.left_behind == ()
    assert not process.lost


def test_a_process_is_lost_if_its_parent_ends_before_it_told_how_it_ended():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.close()
    with ours:
        process = WorkerProcess(ours, pid=0)
        assert process.wait(60) == -signal.SIGKILL
        assert process.lost


def test_the_program_leads_a_session_and_its_number_is_known(start, tmp_path):
    process = start("import os; print(os.getpid(), os.getsid(0))")
    assert process.wait(60) == 0
    assert (tmp_path / "output.txt").read_text().split() == [str(process.pid)] * 2


def test_what_has_left_the_session_is_ended_and_told(start):
    process = start(DAEMON)
    assert process.wait(60) == 0
    assert process.left_behind == (f"sleep {SLEEPER}",)
    assert sleepers() == []


def test_what_stays_in_the_session_is_ended_without_a_word(start):
    process = start(f"import subprocess; subprocess.Popen(['sleep', '{SLEEPER}'])")
    assert process.wait(60) == 0
    assert process.left_behind == ()
    assert sleepers() == []


def test_all_is_ended_with_the_process_that_started_it(start):
    code = f"""
        import os, socket, sys, time
        from tfopt_core.workers.process import ParentGone, start_process
        ours, theirs = socket.socketpair()
        code = {DAEMON!r} + "; import time; time.sleep({SLEEPER})"
        program = [sys.executable, "-c", code]
        process = start_process(program, os.environ, theirs.fileno(), None)
        print(process.pid, flush=True)
        time.sleep({SLEEPER})
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        pid = int(parent.stdout.readline())
        wait_until("the daemon", sleepers)
        parent.kill()
    wait_until("its end", lambda: not sleepers() and not psutil.pid_exists(pid))


def test_this_process_becomes_no_subreaper(start):
    assert start("pass").wait(60) == 0
    answer = ctypes.c_int(-1)
    assert ctypes.CDLL(None).prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(answer)) == 0
    assert answer.value == 0


def test_a_program_that_cannot_be_started_is_a_process_that_failed(start, tmp_path):
    with (tmp_path / "output.txt").open("wb") as output, pytest.raises(ParentGone):
        start_process(["/no/such/program"], os.environ, output.fileno(), output)
    assert "No such file" in (tmp_path / "output.txt").read_text()


def test_a_fork_that_has_not_begun_its_session_is_ended_too():
    process = subprocess.Popen(["sleep", "3"])
    end_group(process)
    assert process.returncode == -signal.SIGKILL
