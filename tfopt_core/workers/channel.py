"""The private socket to a worker process: it carries a task one way, lines of JSON the other."""

from __future__ import annotations

import pickle
import socket
import struct

from tfopt_core.workers.task import Task


def send_task(channel: socket.socket, task: Task) -> None:
    """Send a task, its length first."""
    data = pickle.dumps(task)
    channel.sendall(struct.pack(">Q", len(data)) + data)


def receive_task(channel: socket.socket) -> Task:
    """Receive a task from the process that started this one.

    :raises EOFError: if that process is gone.
    """
    (length,) = struct.unpack(">Q", _exactly(channel, 8))
    task = pickle.loads(_exactly(channel, length))
    assert isinstance(task, Task)
    return task


def _exactly(channel: socket.socket, count: int) -> bytes:
    parts = []
    while count:
        part = channel.recv(min(count, 1 << 20))
        if not part:
            raise EOFError("the parent process is gone")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
