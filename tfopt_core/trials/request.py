"""The request of a measurement, training or diagnosis, and what its dry build makes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.hooks.diagnosis import Finding
from tfopt_core.hooks.machine import Gpu, Machine
from tfopt_core.hooks.plugin_class import Equivalence
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.recipe.model import Recipe
from tfopt_core.recipe.reading import Reading
from tfopt_core.statistics.figures import stack_equivalence
from tfopt_core.training.messages import Answer

# The folder of the project's results that holds what observers wrote, and the variant of their run.
OBSERVED = "observed"
# The recorded variables: an allow-list, since an environment holds secrets.
RECORDED = (
    "CUDA_VISIBLE_DEVICES", "KERAS_BACKEND", "OMP_NUM_THREADS", "TF_ENABLE_ONEDNN_OPTS",
    "TF_FORCE_GPU_ALLOW_GROWTH", "TF_GPU_ALLOCATOR", "TF_NUM_INTEROP_THREADS",
    "TF_NUM_INTRAOP_THREADS", "TF_XLA_FLAGS", "XLA_FLAGS",
)  # fmt: skip


@attrs.frozen(kw_only=True)
class Request:
    """What to measure, and where.

    :param added: the stack of the second contrast, with its settings: the plugins and what is not
        exact; () for none.
    :param observers: the plugins that join one extra, untimed run, and no variant.
    :param folder: the folder of the runs' private folders.
    :param environment: the environment that the runs' processes start from.
    :param reading: the recipe as it was read, for the places of problems.
    :param save_to: where to save the best optimized model, None to save none.
    :param seed: the seed of order and runs, stored with the results; None draws one.
    :param forks: whether the runs of a script may be forks, which its dry build tells.
    """

    recipe: Recipe
    plugins: tuple[StackedPlugin, ...]
    machine: Machine
    folder: Path
    environment: Mapping[str, str]
    reading: Reading = attrs.field(factory=lambda: Reading(()), repr=False)
    save_to: Path | None = None
    seed: int | None = None
    debug: bool = False
    observers: tuple[StackedPlugin, ...] = ()
    added: tuple[StackedPlugin, ...] = ()
    forks: bool = False

    @property
    def kept(self) -> Path:
        """The folder for what observers write, which outlives the runs' private folders."""
        return self.folder.parent.parent / OBSERVED / self.folder.name

    @property
    def recorded_environment(self) -> dict[str, str]:
        """The variables that may be stored with results."""
        return {name: self.environment[name] for name in RECORDED if name in self.environment}

    def observed(self) -> Request:
        """Return the request with the observers as the last plugins of its stack."""
        return attrs.evolve(self, plugins=(*self.plugins, *self.observers), observers=())


@attrs.frozen
class Variant:
    """A stack to train with, under the name that results carry."""

    name: str
    plugins: tuple[StackedPlugin, ...]


@attrs.frozen
class ScheduledRun:
    """One run of the schedule: its round, its place in it, and its seed."""

    round: int
    position: int
    variant: Variant
    seed: int


@attrs.frozen
class HookChange:
    """The changes that one hook of one plugin would make, in words; empty for none."""

    hook: str
    split: str | None
    differences: tuple[str, ...]


@attrs.frozen(kw_only=True)
class PluginPlan:
    """One plugin of the stack: its resolved settings, its equivalence, and its changes.

    `search_notes` says how its settings were found: what was tried, which loops could not be timed.
    """

    name: str
    settings: dict[str, Any]
    asked: dict[str, Any]
    equivalence: Equivalence
    summary: str
    changes: tuple[HookChange, ...]
    search_notes: tuple[str, ...] = ()

    @property
    def differences(self) -> tuple[str, ...]:
        """Everything that it would change, in the order of the hooks; each phrase once."""
        words = [word for change in self.changes for word in change.differences]
        return tuple(dict.fromkeys(words))


