"""The classes of a recipe: frozen data, validated on construction."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path
from typing import Any, Literal, get_args

import attrs

from tfopt_core.errors import Problem
from tfopt_core.recipe import checks
from tfopt_core.recipe.checks import Fault
from tfopt_core.recipe.ranges import SearchRange, search_range, search_ranges
from tfopt_core.recipe.shipped import folder_of
from tfopt_core.recipe.table import Checked, Nested, Table, exactly_one, to_json
from tfopt_core.recipe.tree import Place

WORKLOAD_CHOICES = ("use", "factory", "script", "module")
# Only scripts have these, started by their path or as a module.
SCRIPT_KEYS = ("args", "environment", "folder", "isolate", "loop", "fit", "max_epochs", "max_steps")
# Keys that are about calls of `fit`.
FIT_KEYS = ("fit", "max_epochs")
TARGET_BOUNDS = ("at_least", "at_most")
# Pairs of a measurement, and how many seconds each of their runs trains behind its start.
PAIRS, WARM_SECONDS = 6, 5.0


# Which contrast is the headline of a measurement.
Objective = Literal["time", "memory", "time-to-target"]


def _as_float(value: Any) -> Any:
    # 600 and 600.0 mean the same recipe, so they must not differ in its hash.
    return float(value) if type(value) is int else value


def _as_float_or_none(value: float | None) -> float | None:
    return None if value is None else _as_float(value)


def _metric_is_given(given: Set[str]) -> Iterator[Fault]:
    if "metric" not in given:
        yield Fault('"metric" is missing', 'add, for example, metric = "val_accuracy"')


@attrs.frozen
class Where:
    """The place of a plugin in its recipe file, and of each of its keys.

    `path` is "plugins[1]", counted from 0 in its own file. `key_lines` maps a key below the
    plugin (nested: "a.b", "a[0]") to its line; `set_by` maps a key that `--set` gave to its place,
    whose file is "--set plugins.cache.storage=disk".
    """

    file: str = ""
    path: str = ""
    line: int = 0
    key_lines: Mapping[str, int] = attrs.field(factory=dict, hash=False)
    set_by: Mapping[str, Place] = attrs.field(factory=dict, hash=False)

    def problem(self, key: str | None, message: str, mend: str = "") -> Problem:
        """Return a problem at a key of the plugin; None means the plugin itself.

        A key that was not given gets the line of the nearest key above it.
        """
        path = self.path
        if key:
            path += key if key.startswith("[") else f".{key}"
        known = key or ""
        while known:
            if known in self.set_by:
                place = self.set_by[known]
                whole = place.path + (key or "")[len(known) :]
                return Problem(place.file, place.line, whole, message, mend)
            if known in self.key_lines:
                return Problem(self.file, self.key_lines[known], path, message, mend)
            known = known[: max(known.rfind("."), known.rfind("["), 0)]
        return Problem(self.file, self.line, path, message, mend)


@attrs.frozen
class PluginEntry:
    """A plugin of the stack: its name, and its settings as the recipe gives them, unchecked."""

    use: str
    settings: Mapping[str, Any] = attrs.field(factory=dict, hash=False)
    where: Where = attrs.field(factory=Where, eq=False, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as plain data for JSON."""
        return {"use": self.use, **to_json(self.settings)}


