"""What has memory run out: a control group with a limit, and a plugin that takes too much."""

import contextlib
import functools
import os
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tfopt_core.workers.telemetry import memory_groups

MOUNT = Path("/sys/fs/cgroup")
# More than the addresses of a process: TensorFlow's own allocator fails.
GREEDY = '''
    import attrs
    from tfopt_core.plugins import Plugin, hookimpl

    @attrs.frozen(kw_only=True, eq=False)
    class Greedy(Plugin):
        """Takes a block of the device's memory that no device has."""

        equivalence = "exact"

        @hookimpl
        def on_epoch_end(self):
            import tensorflow as tf
            tf.zeros([2**50], tf.uint8)
'''


@contextlib.contextmanager
def memory_group(limit_bytes: int) -> Iterator[Callable[[], None]]:
    """Yield a function that moves the process which calls it into a group with this limit.

    Skips the test, with the reason, where no such group can be made. For `preexec_fn`.
    """
    own = memory_groups()
    # version 2 has no limits beside processes: a group below the top is tried too
    parents = [group for group in (*own, MOUNT / "memory") if group.is_dir()]
    why = "there is none that counts memory"
    for parent in dict.fromkeys(parents):
        group = parent / f"tfopt-test-{secrets.token_hex(4)}"
        try:
            group.mkdir()
        except OSError as error:
            why = f"{parent}: {error.strerror}"
            continue
        try:
            limits = ("memory.limit_in_bytes", "memory.max")
            [file] = [group / name for name in limits if (group / name).exists()]
            file.write_text(str(limit_bytes), encoding="ascii")
            for swap in ("memory.swap.max", "memory.swappiness"):
                if (group / swap).exists():
                    (group / swap).write_text("0", encoding="ascii")
        except (OSError, ValueError) as error:
            group.rmdir()
            why = f"{parent}: {error}"
            continue
        try:
            yield functools.partial(_join, group)
        finally:
            _remove(group)
        return
    pytest.skip(f"no control group can be made here: {why}")


def _join(group: Path) -> None:
    (group / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")


def _remove(group: Path) -> None:
    """Remove the group once its last process is gone."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            group.rmdir()
        except OSError:
            time.sleep(0.1)
        else:
            return
