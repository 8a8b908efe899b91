"""What all steps of one `tfopt tune` share: what is searched for, with what, and how long."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.hooks.installed.inspection import PluginInfo
from tfopt_core.hooks.plugin_class import Traits
from tfopt_core.hooks.specs import OWNER_HOOK
from tfopt_core.measurement.progress import Observer
from tfopt_core.recipe.model import Objective, TuneSpec
from tfopt_core.store.database import Store
from tfopt_core.trials.request import Request
from tfopt_core.tuning.results import SettingsTrial, StackTrial
from tfopt_core.tuning.search_log import SearchLog
from tfopt_core.tuning.storage import StudyStorage
from tfopt_core.workers.spawn import Runner

# Takes what the search does next, in words, and each trial that has ended.
SearchObserver = Callable[[str | StackTrial | SettingsTrial], None]


@attrs.frozen(kw_only=True)
class TuneOptions:
    """The options of `tfopt tune`.

    :param target: what the user named, by which `--resume` finds the search again.
    :param plugins: the only plugins to try; empty for all that are installed.
    :param write_to: the file of the winner's recipe; None for NAME.tuned.toml.
    :param fresh: whether to begin from nothing, whatever earlier searches have left.
    :param storage: where machines share the search of settings; it may hold a password.
    """

    target: str
    overrides: tuple[str, ...] = ()
    budget: str | None = None
    plugins: tuple[str, ...] = ()
    write_to: Path | None = None
    resuming: bool = False
    fresh: bool = False
    time_limit: str | None = None
    storage: str | None = attrs.field(default=None, repr=False)
    debug: bool = False


@attrs.define(kw_only=True, eq=False)
class SearchContext:
    """What is searched for, with what, and how long.

    :param request: the request of the recipe without plugins; its folder is that of the search.
    :param budget: seconds.
    :param installed: all plugins, as read in a guarded process.
    :param proof_path: where the winner's recipe will lie.
    :param runner: runs the processes, and `trial_runner` those of the trials, by their limits.
    :param store: where the proof is kept.
    :param searching: gives the observer of the search, and `measuring` that of the proof.
    :param storage: where machines share the search of settings; None for this machine alone.
    :param log: of this search, once it has begun.
    """

    request: Request
    options: TuneOptions
    objective: Objective
    budget: float
    installed: tuple[PluginInfo, ...] = ()
    proof_path: Path
    runner: Runner
    trial_runner: Runner
    store: Store
    searching: Callable[[], AbstractContextManager[SearchObserver]] = (
        lambda: nullcontext(lambda _: None)
    )  # fmt: skip
    measuring: Callable[[], AbstractContextManager[Observer]] = lambda: nullcontext(lambda _: None)
    storage: StudyStorage | None = None
    now: Callable[[], float] = time.monotonic
    log: SearchLog = attrs.field(init=False)
    observer: SearchObserver = attrs.field(init=False, default=lambda event: None)
    _begun: float = attrs.field(init=False)

    @_begun.default
    def _begin(self) -> float:
        return self.now()

    def elapsed(self) -> float:
        """Return the seconds that the search has taken, those before a resume too."""
        return self.log.own.seconds + self.now() - self._begun

    @property
    def own(self) -> dict[str, Mapping[str, Any]]:
        """The settings of the plugins that the recipe names."""
        return {one.use: one.settings for one in self.request.recipe.plugins}

    @property
    def known(self) -> dict[str, Traits]:
        """The traits of the installed plugins."""
        return {one.name: one.traits for one in self.installed if one.traits is not None}

    @property
    def owners(self) -> frozenset[str]:
        """The plugins that build a strategy, of which a stack has one."""
        return frozenset(one.name for one in self.installed if OWNER_HOOK in one.hooks)

    @property
    def spec(self) -> TuneSpec:
        """How to search, as the recipe says."""
        return self.request.recipe.tune or TuneSpec()

    @property
    def seed(self) -> int:
        """The seed of the search: the same after a resume."""
        return int.from_bytes(self.log.own.id.encode()[-6:], "big") % 2**31
