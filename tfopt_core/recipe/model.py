"""The classes of a recipe: frozen data. Reading a file checks what they are made of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import Any, Literal

import attrs
from attrs.validators import ge, optional

from tfopt_core.recipe.formats import (
    Duration,
    SearchRange,
    SearchRanges,
    SecondsOrWhole,
    Variables,
    Word,
    duration,
    search_range,
)
from tfopt_core.recipe.shipped import folder_of
from tfopt_core.recipe.table import (
    TARGET_BOUNDS,
    WORKLOAD_CHOICES,
    Table,
    exactly_one,
    key,
    to_json,
    workload_rules,
)
from tfopt_core.recipe.tree import NOWHERE, Fault, Node

# The least pairs of a measurement without a budget, and how many seconds each of their runs trains
# after its start: up to the longest where so many hold enough epochs.
PAIRS, WARM_SECONDS, LONGEST_WARM_SECONDS = 6, 2.5, 5.0
# What a recipe says about any plugin, so no plugin can have it as a setting.
RESERVED_KEYS: Mapping[str, Any] = {"use": Word, "enabled": bool}
# Which contrast is the headline of a measurement.
Objective = Literal["time", "memory", "time-to-target"]

_POSITIVE = optional(ge(1))


def _as_float(value: Any) -> Any:
    # 600 and 600.0 mean the same recipe, so they must not differ in its hash.
    return float(value) if type(value) is int else value


def _metric() -> Any:
    """Return the key of a metric, which is always needed."""
    return key(
        attrs.NOTHING,
        "A metric as a finished epoch reports it, such as val_accuracy.",
        missing=('"metric" is missing', 'add, for example, metric = "val_accuracy"'),
    )


@attrs.frozen
class PluginEntry:
    """A plugin of the stack: its name, and its settings as the recipe gives them, unchecked.

    `where` are its keys with their places; without any where it is in no file.
    """

    use: str
    settings: Mapping[str, Any] = attrs.field(factory=dict, hash=False)
    where: Node = attrs.field(default=NOWHERE, eq=False, repr=False)

    @classmethod
    def of(cls, name: str, plugin: Node) -> PluginEntry:
        """Return the plugin that a table of a recipe describes."""
        settings = {k: v for k, v in plugin.plain().items() if k not in RESERVED_KEYS}
        return cls(name, settings, plugin)

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as plain data for JSON."""
        return {"use": self.use, **to_json(self.settings)}


@attrs.frozen
class WorkloadSpec(Table):
    """What is trained: a workload by name, a factory, or an unmodified script.

    `isolate` None means yes. Runs of a script with a `loop` of its own end after `max_steps`
    updates of an optimizer, None for the script's end.
    """

    use: Word | None = key(
        None, "A workload by name, one that ships or that a distribution registers."
    )
    factory: Word | None = key(None, '"package.module:callable" or "path/to/file.py:callable".')
    script: Word | None = key(None, "An unmodified Keras script, relative to this file.")
    module: Word | None = key(
        None, "A script that is started as `python -m` starts it: package.module."
    )
    args: tuple[str, ...] = key((), "Arguments of the script.")
    environment: Variables = key(
        dict, "Environment variables that the processes of the script start with.", hash=False
    )
    folder: Word | None = key(
        None, "Where the script runs, relative to this file; its folder by default."
    )
    isolate: bool | None = key(
        None, "Whether each measured run writes into a private folder instead."
    )
    loop: Literal["own"] | None = key(
        None, '"own" for a script that trains without fit, in a loop of its own.'
    )
    fit: int | None = key(
        None,
        "Number of the judged call of fit, from 1; all calls together by default.",
        validator=_POSITIVE,
    )
    max_epochs: int | None = key(
        None, "Cut each call of fit in the script short, for a quick look.", validator=_POSITIVE
    )
    max_steps: int | None = key(
        None, "Cut each call of fit, or a run's own loop, to so many steps.", validator=_POSITIVE
    )
    epochs: int | None = key(None, "Number of epochs.", validator=_POSITIVE)
    batch_size: int | None = key(None, "Global batch size, over all replicas.", validator=_POSITIVE)
    options: Mapping[str, Any] = key(dict, "Keyword arguments of the factory.", hash=False)

    @property
    def label(self) -> str:
        """The name, factory, script or module, as in the recipe."""
        return self.use or self.factory or self.script or self.module or ""

    @property
    def stem(self) -> str:
        """The name of its files and results, as in `train.tfopt.toml`."""
        place = self.factory.rpartition(":")[0] if self.factory else self.label
        if self.script or place.endswith(".py"):
            return Path(place).stem
        return place.rpartition(".")[2]

    @property
    def is_script(self) -> bool:
        """Whether a script is run, by its path or as a module."""
        return self.script is not None or self.module is not None

    @property
    def has_own_loop(self) -> bool:
        """Whether the script trains in a loop of its own, without `fit`."""
        return self.loop == "own"

    @property
    def key(self) -> str:
        """The key that names the workload."""
        return next((key for key in WORKLOAD_CHOICES if getattr(self, key) is not None), "use")

    @classmethod
    def rules(cls, given: Set[str]) -> Iterable[Fault]:
        """Return the faults of a table without one workload, or with keys of another one."""
        return workload_rules(given)


