"""End a process when its parent dies, even while it waits in native code."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

# From <linux/prctl.h>.
PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Have the kernel kill this process once the thread that started it has ended.

    While TensorFlow waits for the other processes of a cluster it holds Python's lock, and no
    thread of Python could notice that the parent has gone. Only Linux supports this; elsewhere it
    does nothing, and the process ends when its wait does.
    """
    if not sys.platform.startswith("linux"):
        return
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
