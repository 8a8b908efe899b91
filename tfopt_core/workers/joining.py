"""Find which processes of a cluster are missing, while one of them waits for the others.

The waiting process is in native code and cannot report: its parent checks the addresses.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

import attrs

from tfopt_core.statistics.intervals import seconds_in_words
from tfopt_core.training.distributed.serving import answers

# The time between two checks of the missing processes.
LOOK_SECONDS = 1.0
AT_ONCE = 32

Answers = Callable[[str], bool]


@attrs.define(eq=False)
class Gathering:
    """Checks the other processes of a cluster until all were seen.

    :param others: their addresses, by name.
    :param seconds: how long to wait for them.
    :param answers: returns whether a process listens at an address; tests replace it.
    """

    others: Mapping[str, str]
    seconds: float
    answers: Answers = answers
    _seen: set[str] = attrs.field(factory=set, init=False)
    _over: threading.Event = attrs.field(factory=threading.Event, init=False)

    def begin(self) -> None:
        """Start the checks, in a thread, until `end` or until all were seen."""
        threading.Thread(target=self._watch, daemon=True).start()

    def end(self) -> None:
        """Stop the checks."""
        self._over.set()

    def cause(self) -> str:
        """Check once more. Return why it took too long: who did not come, or has ended."""
        self.end()
        there = self._look(self.others)
        within = seconds_in_words(self.seconds)
        if missing := [name for name in self.others if name not in there | self._seen]:
            return f"{self._named(missing)} did not come within {within}"
        if gone := [name for name in self.others if name not in there]:
            return f"{self._named(gone)} came, and ended before all had come"
        return f"the cluster did not form within {within} although every address answers"

    def _watch(self) -> None:
        # a process that came and ended must not be reported as missing
        while True:
            self._seen |= self._look(name for name in self.others if name not in self._seen)
            if len(self._seen) == len(self.others) or self._over.wait(LOOK_SECONDS):
                return

    def _look(self, names: Iterable[str]) -> set[str]:
        looked_at = list(names)
        if not looked_at:
            return set()
        with ThreadPoolExecutor(min(AT_ONCE, len(looked_at))) as pool:
            answers = pool.map(self.answers, (self.others[name] for name in looked_at))
            return {name for name, there in zip(looked_at, answers, strict=True) if there}

    def _named(self, names: Iterable[str]) -> str:
        """Return names with addresses: `worker 1 (10.0.0.2:2222) and worker 2 (10.0.0.3:2222)`."""
        *first, last = (f"{name} ({self.others[name]})" for name in names)
        return f"{', '.join(first)} and {last}" if first else last
