"""Trains stacks by name, as `tfopt apply` trains a run, and certifies the exact ones."""

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from support import stack_workload
from support.measure_runs import make_request
from support.plugin_settings import TRIED, WORKLOAD_OPTIONS
from support.stack_array import smallest_failing, stacked
from tfopt_core.errors import InputError, TfoptError
from tfopt_core.hooks.card import equivalence_of, traits
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.recipe.model import Recipe, WorkloadSpec
from tfopt_core.statistics.certificate import certify
from tfopt_core.statistics.figures import stack_equivalence
from tfopt_core.statistics.runs import BASELINE, FULL, RunResult
from tfopt_core.training.replay.data import Replayed
from tfopt_core.trials.processes import Processes, ReplayFailed, prepare
from tfopt_core.trials.request import ScheduledRun, Variant
from tfopt_core.workers.local_cluster import LocalCluster
from tfopt_core.workers.spawn import SpawnRunner
from tfopt_core.workers.supervise import Limits

EPOCHS, BATCH_SIZE, SEED = 2, 16, 7
# A stack that hangs fails, on a busy machine too.
LIMITS = Limits(total=120.0)


@attrs.define
class StackTrials:
    """Trains stacks of the small workload, each in processes of its own.

    :param folder: where they write.
    """

    folder: Path
    _baselines: dict[str, tuple[Path, Replayed, RunResult]] = attrs.field(factory=dict)
    _count: int = 0
    effects: Any = None

    def trouble(self, stack: Sequence[str]) -> str | None:
        """Train a stack. Return the part of it that fails and how, None if nothing does.

        A plugin that is refused here by itself, for want of what it runs on, is left out.
        """
        rest = tuple(stack)
        while (cause := self.failure(rest)) is not None:
            if "killed by SIG" in cause and "profile" in rest and self.failure(rest) is None:
                # TensorFlow's profiler, where it stops in a worker: 2 of 64 times beside other work
                return None
            refused = {
                name for name in rest if f'plugin "{name}"' in cause and self._is_refused(name)
            }
            if not refused:
                part = smallest_failing(rest, lambda part: self.failure(part) is not None)
                return f"{' and '.join(part)}: {self.failure(part)}; at first: {cause}"
            rest = tuple(name for name in rest if name not in refused)
        return None

    def failure(self, stack: Sequence[str]) -> str | None:
        """Train and, if it is exact, certify a stack. Return what is wrong, None if nothing is."""
        processes = self._processes(
            tuple(stacked(name, TRIED.get(name, {})) for name in stack),
            {key: value for name in stack for key, value in WORKLOAD_OPTIONS.get(name, {}).items()},
        )
        plugins = processes.request.plugins
        if any("auto" in one.settings.values() for one in plugins):
            try:
                _, resolved = prepare(processes.request, processes.runner)
            except TfoptError as error:
                return str(error)
            processes = Processes(resolved, processes.runner)
        result = self._trained(processes, 1)
        if result.status != "ok":
            return result.error or "no cause is known"
        [fit] = result.fits
        losses = {name: values for name, values in fit.history.items() if name.endswith("loss")}
        self.effects = result.effects
        if not all(len(values) == fit.epochs for values in losses.values()) or not all(
            math.isfinite(value) for values in losses.values() for value in values
        ):
            return f"it trained {fit.epochs} epochs to {losses}"
        if stack_equivalence([equivalence_of(one.name, one.plugin) for one in plugins]) == "exact":
            return self._not_exact(processes, result)
        return None

    def _is_refused(self, name: str) -> bool:
        """Return whether the plugin alone is refused: there is no TPU, for example."""
        processes = self._processes((stacked(name, TRIED.get(name, {})),), {})
        try:
            prepare(processes.request, processes.runner)
        except InputError:
            return True
        except TfoptError:
            return False
        return False

    def _not_exact(self, processes: Processes, result: RunResult) -> str | None:
        """Return how an exact stack differs from the baseline, None if it does not at all.

        Observers train with it but are not replayed, as they are in no variant of a measurement.
        """
        shared, replayed, trained = self._baseline(processes.request.recipe.workload.options)
        kept = tuple(one for one in processes.request.plugins if not _observes(one))
        full = Variant(FULL, kept)
        try:
            theirs = processes.replay(full, SEED, shared, against=BASELINE)
        except ReplayFailed as error:
            return str(error)
        certificate = certify("exact", replayed, theirs)
        if not certificate.certified or "are identical" not in certificate.statement:
            return certificate.statement
        ours, plain = (dict(one.fits[0].history) for one in (result, trained))
        return None if ours == plain else f"trained to {ours}, and the baseline to {plain}"

    def _baseline(self, options: Mapping[str, Any]) -> tuple[Path, Replayed, RunResult]:
        """Return the folder of the replay without plugins, the replay and a training."""
        key = str(sorted(options.items()))
        if key not in self._baselines:
            processes = self._processes((), options)
            shared = self.folder / f"shared-{self._count}"
            replayed = processes.replay(Variant(BASELINE, ()), SEED, shared)
            self._baselines[key] = (shared, replayed, self._trained(processes, 0))
        return self._baselines[key]

    def _trained(self, processes: Processes, place: int) -> RunResult:
        full = Variant(FULL, processes.request.plugins)
        variant = (Variant(BASELINE, ()), full)[place]
        scheduled = ScheduledRun(round=1, position=1, variant=variant, seed=SEED)
        return processes.run(scheduled, "stack", lambda message: None)

    def _processes(self, plugins: Any, options: Mapping[str, Any]) -> Processes:
        self._count += 1
        recipe = Recipe(
            name="stack",
            workload=WorkloadSpec(
                factory=f"{stack_workload.__file__}:build",
                epochs=EPOCHS,
                batch_size=BATCH_SIZE,
                options=dict(options),
            ),
            path=self.folder / "recipe.toml",
        )
        folder = self.folder / "runs" / f"stack-{self._count}"
        request = make_request(
            recipe=recipe, plugins=plugins, folder=folder, environment=dict(os.environ)
        )
        spawn = SpawnRunner(limits=LIMITS)
        return Processes(request, LocalCluster(spawn=spawn))


def _observes(one: StackedPlugin) -> bool:
    return traits(one.name, type(one.plugin)).role == "observer"
