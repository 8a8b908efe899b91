"""Plugins that may stand together by what they declare also train together."""

import functools
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
from support import stack_workload
from support.forked_command import runs_forked
from support.measure_runs import make_request
from support.plugin_settings import TRIED, WORKLOAD_OPTIONS
from support.stack_array import candidates, covering_array, stacked
from tfopt_data.service_local import LocalService

from tfopt_core.errors import InputError, TfoptError
from tfopt_core.hooks.plugin_class import equivalence_of
from tfopt_core.recipe.model import Recipe, WorkloadSpec
from tfopt_core.statistics.figures import stack_equivalence
from tfopt_core.statistics.runs import BASELINE, FULL, RunResult
from tfopt_core.trials.processes import Processes, prepare
from tfopt_core.trials.request import ScheduledRun, Variant
from tfopt_core.workers.local_cluster import LocalCluster
from tfopt_core.workers.spawn import SpawnRunner
from tfopt_core.workers.supervise import Limits

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

# A TPU is refused where the environment names none.
ABSENT = () if "TPU_NAME" in os.environ else ("tpu",)
KNOWN = {name: one for name, one in candidates(TRIED).items() if name not in ABSENT}
STACKS = covering_array(KNOWN)
EPOCHS, BATCH_SIZE, SEED = 2, 16, 7
# A stack that hangs fails, on a busy machine too.
LIMITS = Limits(total=120.0)


@attrs.define(eq=False)
class StackTrials:
    """Trains stacks of the small workload, each in processes of its own.

    :param folder: where they write.
    """

    folder: Path
    _count: int = 0

    def trouble(self, stack: Sequence[str]) -> str | None:
        """Train a stack. Return how it fails, None if it does not.

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
                return cause
            rest = tuple(name for name in rest if name not in refused)
        return None

    def failure(self, stack: Sequence[str]) -> str | None:
        """Train a stack. Return what is wrong, None if nothing is.

        An exact one trains as the baseline does, to the last digit of each metric.
        """
        options = tuple(item for name in stack for item in WORKLOAD_OPTIONS.get(name, {}).items())
        processes = self._processes(stack, dict(options))
        plugins = processes.request.plugins
        if any("auto" in one.settings.values() for one in plugins):
            try:
                _, resolved = prepare(processes.request, processes.runner)
            except TfoptError as error:
                return str(error)
            processes = Processes(resolved, processes.runner)
        result = trained(processes, FULL)
        if result.status != "ok":
            return result.error or "no cause is known"
        [fit] = result.fits
        losses = {name: values for name, values in fit.history.items() if name.endswith("loss")}
        if not all(len(values) == fit.epochs for values in losses.values()) or not all(
            math.isfinite(value) for values in losses.values() for value in values
        ):
            return f"it trained {fit.epochs} epochs to {losses}"
        if stack_equivalence([equivalence_of(one.name, one.plugin) for one in plugins]) != "exact":
            return None
        ours, plain = dict(fit.history), self._baseline(options)
        return None if ours == plain else f"trained to {ours}, and the baseline to {plain}"

    def _is_refused(self, name: str) -> bool:
        """Return whether the plugin alone is refused: there is no TPU, for example."""
        processes = self._processes((name,), {})
        try:
            prepare(processes.request, processes.runner)
        except InputError:
            return True
        except TfoptError:
            return False
        return False

    @functools.cache  # noqa: B019
    def _baseline(self, options: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
        """Return the history of the training without plugins, which is made once."""
        return dict(trained(self._processes((), dict(options)), BASELINE).fit.history)

    def _processes(self, stack: Sequence[str], options: dict[str, Any]) -> Processes:
        self._count += 1
        recipe = Recipe(
            name="stack",
            workload=WorkloadSpec(
                factory=f"{stack_workload.__file__}:build",
                epochs=EPOCHS,
                batch_size=BATCH_SIZE,
                options=options,
            ),
            path=self.folder / "recipe.toml",
        )
        request = make_request(
            recipe=recipe, plugins=tuple(stacked(name, TRIED.get(name, {})) for name in stack),
            folder=self.folder / "runs" / f"stack-{self._count}", environment=dict(os.environ),
        )  # fmt: skip
        spawn = SpawnRunner(limits=LIMITS)
        return Processes(request, LocalCluster(spawn=spawn))


def trained(processes: Processes, variant: str) -> RunResult:
    """Train once with the plugins of the processes, as `tfopt apply` trains a run."""
    scheduled = ScheduledRun(
        round=1, position=1, variant=Variant(variant, processes.request.plugins), seed=SEED
    )
    return processes.run(scheduled, "stack", lambda message: None)


# In place of a data service for each training, whose process would import TensorFlow.
SHARED_SERVICE = """
from tfopt_data.service_local import LocalService

LocalService.start = classmethod(lambda cls, *place, **options: cls({target!r}, ()))
"""


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StackTrials]:
    """Trains stacks; the baseline of the exact ones is trained once, and a data service started."""
    folder = tmp_path_factory.mktemp("stacks")
    service = LocalService.start(1, 0, folder / "service", on_death=lambda cause: None)
    shared = folder / "shared_service.py"
    shared.write_text(SHARED_SERVICE.format(target=service.target))
    with runs_forked(before=shared):
        yield StackTrials(folder)
    service.stop()


@pytest.mark.parametrize("stack", STACKS, ids="+".join)
def test_a_stack_trains_to_finite_losses_and_an_exact_one_to_those_of_the_baseline(stack, trials):
    assert (found := trials.trouble(stack)) is None, found