@attrs.frozen
class QualitySpec(Table):
    """Which metric must not get worse, and by how much it may.

    A `tolerance` of None is 0.005 for a metric that is better high, and 1% of the baseline's mean
    for one that is better low.
    """

    metric: Word = _metric()
    tolerance: float | None = key(
        None,
        "By how much the metric may be worse, in its own unit.",
        converter=_as_float,
        validator=optional(ge(0)),
    )
    direction: Literal["max", "min"] | None = key(
        None, "Which direction is better; by default, from the metric's name."
    )


@attrs.frozen
class TargetSpec(Table):
    """The value of a metric that a training must reach; exactly one bound is given."""

    metric: Word = _metric()
    at_least: float | None = key(
        None, "The target is reached once the metric is this high.", converter=_as_float
    )
    at_most: float | None = key(
        None, "The target is reached once the metric is this low.", converter=_as_float
    )

    @classmethod
    def rules(cls, given: Set[str]) -> Iterable[Fault]:
        """Return a fault unless there is one bound."""
        return exactly_one(given, TARGET_BOUNDS, "bound")


@attrs.frozen
class BaselineSpec(Table):
    """In which options of the workload the baseline differs from the stack.

    "batch_size" may be among the `defaults`.
    """

    batch_size: int | None = key(None, "The baseline's global batch size.", validator=_POSITIVE)
    options: Mapping[str, Any] = key(
        dict, "The baseline's options, in place of those of the workload.", hash=False
    )
    defaults: tuple[str, ...] = key((), "Options that the baseline leaves to the workload.")


@attrs.frozen
class MeasureSpec(Table):
    """How the stack is measured.

    `pairs` and `seconds` are fixed beforehand; a budget holds fewer or more of both.
    """

    pairs: int | None = key(
        None,
        "Number of pairs of runs, at least 4; by default as many as 85 s hold, 6 to 24.",
        validator=optional(ge(4)),
    )
    seconds: SecondsOrWhole | None = key(
        None,
        'Seconds that each run trains after its start, or "whole" trainings; by default 2.5, up to '
        "5 where that holds four epochs; whole where a quality is named and the stack is not "
        "certified.",
        converter=_as_float,
    )
    budget_seconds: Duration | None = key(
        None,
        'Time for which pairs and seconds are chosen: "10m", "1h30m", or seconds.',
        toml="budget",
        converter=attrs.converters.optional(duration),
    )
    attribution: Literal["auto", "off", "leave-one-out"] = key(
        "auto", "How the share of each plugin is measured."
    )
    quality: QualitySpec | None = key(
        None, "Which metric must not get worse, and by how much it may."
    )
    target: TargetSpec | None = key(
        None, "The value to reach; needed where the stack changes the training algorithm."
    )
    objective: Objective = key(
        "time", "Which contrast is the headline: of time, peak memory or time to target."
    )
    baseline: BaselineSpec | None = key(
        None, "In which options of the workload the baseline differs from the stack."
    )


