"""Train one place of the catalogue with one plugin or with none, in a process of its own."""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Collection, Mapping
from importlib.metadata import version
from pathlib import Path
from time import process_time
from types import CodeType, TracebackType
from typing import Any, Self

import attrs
import tomlkit
from catalogue_rows import ROWS, Place, Row
from cattrs import Converter

from tfopt_core.commands.request import cluster_of, make_request
from tfopt_core.errors import InputError, RecipeError, TfoptError
from tfopt_core.hooks.machine import Machine, read_machine
from tfopt_core.hooks.plugin_class import Equivalence, equivalence_of, overrides
from tfopt_core.statistics.runs import RunResult
from tfopt_core.trials.processes import Processes, prepare
from tfopt_core.trials.request import Request, ScheduledRun, Variant, with_settings
from tfopt_core.workers.fork import ForkRunner
from tfopt_core.workers.local_cluster import LocalCluster
from tfopt_core.workers.spawn import Runner, SpawnRunner
from tfopt_core.workers.telemetry import disturbance, read_counters

ROOT = Path(__file__).resolve().parents[1]
# A plugin's run is compared with that of the baseline whose process started in the same way.
BASELINE, NEW_PROCESS = "baseline", "baseline in a new process"
# The folders of tfopt_core whose code no run of a training executes.
NOT_TRAINING = frozenset({"commands", "diagnosis", "measurement", "report", "store"})
OBSERVER = "an observer, which joins one extra, untimed run"

_converter = Converter()


