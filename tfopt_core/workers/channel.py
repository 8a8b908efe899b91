"""The private socket to a worker process: it carries tasks one way, messages the other."""

from __future__ import annotations

import json
import pickle
import socket
import struct
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, get_args

import attrs
from cattrs import Converter, transform_error

from tfopt_core.records.messages import CannotMount, Failure, Message
from tfopt_core.workers.task import Task

TYPE = "type"
_KINDS = {kind.__name__: kind for kind in get_args(Message)}
# The most characters shown of an unknown message, and the most problems of a malformed one.
SHOWN_CHARACTERS, SHOWN_PROBLEMS = 80, 3

# It writes the code for a class when its first message comes: a tagged union of cattrs would write
# that of all classes, which takes each process 45 ms at its start.
_converter = Converter(forbid_extra_keys=True)


@attrs.define(eq=False)
class Parent:
    """The process that started this one: it takes messages, and may send further tasks."""

    _channel: socket.socket
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    _tasks: SimpleQueue[Task | Exception] = attrs.field(factory=SimpleQueue, init=False)

    def __call__(self, message: Message) -> None:
        """Send a message."""
        data = encode(message)
        with self._lock:
            self._channel.sendall(data)

    def next_task(self) -> Task:
        """Wait for another task and return it.

        :raises Exception: whatever reading it raises, which may import plugins.
        """
        task = self._tasks.get()
        if isinstance(task, Exception):
            raise task
        return task

    def receive(self) -> None:
        """Receive further tasks until that process is gone."""
        while True:
            try:
                self._tasks.put(receive_task(self._channel))
            except (EOFError, OSError):
                return
            except Exception as error:  # unpickling imports the plugins
                self._tasks.put(error)


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


def encode(message: Message) -> bytes:
    """Return a message as a line of JSON, which names its class as "type"."""
    return json.dumps(_unstructured(message)).encode() + b"\n"


def decode(line: bytes) -> Message:
    """Return the message that a line of JSON holds.

    :raises ValueError: if it is unknown or malformed.
    """
    return _structured(json.loads(line))


def reworded(message: Message, in_words: Callable[[str], str]) -> Message:
    """Return a message with `in_words` applied to each of its texts."""

    def convert(value: Any) -> Any:
        if isinstance(value, str):
            return in_words(value)
        if isinstance(value, dict):
            return {key: convert(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [convert(each) for each in value]
        return value

    return _structured(convert(_unstructured(message)))


def check_answer(message: Message, task: Task) -> None:
    """Check that a last message answers this task.

    :raises ValueError: if it answers another kind of task.
    """
    if not isinstance(message, (Failure, CannotMount, *task.answers)):
        kind, wanted = type(message).__name__, type(task).__name__
        raise ValueError(f"message {kind!r} is no answer to {wanted!r}")


def _unstructured(message: Message) -> dict[str, Any]:
    return {**_converter.unstructure(message), TYPE: type(message).__name__}


def _structured(data: Any) -> Message:
    kind = data.get(TYPE) if isinstance(data, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ValueError(f"unknown message {str(data)[:SHOWN_CHARACTERS]!r}")
    fields = {name: value for name, value in data.items() if name != TYPE}
    try:
        message: Message = _converter.structure(fields, _KINDS[kind])
    except Exception as error:  # any value may have any type
        problems = "; ".join(transform_error(error)[:SHOWN_PROBLEMS])
        raise ValueError(f"malformed message {kind!r}: {problems}") from error
    return message


def _exactly(channel: socket.socket, count: int) -> bytes:
    parts = []
    while count:
        part = channel.recv(min(count, 1 << 20))
        if not part:
            raise EOFError("the parent process is gone")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
