"""What all steps of one `tfopt tune` share: what is searched for, with what, and how long; and how
long a run of a trial trains, and a process of one may take."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.hooks.installed.inspection import PluginInfo
from tfopt_core.measurement.progress import Observer
from tfopt_core.recipe.model import TuneObjective
from tfopt_core.store.database import Store
from tfopt_core.trials.request import Request
from tfopt_core.tuning.progress import SearchObserver
from tfopt_core.tuning.search_log import SearchLog
from tfopt_core.tuning.storage import StudyStorage
from tfopt_core.workers.spawn import Runner

# A run of a trial is cut after this many seconds of timed steps, or of those in turns.
RUN_SECONDS, RUN_SECONDS_IN_TURNS = 6.0, 3.0
# One process of a trial may take this share of the budget, and at least so many seconds.
PROCESS_SHARE, LEAST_PROCESS_SECONDS = 1 / 6, 120.0


@attrs.define(eq=False)
class ProcessDeadline:
    """Says of the current process of a trial whether it took too long, as `Limits.called_off`.

    :param seconds: how long a process may take.
    """

    seconds: float
    now: Callable[[], float] = time.monotonic
    _end: float = math.inf
    _reason: str | None = None

    def begin(self) -> None:
        """Note that a process begins."""
        self._end, self._reason = self.now() + self.seconds, None

    def lift(self) -> None:
        """Note that what follows may take as long as it takes."""
        self._end, self._reason = math.inf, None

    def end(self, reason: str) -> None:
        """End the current process for another reason."""
        self._reason = reason

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Have the time of the current process stand still, while another one may have its own."""
        left = self._end - self.now()
        try:
            yield
        finally:
            self._end = self.now() + left

    def __call__(self) -> str | None:
        """Return why to end the process, None if it may go on."""
        if self._reason is not None:
            return self._reason
        return self.too_long if self.now() > self._end else None

    @property
    def too_long(self) -> str:
        """The reason where it is the time."""
        return f"it took more than {self.seconds:.0f} s"


def process_seconds(budget: float) -> float:
    """Return how many seconds a process of a trial may take, with this budget in seconds."""
    return max(LEAST_PROCESS_SECONDS, PROCESS_SHARE * budget)


@attrs.define(kw_only=True, eq=False)
class SearchContext:
    """What is searched for, with what, and how long.

    :param request: the request of the recipe without plugins; its folder is that of the search.
    :param target: what the user named, by which `--resume` finds the search again.
    :param own: the settings of the plugins that the recipe names.
    :param budget: seconds.
    :param installed: all plugins, as read in a guarded process.
    :param only: the only plugins to try; empty for all that are installed.
    :param proof_path: where the winner's recipe will lie.
    :param runner: runs the processes of the trials; its limits call `deadline`.
    :param store: where the proof is kept.
    :param observer: shows the search, and `measuring` gives the observer of its proof.
    :param resuming: go on with the newest search of this target that was stopped.
    :param fresh: begin from nothing, whatever earlier searches have left.
    :param storage: where machines share the search of settings; None for this machine alone.
    :param log: of this search, once it has begun.
    :param earlier_seconds: what the search took before it was resumed.
    """

    request: Request
    target: str
    own: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
    objective: TuneObjective
    budget: float
    installed: tuple[PluginInfo, ...] = ()
    only: frozenset[str] = frozenset()
    proof_path: Path
    runner: Runner
    deadline: ProcessDeadline
    store: Store
    observer: SearchObserver = lambda event: None
    measuring: Callable[[], AbstractContextManager[Observer]] = lambda: nullcontext(lambda _: None)
    resuming: bool = False
    fresh: bool = False
    storage: StudyStorage | None = None
    now: Callable[[], float] = time.monotonic
    log: SearchLog = attrs.field(init=False)
    earlier_seconds: float = 0.0
    _begun: float = attrs.field(init=False)

    @_begun.default
    def _begin(self) -> float:
        return self.now()

    def elapsed(self) -> float:
        """Return the seconds that the search has taken, those before a resume too."""
        return self.earlier_seconds + self.now() - self._begun

    @property
    def seed(self) -> int:
        """The seed of the search: the same after a resume."""
        return int.from_bytes(self.log.own.id.encode()[-6:], "big") % 2**31

    @property
    def trains_whole(self) -> bool:
        """Whether trainings run to their end, and quality steers the search."""
        return self.objective in ("time-to-target", "quality")