# How settings and options are drawn, and when a training that learns badly is ended.
Sampler = Literal["tpe", "random", "qmc"]
Pruner = Literal["median", "successive-halving", "hyperband", "none"]
DEFAULT_SAMPLER, DEFAULT_PRUNER, DEFAULT_TRIALS = "tpe", "median", 20


@attrs.frozen
class TuneSpec(Table):
    """How `tfopt tune` searches.

    `sampler`, `pruner`, `trials` and `options` are of the search of settings; one of them asks for
    it, and None means the default.
    """

    objective: Objective | None = key(
        None, "What is searched for; that of the measurement by default."
    )
    budget_seconds: Duration = key(
        900.0,
        'Approximate time of the search and its proof: "15m", "1h", or seconds.',
        toml="budget",
        converter=duration,
    )
    sampler: Sampler | None = key(None, "Optuna's sampler of settings and options; tpe by default.")
    pruner: Pruner | None = key(
        None, "Optuna's pruner, which ends a training that learns badly; median by default."
    )
    trials: int | None = key(
        None, "How many trials to make at most; 20 by default.", validator=_POSITIVE
    )
    options: SearchRanges = key(
        dict, "The workload's options to search, each with its range; batch_size too.", hash=False
    )

    @property
    def searches_settings(self) -> bool:
        """Whether settings are searched besides stacks."""
        given = (self.sampler, self.pruner, self.trials)
        return bool(self.options) or any(one is not None for one in given)

    @property
    def ranges(self) -> dict[str, SearchRange]:
        """The range of each option."""
        return {name: search_range(value) for name, value in self.options.items()}


@attrs.frozen
class Recipe(Table):
    """A workload, the stack of plugins in order, how to measure, and how to search."""

    name: Word = key(attrs.NOTHING, "Name of the results; the file's name by default.")
    workload: WorkloadSpec = key(
        attrs.NOTHING,
        "What is trained: one of use, factory, script and module.",
        missing=("no workload", "add [workload] with use, factory, script or module"),
    )
    description: str = key("", "When to use this recipe.")
    plugins: tuple[PluginEntry, ...] = ()
    measure: MeasureSpec = key(MeasureSpec, "How the stack is measured.")
    tune: TuneSpec | None = key(None, "How `tfopt tune` searches.")
    path: Path | None = None

    @property
    def directory(self) -> Path:
        """The folder that the recipe's relative paths start from."""
        return Path.cwd() if self.path is None else folder_of(self.path.absolute())

    @property
    def working_directory(self) -> Path:
        """The folder that a script is started in."""
        folder = self.workload.folder
        return self.directory if folder is None else (self.directory / folder)

    def to_dict(self) -> dict[str, Any]:
        """Return the recipe as plain data for JSON, in the form of a recipe file."""
        data = {**super().to_dict(), "plugins": [entry.to_dict() for entry in self.plugins]}
        order = ("name", "description", "workload", "plugins", "measure", "tune")
        return {key: data[key] for key in order if key in data}

    def sha256(self) -> str:
        """Return the hash of the recipe, after `extends` and `--set`.

        Comments, the order of keys, the file's place, the two labels (name and description) and
        `[tune]` do not count; the order of the stack does. Raises ValueError for a plugin setting
        that is nan or infinite; a recipe that was read has none.
        """
        data = self.to_dict()
        meaning = {key: data[key] for key in ("workload", "plugins", "measure")}
        canonical = json.dumps(meaning, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(canonical.encode("ascii")).hexdigest()