@attrs.frozen
class WorkloadSpec(Table):
    """What is trained: a workload by name, a factory, or an unmodified script.

    A script is given by its path (`python train.py`), or as a `module` (`python -m package.train`).
    Its `args` are its arguments; `environment` are variables that its processes start with;
    `folder` is its working directory, None for the recipe's folder; with `isolate` (None means yes)
    each measured run writes to a private folder; `fit` is the number of the judged call of `fit`,
    from 1, None for all of them together; `max_epochs` and `max_steps` cut each call short, for a
    quick look. A `loop` of "own" says that the script trains in a loop of its own, without `fit`:
    its measured runs end after `max_steps` updates of an optimizer, None for the script's end.
    """

    use: str | None = attrs.field(default=None, validator=Checked(checks.word))
    factory: str | None = attrs.field(default=None, validator=Checked(checks.word))
    script: str | None = attrs.field(default=None, validator=Checked(checks.word))
    module: str | None = attrs.field(default=None, validator=Checked(checks.word))
    args: tuple[str, ...] = attrs.field(default=(), validator=Checked(checks.texts))
    environment: Mapping[str, str] = attrs.field(
        factory=dict, validator=Checked(checks.variables), hash=False
    )
    folder: str | None = attrs.field(default=None, validator=Checked(checks.word))
    isolate: bool | None = attrs.field(default=None, validator=Checked(checks.flag))
    loop: Literal["own"] | None = attrs.field(default=None, validator=Checked(checks.choice("own")))
    fit: int | None = attrs.field(default=None, validator=Checked(checks.whole(1)))
    max_epochs: int | None = attrs.field(default=None, validator=Checked(checks.whole(1)))
    max_steps: int | None = attrs.field(default=None, validator=Checked(checks.whole(1)))
    epochs: int | None = attrs.field(default=None, validator=Checked(checks.whole(1)))
    batch_size: int | None = attrs.field(default=None, validator=Checked(checks.whole(1)))
    options: Mapping[str, Any] = attrs.field(
        factory=dict, validator=Checked(checks.free_table), hash=False
    )

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
        """Yield a fault unless there is one workload, and for keys that do not apply to it."""
        yield from exactly_one(given, WORKLOAD_CHOICES, "workload")
        if given & {"script", "module"}:
            for key in ("epochs", "batch_size"):
                if key in given:
                    mend = "remove it"
                    if key == "epochs":
                        mend += '; "max_epochs" cuts a script short'
                    yield Fault("a script sets this itself", mend, at=(key,))
            if "options" in given:
                mend = 'give a script its arguments as args = ["--lr", "0.1"]'
                yield Fault("options are arguments of a factory", mend, at=("options",))
            for key in FIT_KEYS if "loop" in given else ():
                if key in given:
                    mend = 'remove it; "max_steps" ends a run after so many updates'
                    yield Fault("a loop of the script's own has no call of fit", mend, at=(key,))
            return
        for key in SCRIPT_KEYS:
            if key in given:
                mend = "remove it"
                if key == "args":
                    mend = "give a factory its arguments under [workload.options]"
                yield Fault("this is about a script, and there is none", mend, (key,))


@attrs.frozen
class QualitySpec(Table):
    """Which metric must not get worse, and by how much it may.

    A `tolerance` of None is 0.005 for a metric that is better high, and 1% of the baseline's mean
    for one that is better low.
    """

    metric: str = attrs.field(validator=Checked(checks.word))
    tolerance: float | None = attrs.field(
        default=None, validator=Checked(checks.at_least_zero), converter=_as_float_or_none
    )
    direction: Literal["max", "min"] | None = attrs.field(
        default=None, validator=Checked(checks.choice("max", "min"))
    )

    @classmethod
    def rules(cls, given: Set[str]) -> Iterable[Fault]:
        """Yield a fault if the metric is missing."""
        return _metric_is_given(given)


@attrs.frozen
class TargetSpec(Table):
    """The value of a metric that a training must reach; exactly one bound is given."""

    metric: str = attrs.field(validator=Checked(checks.word))
    at_least: float | None = attrs.field(
        default=None, validator=Checked(checks.number), converter=_as_float_or_none
    )
    at_most: float | None = attrs.field(
        default=None, validator=Checked(checks.number), converter=_as_float_or_none
    )

    @classmethod
    def rules(cls, given: Set[str]) -> Iterable[Fault]:
        """Yield a fault unless there are a metric and one bound."""
        yield from _metric_is_given(given)
        yield from exactly_one(given, TARGET_BOUNDS, "bound")


@attrs.frozen
class BaselineSpec(Table):
    """In which options of the workload the baseline differs from the stack.

    `batch_size` and `options` stand in place of those of the workload; `defaults` names options
    that the baseline leaves to the workload, "batch_size" among them.
    """

    batch_size: int | None = attrs.field(default=None, validator=Checked(checks.whole(1)))
    options: Mapping[str, Any] = attrs.field(
        factory=dict, validator=Checked(checks.free_table), hash=False
    )
    defaults: tuple[str, ...] = attrs.field(default=(), validator=Checked(checks.texts))


