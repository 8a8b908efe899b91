"""Find which processes of a cluster are missing, while one of them waits for the others.

That process waits in native code and can tell nothing: its parent looks at the addresses.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

import attrs

from tfopt_core.statistics.wording import seconds_in_words
from tfopt_core.training.distributed.serving import answers

# Between two looks at those who have not come yet.
LOOK_SECONDS = 1.0
AT_ONCE = 32

Answers = Callable[[str], bool]


@attrs.define(eq=False)
class Gathering:
    """The others of a cluster, looked for until they have all come or time is up.

    :param others: their addresses, by name.
    :param seconds: how long they are waited for.
    :param answers: whether somebody listens at an address; tests give another.
    """

    others: Mapping[str, str]
    seconds: float
    answers: Answers = answers
    _seen: set[str] = attrs.field(factory=set, init=False)
    _over: threading.Event = attrs.field(factory=threading.Event, init=False)

    def begin(self) -> None:
        """Look, in a thread of its own, until `end` or until all were seen."""
        threading.Thread(target=self._watch, daemon=True).start()

    def end(self) -> None:
        """Look no more."""
        self._over.set()

    def cause(self) -> str:
        """Return why it took too long: who did not come, or went again, as of a last look."""
        self.end()
        there = self._look(self.others)
        within = seconds_in_words(self.seconds)
        if missing := [name for name in self.others if name not in there | self._seen]:
            return f"{self._named(missing)} did not come within {within}"
        if gone := [name for name in self.others if name not in there]:
            return f"{self._named(gone)} came, and ended before all had come"
        return f"the cluster did not form within {within} although every address answers"

    def _watch(self) -> None:
        # who came and went again must not be said never to have come
        while True:
            self._seen |= self._look(name for name in self.others if name not in self._seen)
            if len(self._seen) == len(self.others) or self._over.wait(LOOK_SECONDS):
                return

    def _look(self, names: Iterable[str]) -> set[str]:
        looked_at = list(names)
        if not looked_at:
            return set()
        with ThreadPoolExecutor(min(AT_ONCE, len(looked_at))) as pool:
            found = pool.map(self.answers, (self.others[name] for name in looked_at))
            return {name for name, there in zip(looked_at, found, strict=True) if there}

    def _named(self, names: Iterable[str]) -> str:
        """`worker 1 (10.0.0.2:2222) and worker 2 (10.0.0.3:2222)`."""
        *first, last = (f"{name} ({self.others[name]})" for name in names)
        return f"{', '.join(first)} and {last}" if first else last