@attrs.frozen(kw_only=True)
class Prepared(Answer):
    """The stack on this workload and machine, before any training.

    `quality_direction` is None if neither recipe, workload nor the metric's name gives it. `gpus`
    are those that TensorFlow uses. `training_seconds` is an estimate for a training without the
    stack, None if it was not requested or is not possible; `stack_estimate` is one with the stack,
    and `baseline_estimate` one without it of the same moment, where a first look tries plugins.
    `not_applied` are the plugins without effect, with the reason: of a script after its first
    steps, of other workloads those that certainly have none, before any step.
    `batch_size` is the global batch with the stack, `baseline_batch_size` that without. `to_target`
    says that runs are compared by their time to a target. `several_processes` says that the stack
    distributes a training over processes. `seconds` is the duration of the dry build. Of a script's
    `own_loop` the metric of quality is "", and `steps_per_epoch` is the updates after which a run
    ends, None for the script's end. `seconds_to_fit` is what a script takes from its begin to its
    fit. `forks` says that the runs of a script may be forks of a
    process that has imported TensorFlow, since it sets nothing before that. `findings` are what a
    first look found to change by hand. `peak_rss_bytes` is the largest memory of the dry build's
    process, None if unknown.
    """

    plugins: tuple[PluginPlan, ...]
    data_before: dict[str, tuple[str, ...]]
    data_after: dict[str, tuple[str, ...]]
    metrics: tuple[str, ...] = ()
    quality_metric: str = ""
    quality_direction: str | None = None
    epochs: int
    steps_per_epoch: int | None
    batch_size: int | None
    validation_examples: int | None = None
    trainable_parameters: int
    jit_compile: bool = False
    policy: str
    baseline: str
    versions: dict[str, str]
    gpus: tuple[Gpu, ...] = ()
    warnings: tuple[str, ...] = ()
    training_seconds: float | None = None
    stack_estimate: Estimate | None = None
    baseline_estimate: Estimate | None = None
    several_processes: bool = False
    not_applied: dict[str, str] = attrs.field(factory=dict)
    baseline_batch_size: int | None = None
    to_target: bool = False
    own_loop: bool = False
    seconds: float = 0.0
    seconds_to_fit: float = 0.0
    forks: bool = False
    findings: tuple[Finding, ...] = ()
    peak_rss_bytes: int | None = None

    @property
    def is_whole(self) -> bool:
        """Whether no training is cut short: not a loop of the script's own, nor where the time to a
        target counts, nor where processes of one training would stop at different steps."""
        to_target = self.to_target or self.equivalence == "changes"
        return self.own_loop or self.several_processes or to_target

    @property
    def equivalence(self) -> Equivalence:
        """What the stack as a whole does to the training."""
        return stack_equivalence([plugin.equivalence for plugin in self.plugins])

    @property
    def search_notes(self) -> tuple[str, ...]:
        """How the settings of the stack were found, as far as there is something to say."""
        return tuple(text for plugin in self.plugins for text in plugin.search_notes)

    @property
    def resolved(self) -> dict[str, dict[str, Any]]:
        """Every plugin's resolved settings, by name."""
        return {plugin.name: plugin.settings for plugin in self.plugins}


@attrs.frozen
class Estimate:
    """The estimated time of a steady step, and of a whole training with its start.

    :param steps: the steps of all epochs; the time of a validation is counted in steps too.
    """

    step_seconds: float
    seconds: float
    steps: float

    def at_pace(self, then: Estimate, now: Estimate) -> Estimate:
        """Return this estimate as of another moment: a machine's speed drifts.

        :param then: one of the baseline, of that moment.
        :param now: one of the baseline, of the moment of this estimate.
        """
        factor = then.step_seconds / now.step_seconds
        return Estimate(self.step_seconds * factor, self.seconds * factor, self.steps)

    @property
    def set_up_seconds(self) -> float:
        """The seconds of building and tracing, before the first steady step."""
        return max(0.0, self.seconds - self.steps * self.step_seconds)


def with_prepared(request: Request, prepared: Prepared) -> Request:
    """Return the request with the resolved plugins, on the machine as TensorFlow sees it."""
    resolved = with_settings(request.plugins, [plan.settings for plan in prepared.plugins])
    machine = attrs.evolve(request.machine, gpus=prepared.gpus)
    return attrs.evolve(request, plugins=resolved, machine=machine, forks=prepared.forks)


def with_settings(
    plugins: Sequence[StackedPlugin], settings: Sequence[Mapping[str, Any]]
) -> tuple[StackedPlugin, ...]:
    """Return the plugins with these settings, which a process has sent."""
    fields = [
        {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
        for values in settings
    ]
    return tuple(
        StackedPlugin(stacked.name, type(stacked.plugin)(**values))
        for stacked, values in zip(plugins, fields, strict=True)
    )
