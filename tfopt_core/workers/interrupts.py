"""Hold Ctrl-C back while what belongs together is written down; take SIGTERM for Ctrl-C.

Between a record on disk and the same in memory, an interruption would leave the two different.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

import attrs


@attrs.define(eq=False)
class HoldInterrupt:
    """Holds Ctrl-C back in a `with` block, at whose end it is raised; once at most.

    In another thread than the main one it does nothing, since Python raises KeyboardInterrupt in
    the main thread alone; nor where another program handles Ctrl-C, which could not get it back.
    """

    _pressed: bool = False
    _handler: Any = None

    def __enter__(self) -> HoldInterrupt:
        self._hold()
        return self

    def __exit__(self, *error: object) -> None:
        self._release()

    @contextlib.contextmanager
    def lifted(self) -> Iterator[None]:
        """Let Ctrl-C interrupt what is done in this block, within one that holds it back.

        :raises KeyboardInterrupt: at once, if it was pressed before.
        """
        self._release()
        try:
            yield
        finally:
            self._hold()

    def _hold(self) -> None:
        of_python = signal.getsignal(signal.SIGINT) is not None
        if of_python and threading.current_thread() is threading.main_thread():
            self._handler = signal.signal(signal.SIGINT, self._press)

    def _release(self) -> None:
        if self._handler is None:
            return
        signal.signal(signal.SIGINT, self._handler)
        self._handler = None
        if self._pressed:
            self._pressed = False
            signal.raise_signal(signal.SIGINT)

    def _press(self, number: int, frame: object) -> None:
        self._pressed = True


@contextlib.contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Have SIGTERM, by which job schedulers end a job, end this block as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
