"""The figures of a script's own training loop: of a run, and of a look at its first steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import attrs

from tfopt_core.data import DataPlan
from tfopt_core.errors import PluginRefused
from tfopt_core.hooks.own_loop import reaching
from tfopt_core.hooks.stack import Stack, StackedPlugin
from tfopt_core.scripts.own.data import EPOCHS, OwnData
from tfopt_core.scripts.own.loop import NO_DATA_SET, OwnLoop
from tfopt_core.training.messages import OWN_LOOP, FitOutcome, RunReport, StepDone, Tell
from tfopt_core.training.workload import Workload
from tfopt_core.trials.dry_build import plan_of, resolve_all, versions
from tfopt_core.trials.probing import ProcessProbe
from tfopt_core.trials.request import Estimate, Prepared
from tfopt_core.workers.task import PrepareTask
from tfopt_core.workers.telemetry import cpu_seconds, peak_device_bytes, peak_rss_bytes

# A first look ends after so many seconds, or so many beside tracing, once it saw some updates, and
# a trial where a run of as many updates ends; both end after the longest look if they saw the least
# updates. A run takes as long as the look, and eight of them are due with the first verdict.
LOOK_SECONDS, WARM_SECONDS = 10.0, 5.0
LOOK_UPDATES, LONGEST_LOOK, LEAST_UPDATES = 10, 30.0, 2
# Progress is told this often.
TELL_NS = 500_000_000
NOT_TIMED = "its setting is found by timing steps, which a loop of the script's own does not allow"


def baseline_in_words(limit: int | None) -> str:
    """Return what a run without a stack trains, and how long."""
    end = "to its end" if limit is None else f"to its update {limit:,}"
    return f"the script as it is, in its own loop, from the first step {end}"


@attrs.define(eq=False, kw_only=True)
class LoopOfScript(OwnLoop):
    """A script's own loop under a stack, watched from the import of Keras on.

    :param plugins: those of the stack that reach the loop.
    :param guard: carries out what plugins do, see `OwnData`.
    :param resolves: whether settings of "auto" are still to be resolved, at the first data set.
    :param search_notes: how settings of "auto" were found, by plugin.
    """

    guard: Callable[[Callable[[], Any]], Any]
    resolves: bool = False
    plugins: tuple[StackedPlugin, ...] = ()
    search_notes: dict[str, tuple[str, ...]] = attrs.field(factory=dict)
    _told: int = 0

    def __attrs_post_init__(self) -> None:
        self.data = OwnData(self.session, self.clock, self.resolved, self.guard)

    def begin(self) -> None:
        """Watch the loop of a session that has begun."""
        self.plugins = reaching(self.job.plugins)
        self.install()

    def resolved(self, plans: Mapping[str, DataPlan]) -> tuple[StackedPlugin, ...]:
        """Return the plugins that reach the loop, their settings resolved if that is asked for.

        :param plans: the data plans that are known, by split.
        """
        if self.resolves:
            self.resolves = False
            job = attrs.evolve(self.job, plugins=self.plugins)
            data = Workload(
                train=plans.get("train"), validation=plans.get("validation"),
                build_model=_no_model, epochs=EPOCHS,
            )  # fmt: skip
            self.plugins, self.search_notes = resolve_all(job, data, OwnLoopProbe)
        return self.plugins

    def tell_progress(self, tell: Tell) -> None:
        """Send how many updates were made, every half second."""
        now = self.clock.now()
        if now - self._told >= TELL_NS:
            self._told = now
            tell(StepDone(0, self.clock.updates))

    def is_known(self, *, whole: bool) -> bool:
        """Return whether enough was seen of the loop.

        :param whole: whether to watch as many updates as a run makes.
        """
        clock = self.clock
        if clock.is_over:
            return True
        if clock.seconds >= LONGEST_LOOK:
            return clock.updates >= LEAST_UPDATES
        if whole or clock.updates < LOOK_UPDATES:
            return False
        warm = sum(block.seconds for block in clock.warm)
        return warm >= WARM_SECONDS or clock.seconds >= LOOK_SECONDS

    @property
    def step_seconds(self) -> float:
        """The mean time of an update over the blocks that trace nothing, stalls included; over all
        blocks if each traces something."""
        blocks = self.clock.warm or self.clock.blocks
        return sum(block.seconds for block in blocks) / sum(block.steps for block in blocks)

    @property
    def seconds(self) -> float:
        """The time from the first step until the script's end, or the last update that was seen."""
        clock, ended = self.clock, self.ended
        if ended is None or clock.started is None or clock.is_over:
            return clock.seconds
        return (ended - clock.started) / 1e9

    def estimate(self, steps: int | None) -> Estimate:
        """Return what so many updates take, from the first step on.

        :param steps: None for those that were made.
        """
        made, step = self.clock.updates, self.step_seconds
        steps = steps or made
        seconds = self.seconds + max(0, steps - made) * step
        return Estimate(step_seconds=step, seconds=seconds, steps=steps)

    def run_report(self) -> RunReport:
        """Return what is observed of a run, which has ended or made its last update."""
        clock, seconds = self.clock, self.seconds
        peak_rss, peak_device, used = peak_rss_bytes(), peak_device_bytes(), cpu_seconds()
        outcome = FitOutcome(
            name=OWN_LOOP,
            blocks=tuple(clock.blocks),
            trainable_parameters=self.trainable_parameters,
            epochs=1, planned_epochs=1, steps=clock.updates, steps_per_epoch=clock.updates,
            history={}, wall_seconds=seconds, epoch_end_seconds=(seconds,),
            diverged=self.why_diverged(),
        )  # fmt: skip
        return RunReport(
            wall_seconds=seconds, peak_rss_bytes=peak_rss, peak_device_bytes=peak_device,
            cpu_seconds=used, effects=self.effects(), fits=(outcome,),
        )  # fmt: skip