@attrs.frozen
class MeasureSpec(Table):
    """How the stack is measured. `budget_seconds` is the TOML key `budget`.

    `pairs` are fixed beforehand, and so are the `seconds` that each run trains behind its start;
    "whole" trains to the end. A budget holds fewer or more of both.
    """

    pairs: int = attrs.field(default=PAIRS, validator=Checked(checks.pairs))
    seconds: float | Literal["whole"] = attrs.field(
        default=WARM_SECONDS, validator=Checked(checks.seconds_or_whole), converter=_as_float
    )
    budget_seconds: float | None = attrs.field(
        default=None, validator=Checked(checks.duration, key="budget"),
        converter=_as_float_or_none,
    )  # fmt: skip
    attribution: Literal["auto", "off", "leave-one-out"] = attrs.field(
        default="auto", validator=Checked(checks.choice("auto", "off", "leave-one-out"))
    )
    quality: QualitySpec | None = attrs.field(default=None, validator=Nested(QualitySpec))
    target: TargetSpec | None = attrs.field(default=None, validator=Nested(TargetSpec))
    objective: Objective = attrs.field(
        default="time", validator=Checked(checks.choice(*get_args(Objective)))
    )
    baseline: BaselineSpec | None = attrs.field(default=None, validator=Nested(BaselineSpec))


# What `tfopt tune` may search for; the last one only together with settings.
TuneObjective = Literal["time", "memory", "time-to-target", "quality"]
# How settings and options are drawn, and when a training that learns badly is ended.
SAMPLERS = ("tpe", "random", "qmc")
PRUNERS = ("median", "successive-halving", "hyperband", "none")
DEFAULT_SAMPLER, DEFAULT_PRUNER, DEFAULT_TRIALS = "tpe", "median", 20


@attrs.frozen
class TuneSpec(Table):
    """How `tfopt tune` searches. `budget_seconds` is the TOML key `budget`.

    An `objective` of None is that of the measurement. `sampler`, `pruner`, `trials` and `options`
    are of the search of settings; one of them asks for it, and None means the default.
    """

    objective: str | None = attrs.field(
        default=None, validator=Checked(checks.choice(*get_args(TuneObjective)))
    )
    budget_seconds: float = attrs.field(
        default=900.0, validator=Checked(checks.duration, key="budget"), converter=_as_float
    )
    sampler: str | None = attrs.field(default=None, validator=Checked(checks.choice(*SAMPLERS)))
    pruner: str | None = attrs.field(default=None, validator=Checked(checks.choice(*PRUNERS)))
    trials: int | None = attrs.field(default=None, validator=Checked(checks.whole(1)))
    options: Mapping[str, Any] = attrs.field(
        factory=dict, validator=Checked(search_ranges), hash=False
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

    name: str = attrs.field(validator=Checked(checks.word))
    workload: WorkloadSpec = attrs.field(validator=Nested(WorkloadSpec))
    description: str = attrs.field(default="", validator=Checked(checks.text))
    plugins: tuple[PluginEntry, ...] = ()
    measure: MeasureSpec = attrs.field(factory=MeasureSpec, validator=Nested(MeasureSpec))
    tune: TuneSpec | None = attrs.field(default=None, validator=Nested(TuneSpec))
    path: Path | None = None

    @classmethod
    def rules(cls, given: Set[str]) -> Iterable[Fault]:
        """Yield a fault if the workload is missing."""
        if "workload" not in given:
            yield Fault("no workload", "add [workload] with use, factory, script or module")

    @property
    def directory(self) -> Path:
        """The folder that the recipe's relative paths start from."""
        return Path.cwd() if self.path is None else folder_of(self.path.absolute())

    def searches_settings(self, objective: str) -> bool:
        """Return whether `tfopt tune` searches settings and options behind the stack."""
        asked = self.tune is not None and self.tune.searches_settings
        return asked or objective == "quality"

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