@attrs.frozen(kw_only=True)
class CatalogueRun:
    """One run of a round, or why there is none.

    :param key: of the recipe and the plugin's code; one with another key no longer counts.
    :param seconds: those of its process.
    :param why_not: why the plugin was not applied, or was refused; "" if it was.
    :param failed: why the run failed; "" if it did not.
    :param run: the run as tfopt records it, None without one that counts.
    :param settings: those of the plugin, each "auto" resolved.
    """

    key: str
    seconds: float = 0.0
    why_not: str = ""
    failed: str = ""
    run: RunResult | None = None
    settings: Mapping[str, Any] | None = None
    equivalence: Equivalence | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, fit for JSON."""
        return dict(_converter.unstructure(self))

    @classmethod
    def from_dict(cls, data: Any) -> CatalogueRun:
        """Return the run that `to_dict` wrote."""
        return _converter.structure(data, cls)


def recipe_text(place: Place, name: str, row: Row | None) -> str:
    """Return the recipe of the workload with one plugin, or with none."""
    workload = {"use": place.workload, "epochs": place.epochs, "options": dict(place.options)}
    if place.batch_size is not None:
        workload["batch_size"] = place.batch_size
    recipe: dict[str, Any] = {"name": f"catalogue {name}", "workload": workload}
    if row is not None:
        recipe["plugins"] = [{"use": name, **row.settings}]
    if place.target is not None:
        recipe["measure"] = {"target": dict(place.target)}
    return tomlkit.dumps(recipe)


def code_settings() -> dict[str, str]:
    """Return what all rounds of a store share: the code of a training, versions, the machine."""
    machine = read_machine()
    return {
        "tfopt_core": code_hash(ROOT / "tfopt_core", left_out=NOT_TRAINING),
        "workloads": code_hash(ROOT / "workloads" / "tfopt_workloads"),
        "benchmarks/catalogue_runs.py": code_hash(Path(__file__)),
        "Python": sys.version.split()[0],
        **{name: version(name) for name in ("tensorflow", "keras", "numpy")},
        "machine": f"{machine.cpu_model}, {machine.cpu_count} CPUs",
    }


def code_hash(place: Path, left_out: Collection[str] = ()) -> str:
    """Return a hash of the Python code in a folder or file; comments and docstrings do not count.

    :param left_out: folders directly below it that do not count.
    """
    digest = hashlib.sha256()
    for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
        name = path.relative_to(place)
        if not name.parts or name.parts[0] not in left_out:
            code = compile(path.read_bytes(), path.name, "exec", optimize=2)
            digest.update(f"{name} {_parts_of(code)}".encode())
    return digest.hexdigest()


def _parts_of(code: CodeType) -> list[object]:
    """Return what a piece of compiled code does, without the lines that it came from."""
    constants = [
        _parts_of(each) if isinstance(each, CodeType)
        # the order of a set is another one in each process
        else sorted(map(repr, each)) if isinstance(each, frozenset) else each
        for each in code.co_consts
    ]  # fmt: skip
    return [code.co_name, code.co_code, code.co_names, code.co_varnames, constants]


@attrs.define(eq=False)
class Workbench:
    """Trains places with plugins; use it as a context manager, which ends the fork servers.

    A run is a fork of a process that has imported TensorFlow, as in `tfopt apply`. One whose plugin
    changes the environment of its process, or trains in several processes, is a new process, and so
    is its baseline.

    :param folder: for recipes and private folders.
    """

    folder: Path
    places: Mapping[str, Place]
    _spawn: SpawnRunner = attrs.field(factory=SpawnRunner, init=False)
    _fork: ForkRunner = attrs.field(init=False)
    _requests: dict[tuple[str, str], Request] = attrs.field(factory=dict, init=False)
    _ready: dict[tuple[str, str], Processes] = attrs.field(factory=dict, init=False)
    _machine: Machine | None = attrs.field(default=None, init=False)

    @_fork.default
    def _make_fork_runner(self) -> ForkRunner:
        return ForkRunner(self._spawn)

    def __enter__(self) -> Self:
        (self.folder / "pyproject.toml").touch()  # a project of its own
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._fork.close()

    @functools.cache  # noqa: B019 - one bench a process
    def key(self, place_name: str, name: str) -> str:
        """Return what identifies a training: its recipe, and the code of the plugin's package."""
        text = recipe_text(self.places[place_name], name, ROWS.get(name))
        digest = hashlib.sha256(text.encode())
        for stacked in self._request(place_name, name).plugins:
            [package] = ROOT.glob(f"plugins/{type(stacked.plugin).__module__.partition('.')[0]}")
            digest.update(_package_hash(package).encode())
        return digest.hexdigest()[:16]

    @functools.cache  # noqa: B019 - one bench a process
    def baseline_of(self, place_name: str, name: str) -> str:
        """Return the name of the baseline whose process starts as that of this plugin's run."""
        if name in (BASELINE, NEW_PROCESS):
            return name
        request = self._request(place_name, name)
        alike = Processes(request, self._spawn).alike and cluster_of(request) is None
        return BASELINE if alike else NEW_PROCESS

    def run(
        self, place_name: str, name: str, number: int, settings: Mapping[str, Any] | None
    ) -> CatalogueRun:
        """Train, and return what was recorded.

        :param name: a plugin, or one of the baselines.
        :param number: of the round, from which the seed is made.
        :param settings: the plugin's settings as an earlier round resolved them.
        """
        key = self.key(place_name, name)
        if self._request(place_name, name).observers:
            return CatalogueRun(key=key, why_not=OBSERVER)
        try:
            processes = self._processes(place_name, name, settings)
        except RecipeError as error:
            return CatalogueRun(key=key, failed=str(error))
        except InputError as error:
            return CatalogueRun(key=key, why_not=str(error))
        except TfoptError as error:
            return CatalogueRun(key=key, failed=str(error))
        plugins = processes.request.plugins
        scheduled = ScheduledRun(number, 0, Variant(name, plugins), number + 1)
        before, own = read_counters(), process_time()
        run = processes.run(scheduled, f"{place_name} {number} {name}", lambda message: None)
        computed = None if run.cpu_seconds is None else run.cpu_seconds + process_time() - own
        run = attrs.evolve(run, disturbance=disturbance(before, read_counters(), computed))
        return _recorded(key, run, plugins)

    def _processes(
        self, place_name: str, name: str, settings: Mapping[str, Any] | None
    ) -> Processes:
        """Return what starts the runs, each setting of "auto" resolved.

        :raises TfoptError: if the plugin refuses, or cannot be prepared.
        """
        at = place_name, name
        if at not in self._ready:
            request, runner = self._request(*at), self._runner(*at)
            if settings is not None:
                request = attrs.evolve(request, plugins=with_settings(request.plugins, [settings]))
            elif any(overrides(type(stacked.plugin), "resolve") for stacked in request.plugins):
                request = prepare(request, runner)[1]
            request = attrs.evolve(request, machine=self._seen_machine(place_name))
            self._ready[at] = Processes(request, runner)
        return self._ready[at]

    def _seen_machine(self, place_name: str) -> Machine:
        """Return the machine as TensorFlow sees it, which takes a process once."""
        if self._machine is None:
            request = self._request(place_name, BASELINE)
            self._machine = prepare(request, self._runner(place_name, BASELINE))[1].machine
        return self._machine

    def _runner(self, place_name: str, name: str) -> Runner:
        forked = self.baseline_of(place_name, name) == BASELINE
        return self._fork if forked else LocalCluster(spawn=self._spawn)

    def _request(self, place_name: str, name: str) -> Request:
        at = place_name, name
        if at not in self._requests:
            path = self.folder / "recipe.toml"
            text = recipe_text(self.places[place_name], name, ROWS.get(name))
            path.write_text(text, encoding="utf-8")
            self._requests[at] = make_request(str(path), [], compares=False)[0]
        return self._requests[at]


@functools.cache
def _package_hash(package: Path) -> str:
    return code_hash(package)


def _recorded(key: str, run: RunResult, plugins: Any) -> CatalogueRun:
    """Return what the catalogue keeps of a run: its figures, or why there are none."""
    [stacked] = plugins or [None]
    settings = None if stacked is None else stacked.settings
    seconds = run.process_seconds or 0.0
    common: dict[str, Any] = {"key": key, "seconds": seconds, "settings": settings}
    if not run.ok:
        cause = run.error or "no cause is known"
        # what a plugin refuses begins so; where its hook fails, the hook stands in between
        refused = stacked is not None and cause.startswith(f'plugin "{stacked.name}": ')
        common["why_not" if refused else "failed"] = cause
        return CatalogueRun(**common)
    for effect in run.effects.values():
        if not effect.applied:
            return CatalogueRun(why_not=effect.detail, **common)
    equivalence = None if stacked is None else equivalence_of(stacked.name, stacked.plugin)
    return CatalogueRun(run=attrs.evolve(run, output_tail=None), equivalence=equivalence, **common)