def prepare_loop(task: PrepareTask, tell: Tell, own: LoopOfScript) -> Prepared:
    """Return the result of a dry build of a script's own loop, from its first steps."""
    limit = own.job.recipe.workload.max_steps
    plugins = own.resolved({})
    sets = {one.split: one for one in reversed(own.data.sets)}
    train = sets.get("train")
    stack = train.stack if train else Stack(plugins, own.session.changes)
    by_name = {one.name: one for one in plugins}
    effects = own.effects()
    return Prepared(
        plugins=tuple(
            plan_of(stack, one, by_name.get(one.name, one), own.search_notes.get(one.name, ()))
            for one in own.job.plugins
        ),
        data_before={split: one.before.describe() for split, one in sets.items()},
        data_after={split: one.after.describe() for split, one in sets.items()},
        epochs=1, steps_per_epoch=limit,
        batch_size=train.after.batch_size if train else None,
        baseline_batch_size=train.before.batch_size if train else None,
        trainable_parameters=own.trainable_parameters,
        policy=own.session.precision.policy, baseline=baseline_in_words(limit), versions=versions(),
        gpus=own.job.machine.gpus,
        stack_estimate=own.estimate(limit) if task.quick else None,
        not_applied={name: e.detail for name, e in effects.items() if not e.applied},
        own_loop=True,
    )  # fmt: skip


@attrs.define(eq=False)
class OwnLoopProbe(ProcessProbe):
    """The `Probe` with which settings of "auto" are resolved in a loop of the script's own: of its
    data and the machine only."""

    def plan(self, split: str = "train") -> DataPlan:
        """Return the plan of the loop's data. :raises PluginRefused: if there are none."""
        plan: DataPlan | None = getattr(self.workload, split)
        if plan is None and split == "train":
            raise PluginRefused(NO_DATA_SET)
        if plan is None:
            raise ValueError(f"the loop has no {split} data so far")
        return plan

    def element_bytes(self, split: str = "train") -> tuple[float, int | None]:
        """Return the mean bytes of an example, and their number."""
        self.plan(split)
        return super().element_bytes(split)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse. :raises PluginRefused: always."""
        raise PluginRefused(NOT_TIMED)

    step_seconds = peak_memory_bytes = model = training = _refuse


def _no_model() -> NoReturn:
    raise PluginRefused(NOT_TIMED)
