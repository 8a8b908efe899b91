"""A whole measurement with a runner that only pretends: rounds, looks, failures, Ctrl-C."""

from __future__ import annotations

import random

import attrs
import pytest
from support.measure_runs import make_outcome

from tfopt_core.errors import (
    DamagedMeasurement,
    EditedMeanwhile,
    InputError,
    PreparationFailed,
    StoreError,
)
from tfopt_core.hooks import Effect
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.measurement.edits import CodeAtStart
from tfopt_core.measurement.fingerprint import fingerprint
from tfopt_core.measurement.pace import SHORTEST_SECONDS, World
from tfopt_core.measurement.progress import Noted, Ready, RunEnded, RunStarted
from tfopt_core.measurement.resume import resume
from tfopt_core.measurement.session import measure
from tfopt_core.measurement.waiting import Waiting
from tfopt_core.plugins import Plugin, hookimpl
from tfopt_core.recipe import MeasureSpec, QualitySpec, Recipe, TargetSpec, WorkloadSpec
from tfopt_core.records.counters import Counters
from tfopt_core.records.dry_build import PluginPlan, Prepared
from tfopt_core.records.fit import Block
from tfopt_core.records.messages import EpochDone, Failure, StepDone
from tfopt_core.records.run import RunReport
from tfopt_core.statistics.pairs import pairs_of
from tfopt_core.store.database import Store
from tfopt_core.store.lock import held
from tfopt_core.testing import make_machine
from tfopt_core.trials.request import Request
from tfopt_core.workers.spawn import ProcessOutcome
from tfopt_core.workers.task import PrepareTask, ReplayTask, RunTask


@attrs.frozen(kw_only=True, eq=False)
class Three(Plugin):
    equivalence = "exact"

    threads: int | str = "auto"

    @hookimpl
    def configure_runtime(self, options):
        return attrs.evolve(options, intra_op_threads=3)


class FakeRunner:
    """Answers at once, and its clock says how long that would have taken. `walls` gives the
    seconds of a variant, or an error, by its name; `training_seconds` is what a dry build
    estimates."""

    def __init__(
        self, walls=None, prepare_error=None, noise=0.003, equivalence="exact",
        training_seconds=None, several_processes=False,
    ):  # fmt: skip
        self.several_processes, self.training_seconds = several_processes, training_seconds
        self.now, self.number = 100.0, -1
        self.steps_per_epoch = 10
        self.walls = {"baseline": 10.0, "full": 8.0, **(walls or {})}
        self.prepare_error = prepare_error
        self.noise = random.Random(3), noise
        self.equivalence = equivalence
        self.tasks, self.environments = [], []
        self.estimate_error = None

    def __call__(self, task, environment, tell):
        self.tasks.append(task)
        self.environments.append(environment)
        self.now += 1.0
        if isinstance(task, PrepareTask):
            return self._prepared(task)
        if isinstance(task, ReplayTask):
            return outcome(None, cause="there is nothing to replay here")
        self.number += 1
        wall = self.walls[task.job.variant]
        wall = wall(task) if callable(wall) else wall
        if isinstance(wall, str):
            return outcome(None, cause=wall)
        if isinstance(wall, Failure):
            return outcome(wall)
        self.now += wall
        tell(StepDone(0, 5))
        tell(EpochDone(0, {"val_accuracy": 0.5}))
        source, noise = self.noise
        return outcome(RunReport(
            wall_seconds=wall * (1 + source.gauss(0, noise)), cpu_seconds=0.0, peak_rss_bytes=1,
            effects={p.name: Effect(True, "set") for p in task.job.plugins},
            fits=(self._fit(task, wall),),
        ), seconds=wall + 1.0)  # fmt: skip

    def _fit(self, task, wall):
        if task.longest_seconds is None:
            return make_outcome()
        # a tenth of a training of one epoch
        source, noise = self.noise
        seconds = wall * (1 + source.gauss(0, noise))
        return make_outcome(
            blocks=(Block(10, seconds),), cut_short=True, planned_epochs=1, steps_per_epoch=100,
            epochs=0, steps=10, history={},
        )  # fmt: skip

    def _prepared(self, task):
        if task.estimate and self.estimate_error:
            return outcome(self.estimate_error)
        if self.prepare_error:
            plain = {"error": "E", "message": "no", "exit_code": 3}
            return outcome(Failure(**{**plain, **self.prepare_error}))
        plans = tuple(
            PluginPlan(name=p.name, settings={"threads": 4}, asked={"threads": "auto"},
                       equivalence=self.equivalence, summary="", changes=())
            for p in task.job.plugins
        )  # fmt: skip
        quality = task.job.recipe.measure.quality
        prepared = Prepared(
            plugins=plans, data_before={}, data_after={}, metrics=("loss", "val_accuracy"),
            quality_metric=quality.metric if quality else "val_accuracy",
            quality_direction="max", epochs=2, steps_per_epoch=self.steps_per_epoch,
            batch_size=32, validation_examples=100, trainable_parameters=1, jit_compile=False,
            policy="float32", baseline="", versions={"tensorflow": "2.21"},
            training_seconds=self.training_seconds,
            several_processes=self.several_processes,
            baseline_batch_size=512,
            to_target=task.job.recipe.measure.objective == "time-to-target",
        )  # fmt: skip
        return outcome(prepared)


def outcome(message, cause=None, seconds=1.0):
    return ProcessOutcome(
        message=message, cause=cause, seconds=seconds, output_path=None, output_tail="the tail"
    )


def world_of(runner):
    """The clock of a runner, and a machine that tells nothing else."""
    return World(now=lambda: runner.now, counters=lambda: Counters(seconds=runner.now))


def prepared_before(request, training_seconds, waits):
    """What a first contact knows before it measures: both dry builds.

    :param waits: whether that with the additions is made once a first verdict is there.
    """
    plan = PluginPlan(
        name="p", settings={"threads": 4}, asked={}, equivalence="exact", summary="", changes=()
    )
    prepared = Prepared(
        plugins=(plan,), data_before={}, data_after={}, metrics=("loss", "val_accuracy"),
        quality_metric="val_accuracy", quality_direction="max", epochs=2, steps_per_epoch=10,
        batch_size=32, validation_examples=100, trainable_parameters=1, jit_compile=False,
        policy="float32", baseline="", versions={"tensorflow": "2.21"},
        training_seconds=training_seconds,
    )  # fmt: skip
    low = attrs.evolve(plan, name="low", equivalence="rounding")
    extended = attrs.evolve(prepared, plugins=(plan, low))
    if not waits:
        return {"prepared_before": (prepared, request), "extended": extended}

    def find(tell):
        tell("trying low")
        return extended, attrs.evolve(request, plugins=request.added)

    return {
        "prepared_before": (prepared, attrs.evolve(request, added=())),
        "waiting": Waiting(("low",), find),
    }


@pytest.fixture
def world(tmp_path):
    store = Store(tmp_path / "runs.sqlite")

    def go(
        runner, plugins=("p",), save_to=None, resuming=False, observers=(),
        added=(), whole_pair=False, first_verdict=None, budget_share=1.0,
        waiting=None, **spec,
    ):  # fmt: skip
        recipe = Recipe(
            name="r",
            workload=WorkloadSpec(use="w"),
            measure=MeasureSpec(**{"attribution": "off", **spec}),
        )
        request = Request(
            recipe=recipe,
            plugins=tuple(StackedPlugin(name, Three()) for name in plugins),
            observers=tuple(StackedPlugin(name, Three()) for name in observers),
            added=tuple(StackedPlugin(name, Three(threads=4)) for name in added),
            machine=make_machine(),
            folder=tmp_path / "runs" / f"m{len(store.measurements())}",
            environment={"PATH": "/bin", "SECRET_TOKEN": "x", "OMP_NUM_THREADS": "2"},
            seed=1,
            save_to=save_to,
            budget_share=budget_share,
        )
        events = []
        first_contact = added and not resuming
        before = (
            prepared_before(request, runner.training_seconds, first_verdict is not None)
            if first_contact
            else {}
        )
        if "waiting" in before:
            request = attrs.evolve(request, added=())
        conduct = resume if resuming else measure
        results = conduct(
            request,
            runner=runner,
            store=store,
            observer=events.append,
            world=world_of(runner),
            whole_pair=whole_pair,
            **before,
            **({} if waiting is None else {"waiting": waiting}),
            **({} if first_verdict is None else {"first_verdict": first_verdict}),
        )
        return results, events

    go.store = store
    return go


def test_four_fixed_pairs_are_eight_runs_each_stored(world):
    runner = FakeRunner()
    results, events = world(runner, pairs=4)
    assert results.comparison.verdict == "faster"
    assert len(results.runs) == 8
    assert world.store.results(results.id) == results
    assert [type(e) for e in events].count(RunEnded) == 8
    assert next(e for e in events if isinstance(e, Ready)).total_runs == 8


@pytest.mark.promise(41, injected="foreign files where a cache, rows or features of a run would be")
def test_a_run_finds_no_file_of_others_in_its_folder(world, tmp_path):
    for name in ("00-0-full", "00-1-full", "00-0-baseline", "00-1-baseline"):
        for place in ("cache-train/fit-0-build-1.index", "rows-train/fit-0-1/leaf-0.bin"):
            file = tmp_path / "runs" / "m0" / name / place
            file.parent.mkdir(parents=True)
            file.write_bytes(b"foreign")
    found = []

    def wall(task):
        found.append(list(task.job.folder.rglob("*")))
        return 10.0 + len(found) / 100

    world(FakeRunner({"baseline": wall, "full": wall}), pairs=4)
    assert found == [[]] * 8


def test_a_training_over_several_processes_is_never_cut_short_and_never_replayed(world):
    # whole trainings do not fit: in one process, runs would end once their step time is known
    runner = FakeRunner(training_seconds=400.0, several_processes=True)
    results, _ = world(runner, length="steady")
    assert results.length == "full"
    runs = [task for task in runner.tasks if isinstance(task, RunTask)]
    assert not any(task.longest_seconds for task in runs)
    assert any('length is "steady", but the processes' in said for said in results.warnings)
    assert not [task for task in runner.tasks if isinstance(task, ReplayTask)]
    certificate = results.comparison.quality.certificate
    assert "the replay runs in one process, and shows nothing of several workers" in certificate


def test_observers_join_one_extra_run_of_the_whole_stack_behind_all_others(world):
    runner = FakeRunner({"observed": 1.0})
    results, events = world(runner, pairs=4, observers=("watch",))
    *timed, last = [task for task in runner.tasks if isinstance(task, RunTask)]
    assert {task.job.variant for task in timed} == {"baseline", "full"}
    assert "watch" not in {p.name for task in timed for p in task.job.plugins}
    assert (last.job.variant, [p.name for p in last.job.plugins]) == ("observed", ["p", "watch"])
    assert last.job.kept == last.job.folder.parent.parent.parent / "observed" / results.id
    assert results.observed == {"watch": Effect(True, "set")}
    assert len(results.runs) == 8
    assert world.store.results(results.id) == results
    assert Noted("an extra, untimed run for watch") in events


def interrupted(task):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("wall", "why"), [("it broke", "the extra run failed: it broke"),
                      (interrupted, "Ctrl-C ended the extra run")],
)  # fmt: skip
def test_an_extra_run_that_does_not_end_costs_no_result(world, wall, why):
    results, _ = world(FakeRunner({"observed": wall}), pairs=4, observers=("watch",))
    assert results.comparison.verdict == "faster"
    assert results.observed == {}
    assert any(why in warning for warning in results.warnings)


def test_all_runs_use_the_resolved_settings(world):
    runner = FakeRunner()
    world(runner, pairs=4)
    used = {
        task.job.plugins[0].plugin.threads for task in runner.tasks if task.job.variant == "full"
    } - {"auto"}
    assert used == {4}
    assert isinstance(runner.tasks[0], PrepareTask)


def test_the_environment_of_a_run_is_that_of_its_variant(world):
    runner = FakeRunner()
    world(runner, pairs=4)
    threads = {
        task.job.variant: environment.get("TF_NUM_INTRAOP_THREADS")
        for task, environment in zip(runner.tasks, runner.environments, strict=True)
    }
    assert threads == {"full": "3", "baseline": None}


def test_a_settled_verdict_ends_at_the_first_look(world):
    results, _ = world(FakeRunner())
    assert results.comparison.pairs == 4
    assert results.comparison.confidence == pytest.approx(0.9797)


def test_an_open_verdict_goes_on_to_the_next_look(world):
    results, _ = world(FakeRunner({"full": 10.0}, noise=0.2))
    assert results.comparison.pairs in (8, 12)


def test_no_look_is_begun_that_the_budget_does_not_hold(world):
    # a pair takes 22 s: four of them fit, eight do not
    results, _ = world(FakeRunner({"full": 10.0}, noise=0.2), budget_seconds=120)
    assert results.comparison.pairs == 4
    assert results.next_steps[0] == (
        "measure again with a larger --budget: this one ended before the look at 8 pairs"
    )
    assert not results.interrupted


def test_leave_one_out_runs_every_variant_each_round(world):
    runner = FakeRunner({"without p": 9.9, "without q": 8.0})
    results, _ = world(runner, plugins=("p", "q"), pairs=4, attribution="leave-one-out")
    assert len(results.runs) == 16
    by_name = {row.plugin: row for row in results.attribution}
    assert by_name["p"].left_out == pytest.approx(9.9 / 8, rel=0.02)
    assert by_name["q"].low < 1 < by_name["q"].high


def test_auto_isolates_where_it_fits_the_budget_and_not_otherwise(world):
    walls = {"without p": 9.9, "without q": 8.0}
    fits, _ = world(FakeRunner(walls), plugins=("p", "q"), pairs=4, attribution="auto")
    assert len(fits.runs) == 16
    short, _ = world(
        FakeRunner(walls), plugins=("p", "q"), pairs=4, attribution="auto", budget_seconds=1e-9
    )
    assert len(short.runs) == 8


def test_a_time_to_target_is_measured_from_the_first_run_on(world):
    target = TargetSpec(metric="val_accuracy", at_least=0.95)  # which nobody reaches
    results, events = world(FakeRunner(equivalence="changes"), pairs=4, target=target)
    assert results.comparison.kind == "time-to-target"
    assert results.comparison.verdict == "void"
    ended = [event for event in events if isinstance(event, RunEnded)]
    assert ended[0].speedup_so_far is None


def test_a_stack_that_declares_nothing_is_judged_without_a_target(world):
    results, _ = world(FakeRunner(equivalence="unknown"), pairs=4)
    assert results.comparison.kind == "end-to-end"
    assert results.comparison.quality.verdict in ("not worse", "not established", "worse")


def test_a_failed_run_is_reported_with_its_cause_and_never_counted(world):
    def once(task, seen=[]):  # noqa: B006
        seen.append(1)
        return "killed by SIGKILL" if len(seen) == 2 else 10.0

    results, _ = world(FakeRunner({"baseline": once}), pairs=6)
    [failed] = results.failed
    assert failed.error == "killed by SIGKILL"
    assert failed.wall_seconds is None
    assert failed.output_tail == "the tail"
    assert results.comparison.pairs == 5
    assert "1 of 12 runs failed" in results.comparison.statement


def test_a_stack_that_never_runs_is_given_up(world):
    results, _ = world(FakeRunner({"full": "out of luck"}), pairs=8)
    assert len(results.runs) == 4
    assert results.comparison.verdict == "none"


OUT_OF_MEMORY = Failure(
    error="ResourceExhaustedError", message="raised ResourceExhaustedError: OOM", exit_code=3,
    out_of_memory=True,
)  # fmt: skip


def test_a_baseline_that_never_fits_is_a_result_after_two_rounds(world):
    results, _ = world(FakeRunner({"baseline": OUT_OF_MEMORY}))
    assert len(results.runs) == 4
    assert all(run.out_of_memory == (run.variant == "baseline") for run in results.runs)
    assert results.comparison.verdict == "fits"
    assert results.comparison.statement == (
        "fits: the baseline ran out of memory at batch 512, the stack trained (2 runs each)"
    )
    assert results.comparison.speedup is None
    assert world.store.results(results.id) == results
    assert world.store.overview_of(results.id).verdict == "fits"


def test_a_stack_that_never_fits_is_one_too(world):
    results, _ = world(FakeRunner({"full": OUT_OF_MEMORY}), pairs=8)
    assert results.comparison.statement == (
        "does not fit: the stack ran out of memory at batch 32, the baseline trained (2 runs each)"
    )


def test_where_the_budget_ends_after_a_round_one_run_of_each_is_enough(world):
    results, _ = world(FakeRunner({"baseline": OUT_OF_MEMORY}), budget_seconds=1e-9)
    assert len(results.runs) == 2
    assert results.comparison.statement.endswith("the stack trained (1 run each)")


def test_a_killed_run_without_the_kernel_s_count_is_no_such_result(world):
    cause = "killed by SIGKILL (possibly out of memory)"
    results, _ = world(FakeRunner({"baseline": cause}))
    assert results.comparison.verdict == "none"
    assert not any(run.out_of_memory for run in results.runs)


def test_a_dry_build_that_runs_out_of_memory_is_made_without_the_estimate(world):
    runner = FakeRunner({"baseline": OUT_OF_MEMORY})
    runner.estimate_error = OUT_OF_MEMORY
    results, _ = world(runner)
    prepared = [task for task in runner.tasks if isinstance(task, PrepareTask)]
    assert [task.estimate for task in prepared] == [True, False]
    assert results.comparison.verdict == "fits"
    assert any("the time of a training is not estimated" in text for text in results.warnings)


def test_memory_as_the_objective_ends_the_measuring_and_is_stored(world):
    # the time alone would take more looks
    results, _ = world(FakeRunner({"full": 10.0}, noise=0.2), objective="memory")
    assert results.comparison.pairs == 4
    assert results.comparison.headline.startswith("no measurable difference in peak memory")
    assert world.store.results(results.id) == results


def test_a_time_to_target_as_the_objective_takes_whole_trainings(world):
    target = TargetSpec(metric="val_accuracy", at_least=0.85)
    runner = FakeRunner(training_seconds=400.0)  # whole trainings do not fit the budget
    results, _ = world(runner, objective="time-to-target", target=target)
    assert results.comparison.kind == "time-to-target"
    assert results.length == "full"


def test_ctrl_c_keeps_what_is_done(world):
    def interrupt(task, seen=[]):  # noqa: B006
        seen.append(1)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return 10.0

    results, _ = world(FakeRunner({"baseline": interrupt}), pairs=8)
    assert results.interrupted
    assert 4 <= len(results.runs) <= 5
    assert all(run.ok for run in results.runs)
    assert world.store.runs(results.id) == results.runs


def test_a_metric_that_is_not_reported_is_named_with_those_that_are(world):
    with pytest.raises(InputError, match='no "val_acuracy"; did you mean "val_accuracy"') as caught:
        world(FakeRunner(), quality=QualitySpec(metric="val_acuracy"))
    assert "it reports: loss, val_accuracy" in str(caught.value)
    with pytest.raises(InputError, match=r"measure\.target\.metric"):
        world(FakeRunner(), target=TargetSpec(metric="nothing", at_least=1.0))


def test_a_dry_build_that_fails_starts_no_run(world):
    runner = FakeRunner(prepare_error={"exit_code": 2})
    with pytest.raises(InputError, match="no"):
        world(runner)
    assert len(runner.tasks) == 1
    with pytest.raises(PreparationFailed):
        world(FakeRunner(prepare_error={"exit_code": 3}))


def test_an_interruption_after_a_look_is_judged_by_that_look_alone(world):
    def interrupt(task, seen=[]):  # noqa: B006
        seen.append(1)
        if len(seen) == 6:
            raise KeyboardInterrupt
        return 10.0

    results, _ = world(FakeRunner({"baseline": interrupt, "full": 10.0}, noise=0.2))
    assert results.interrupted
    assert results.comparison.pairs == 4
    fixed, _ = world(FakeRunner({"baseline": lambda task, seen=[]: (_ for _ in ()).throw(
        KeyboardInterrupt) if len(seen) >= 5 else seen.append(1) or 10.0}), pairs=8)  # fmt: skip
    assert fixed.comparison.verdict == "none"
    assert fixed.comparison.speedup is None
    assert "interrupted after 5 complete pairs" in fixed.comparison.statement


def test_a_model_that_cannot_be_saved_costs_no_verdict(world, tmp_path):
    # the fake runner leaves no model behind, so copying it must fail
    results, _ = world(FakeRunner(), pairs=4, save_to=tmp_path / "model.keras")
    assert results.comparison.verdict == "faster"
    assert results.saved_model is None
    assert any("no model was saved" in warning for warning in results.warnings)
    assert world.store.results(results.id) == results


def test_only_listed_variables_are_recorded(world):
    results, _ = world(FakeRunner(), pairs=4)
    assert results.environment["OMP_NUM_THREADS"] == "2"
    assert "SECRET_TOKEN" not in results.environment
    kept = b"".join(p.read_bytes() for p in world.store.path.parent.glob("runs.sqlite*"))
    assert b"OMP_NUM_THREADS" in kept
    assert b"SECRET_TOKEN" not in kept


def test_progress_says_which_run_of_how_many(world):
    _, events = world(FakeRunner(), pairs=4)
    started = [event for event in events if isinstance(event, RunStarted)]
    assert [(event.index, event.total_runs) for event in started] == [(i, 8) for i in range(8)]
    ended = [event for event in events if isinstance(event, RunEnded)]
    assert ended[0].speedup_so_far is None
    assert ended[1].speedup_so_far == pytest.approx(1.25, rel=0.02)
    assert ended[-1].seconds_left == 0


# The budget


def test_what_it_takes_is_said_before_the_first_run_and_after_each(world):
    _, events = world(FakeRunner(training_seconds=10.0))
    ready = next(event for event in events if isinstance(event, Ready))
    assert ready.estimated_seconds == pytest.approx(8 * 11.0)
    ended = [event for event in events if isinstance(event, RunEnded)]
    assert ended[1].seconds_left == pytest.approx(3 * (11 + 9))


def test_the_budget_is_overrun_by_no_more_than_a_round(world):
    slower = iter([10.0] * 8 + [90.0] * 30)
    runner = FakeRunner({"baseline": lambda task: next(slower), "full": 10.0}, noise=0.2)
    begun = runner.now
    results, _ = world(runner, budget_seconds=300.0, length="full")
    assert 300 < runner.now - begun <= 300 + 102
    assert len(results.runs) == 2 * 10
    assert results.comparison.pairs == 8  # as of the last look that was reached


def test_where_four_pairs_do_not_fit_there_is_no_verdict_but_a_budget_that_would_do(world):
    runner = FakeRunner()
    results, _ = world(runner, budget_seconds=30.0, length="full")
    assert len(results.runs) == 2
    assert results.comparison.verdict == "none"
    assert results.comparison.speedup is None
    assert "four pairs take about 82 s" in results.comparison.statement
    assert results.comparison.statement.endswith("--budget 2m would do")


def test_the_budget_that_would_do_is_that_of_a_search_too_where_one_chose_the_stack(world):
    results, _ = world(FakeRunner(), budget_seconds=30.0, length="full", budget_share=0.25)
    assert results.comparison.statement.endswith("--budget 7m would do for the search too")


def test_a_fixed_number_of_pairs_knows_no_budget(world):
    results, _ = world(FakeRunner(), pairs=4, budget_seconds=1e-9)
    assert results.comparison.pairs == 4


# The length of a run


def test_auto_trains_to_the_end_where_four_pairs_fit_the_budget(world):
    results, _ = world(FakeRunner(training_seconds=10.0), budget_seconds=200.0)
    assert results.length == "full"
    assert results.comparison.kind == "end-to-end"


def test_auto_stops_runs_once_they_are_steady_where_four_pairs_do_not_fit(world):
    runner = FakeRunner({"baseline": 1.0, "full": 0.8}, training_seconds=100.0)
    results, events = world(runner, budget_seconds=200.0)
    assert next(event for event in events if isinstance(event, Ready)).length == "steady"
    assert results.length == "steady"
    assert results.comparison.kind == "steady"
    assert results.comparison.speedup == pytest.approx(1.25, rel=0.02)
    assert "(projected)" in results.comparison.statement


def test_auto_cuts_later_runs_short_when_the_first_pair_took_too_long(world):
    runner = FakeRunner(training_seconds=5.0)
    # the estimate was far too short; what is cut short takes a tenth
    runner.walls = {name: lambda task, w=w: w / 10 if task.longest_seconds else w
                    for name, w in (("baseline", 100.0), ("full", 80.0))}  # fmt: skip
    results, events = world(runner, budget_seconds=300.0)
    assert [run.fit.complete for run in results.runs[:2]] == [True, True]
    assert not any(run.fit.complete for run in results.runs[2:])
    notes = [event.text for event in events if isinstance(event, Noted)]
    assert any("from now on runs stop" in note for note in notes)
    assert results.comparison.pairs == 4


def test_whole_trainings_must_fit_before_a_first_verdict_that_is_wanted(world):
    for wanted, length in ((200.0, "full"), (60.0, "steady")):
        results, events = world(
            FakeRunner(training_seconds=10.0), budget_seconds=300.0, first_verdict=wanted
        )
        assert results.length == length
        ready = next(event for event in events if isinstance(event, Ready))
        assert 0 < ready.first_verdict_seconds <= wanted


def test_a_first_verdict_that_is_open_is_told_and_more_pairs_follow(world):
    results, events = world(
        FakeRunner({"full": 10.0}, noise=0.2), budget_seconds=600.0, first_verdict=120.0
    )
    note, *_ = [event.text for event in events if isinstance(event, Noted)]
    assert note.startswith("first verdict, after 4 pairs: inconclusive")
    assert "more pairs follow, up to 8 within the budget of 10 min" in note
    assert results.comparison.pairs in (8, 12)


def test_four_pairs_of_a_first_verdict_may_overrun_a_budget_that_nobody_asked_for(world):
    # the machine became slow after the look: 8 runs of 60 s in place of 5 s
    slow = {"baseline": 60.0, "full": 50.0}
    for wanted, pairs in ((120.0, 4), (None, 1)):
        results, events = world(
            FakeRunner(slow, training_seconds=5.0), budget_seconds=300.0, length="steady",
            first_verdict=wanted,
        )  # fmt: skip
        assert results.comparison.pairs == pairs
        notes = [event.text for event in events if isinstance(event, Noted)]
        assert [note.startswith("four pairs take about 8 min") for note in notes] == (
            [True] if wanted else []
        )
    stopped, _ = world(
        FakeRunner({**slow, "full": stopped_at(3)}), budget_seconds=300.0, length="steady",
        first_verdict=120.0,
    )  # fmt: skip
    assert stopped.comparison.pairs < 4
    resumed, _ = world(FakeRunner(slow), budget_seconds=300.0, length="steady", resuming=True)
    assert resumed.comparison.pairs == 4
    slow = {"baseline": 400.0, "full": 300.0}
    results, _ = world(FakeRunner(slow), budget_seconds=300.0, length="steady", first_verdict=120.0)
    assert "no verdict: four pairs take about" in results.comparison.statement


def test_leaving_plugins_out_does_not_delay_a_first_verdict(world):
    walls = {"without p": 9.9, "without q": 8.0}
    for wanted, runs in ((300.0, 16), (90.0, 8)):
        results, _ = world(
            FakeRunner(walls), plugins=("p", "q"), attribution="auto", first_verdict=wanted
        )
        assert len(results.runs) == runs


@pytest.mark.parametrize(("attribution", "later"), [("auto", 2), ("leave-one-out", 4)])
def test_a_budget_is_not_overrun_by_leaving_plugins_out_unless_that_is_asked_for(
    world, attribution, later
):
    """The machine becomes slow after the first round."""
    names = ("baseline", "full", "without p", "without q")
    runner = FakeRunner({name: lambda task: 10.0 if runner.number < 4 else 60.0 for name in names})
    results, events = world(
        runner, plugins=("p", "q"), attribution=attribution, budget_seconds=300.0,
        first_verdict=300.0, length="steady",
    )  # fmt: skip
    made = variants_by_round(results)
    assert [len(made[round_]) for round_ in range(4)] == [4, 4, later, later]
    assert results.comparison.pairs == 4
    notes = [event.text for event in events if isinstance(event, Noted)]
    assert any("without one plugin each" in note for note in notes) is (attribution == "auto")
    assert any("as long as they fit into 15 min" in note for note in notes)


def test_runs_are_cut_by_what_is_left_until_a_first_verdict(world):
    runner = FakeRunner({"baseline": 1.0, "full": 0.8}, training_seconds=100.0)
    world(runner, budget_seconds=900.0, first_verdict=40.0)
    first, *_, last = [task.longest_seconds for task in runner.tasks if isinstance(task, RunTask)]
    assert first == SHORTEST_SECONDS < last < 30.0  # runs turn out to be short


def test_steady_is_taken_at_its_word(world):
    results, _ = world(FakeRunner(), pairs=4, length="steady")
    assert results.comparison.kind == "steady"
    # nothing was certified and no training was finished
    assert results.comparison.verdict == "quality open"
    assert "steps are faster; quality not established" in results.comparison.statement


# Resuming


def stopped_at(count, error=KeyboardInterrupt):
    """The seconds of a run; the one of this number is stopped."""

    def wall(task, seen=[]):  # noqa: B006
        seen.append(1)
        if len(seen) == count:
            raise error
        return 10.0

    return wall


class Killed(BaseException):
    """Stands in for the end of the process: nothing after it is carried out."""


@pytest.mark.parametrize("stop", [KeyboardInterrupt, Killed])
def test_resuming_repeats_only_the_run_that_was_under_way(world, stop):
    runner = FakeRunner({"baseline": stopped_at(3, stop)})
    if stop is Killed:
        with pytest.raises(Killed):
            world(runner, pairs=4)
    else:
        world(runner, pairs=4)
    [measurement] = world.store.measurements()
    before = world.store.runs(measurement)
    again = FakeRunner()
    results, events = world(again, pairs=4, resuming=True)
    assert results.id == measurement
    assert results.runs[: len(before)] == before
    assert [type(task) for task in again.tasks] == [RunTask] * (8 - len(before))
    assert results.comparison.pairs == 4
    assert not results.interrupted
    assert results.resumed == 1
    assert next(event for event in events if isinstance(event, Ready)).runs_done == len(before)


def test_a_resumed_measurement_makes_the_runs_that_an_undisturbed_one_makes(world):
    plan = {"plugins": ("p", "q"), "attribution": "leave-one-out", "pairs": 4}
    walls = {"without p": 9.9, "without q": 8.0}
    whole, _ = world(FakeRunner(walls), **plan)
    world(FakeRunner({**walls, "without p": stopped_at(2)}), **plan)
    resumed, _ = world(FakeRunner(walls), **plan, resuming=True)
    made = [[(run.round, run.position, run.variant, run.seed) for run in results.runs]
            for results in (whole, resumed)]  # fmt: skip
    assert made[0] == made[1]


def by_seed(seconds, salt):
    """The seconds of a run, which are those of its seed whenever it is made."""
    return lambda task: seconds * (1 + random.Random(salt + task.job.seed).gauss(0, 0.05))


class Mortal(FakeRunner):
    """Makes a number of runs, and is killed in the next."""

    def __init__(self, lasts=10**6):
        walls = {"baseline": 10.0, "full": 9.4, "without p": 9.9, "without q": 9.5}
        super().__init__(
            {name: by_seed(w, n) for n, (name, w) in enumerate(walls.items())}, noise=0
        )
        self.lasts = lasts

    def __call__(self, task, environment, tell):
        if isinstance(task, RunTask) and self.number + 1 == self.lasts:
            raise Killed
        return super().__call__(task, environment, tell)


@pytest.mark.promise(1, injected="the end of tfopt in each run of a measurement in turn, simulated")
@pytest.mark.parametrize(
    "plan",
    [{"pairs": 4}, {"pairs": "auto"},
     {"pairs": 4, "plugins": ("p", "q"), "attribution": "leave-one-out"}],
    ids=["pairs", "looks", "attribution"],
)  # fmt: skip
def test_killed_in_each_run_a_measurement_ends_with_the_verdict_of_an_undisturbed_one(world, plan):
    whole, _ = world(Mortal(), **plan)
    kills, results = 0, None
    while results is None:
        try:
            results, _ = world(Mortal(lasts=1), **plan, resuming=kills > 0)
        except Killed:
            kills += 1
    assert kills == len(whole.runs) - 1
    assert [(run.round, run.variant, run.seed, run.wall_seconds) for run in results.runs] == [
        (run.round, run.variant, run.seed, run.wall_seconds) for run in whole.runs
    ]
    assert results.comparison.statement == whole.comparison.statement
    assert attrs.evolve(results.comparison, run_ids=whole.comparison.run_ids) == whole.comparison
    assert [row.statement for row in results.attribution] == [
        row.statement for row in whole.attribution
    ]


def test_resuming_keeps_the_state_of_the_measurement(world):
    plan = {"plugins": ("p", "q"), "attribution": "auto"}
    walls = {"without p": 9.9, "without q": 8.0}
    with pytest.raises(Killed):
        world(FakeRunner({**walls, "without p": stopped_at(2, Killed)}), **plan)
    results, _ = world(FakeRunner(walls), **plan, resuming=True)
    assert {row.plugin for row in results.attribution} == {"p", "q"}


def test_resuming_refuses_another_recipe_and_names_the_key(world):
    world(FakeRunner({"baseline": stopped_at(3)}), pairs=4)
    with pytest.raises(InputError, match=r"recipe: measure\.pairs was 4, is 8"):
        world(FakeRunner(), pairs=8, resuming=True)


@pytest.mark.promise(15, injected="other code, another environment")
def test_resuming_refuses_other_code_and_another_environment(world, monkeypatch):
    world(FakeRunner({"baseline": stopped_at(3)}), pairs=4)
    [measurement] = world.store.measurements()
    kept = dict(world.store.unfinished()[0].request)
    kept["fingerprint"] = {
        **kept["fingerprint"], 'code of plugin "p"': "0" * 64,
        "environment variable OMP_NUM_THREADS": "1",
    }  # fmt: skip
    world.store.update_request(measurement, kept)
    with pytest.raises(InputError) as caught:
        world(FakeRunner(), pairs=4, resuming=True)
    assert 'code of plugin "p" changed' in str(caught.value)
    assert "OMP_NUM_THREADS was 1, is 2" in str(caught.value)


def test_a_finished_measurement_is_not_resumed(world):
    world(FakeRunner(), pairs=4)
    with pytest.raises(InputError, match="nothing to resume"):
        world(FakeRunner(), pairs=4, resuming=True)


def test_a_damaged_measurement_of_this_recipe_is_named_rather_than_an_older_one_resumed(world):
    for _ in range(2):
        world(FakeRunner({"baseline": stopped_at(3)}), pairs=4)
    newest = world.store.unfinished()[0].id
    statement = "UPDATE measurement SET request = '{' WHERE id = ?"
    world.store._write(statement, (newest,))
    with pytest.raises(DamagedMeasurement, match=f'measurement "{newest}"'):
        world(FakeRunner(), pairs=4, resuming=True)


def test_a_damaged_measurement_of_another_recipe_does_not_prevent_resuming(world):
    world(FakeRunner({"baseline": stopped_at(3)}), pairs=4)
    [measurement] = world.store.measurements()
    world.store.begin("other", "9999", "another recipe", "ab", {})
    world.store._write("UPDATE measurement SET request = '{' WHERE id = 'other'", ())
    results, _ = world(FakeRunner(), pairs=4, resuming=True)
    assert results.id == measurement
    assert results.comparison.pairs == 4


@pytest.mark.parametrize(("part", "value"), [("prepared", {}), ("course", []), ("fingerprint", 3)])
def test_resuming_names_the_measurement_whose_decisions_are_damaged(world, part, value):
    world(FakeRunner({"baseline": stopped_at(3)}), pairs=4)
    [measurement] = world.store.measurements()
    kept = dict(world.store.request_of(measurement))
    world.store.update_request(measurement, {**kept, part: value})
    with pytest.raises(DamagedMeasurement, match=f'measurement "{measurement}".*{part}'):
        world(FakeRunner(), pairs=4, resuming=True)


def test_resuming_names_the_measurement_that_has_a_damaged_run(world):
    world(FakeRunner({"baseline": stopped_at(3)}), pairs=4)
    [measurement] = world.store.measurements()
    world.store._write("UPDATE run SET data = '{' WHERE round = 1 AND position = 0", ())
    with pytest.raises(DamagedMeasurement, match=f'measurement "{measurement}".* run "'):
        world(FakeRunner(), pairs=4, resuming=True)


@pytest.mark.promise(14, injected="a lock that another process holds")
def test_a_measurement_that_another_process_holds_is_not_resumed(world, tmp_path):
    world(FakeRunner({"baseline": stopped_at(3)}), pairs=4)
    [measurement] = world.store.measurements()
    with held(tmp_path / "runs" / measurement), pytest.raises(StoreError, match="under way"):
        world(FakeRunner(), pairs=4, resuming=True)


def test_a_resumed_measurement_pays_only_for_the_rounds_that_are_missing(world):
    # a pair takes 22 s, so four of them and the set-up fit, but not seven
    begun = FakeRunner({"baseline": stopped_at(4)})
    world(begun, budget_seconds=100.0, length="full")
    results, _ = world(FakeRunner(), budget_seconds=100.0, length="full", resuming=True)
    assert results.comparison.pairs == 4
    assert results.comparison.verdict == "faster"


def test_a_resumed_measurement_is_judged_at_looks_only(world):
    # stopped in the seventh pair of an open verdict, and too slow now for the eighth
    begun = FakeRunner({"baseline": stopped_at(7), "full": 10.0}, noise=0.2)
    world(begun, budget_seconds=220.0, length="full")
    [measurement] = world.store.measurements()
    made = world.store.runs(measurement)
    assert len(pairs_of(made)) == 6
    slow = FakeRunner({"baseline": 300.0, "full": 10.0}, noise=0.2)
    results, _ = world(slow, budget_seconds=220.0, length="full", resuming=True)
    assert len(pairs_of(results.runs)) == 7
    assert results.comparison.pairs == 4


def test_a_failed_run_is_said_though_its_round_is_not_judged(world):
    def dies_in_the_sixth(task, seen=[]):  # noqa: B006
        seen.append(1)
        return "killed by SIGKILL" if len(seen) == 6 else 10.0

    runner = FakeRunner({"full": dies_in_the_sixth, "baseline": stopped_at(7)}, noise=0.2)
    results, _ = world(runner)
    assert results.interrupted
    assert results.comparison.pairs == 4
    assert "1 of 9 runs failed" in results.comparison.statement


def test_steady_without_a_number_of_steps_trains_to_the_end_and_says_so(world):
    runner = FakeRunner()
    runner.steps_per_epoch = None
    results, _ = world(runner, pairs=4, length="steady")
    assert results.length == "full"
    assert results.comparison.kind == "end-to-end"
    assert any("the number of steps in an epoch is unknown" in w for w in results.warnings)


def test_a_certificate_that_would_take_too_much_of_the_budget_is_left_out(world):
    # 20 steps take 100 s, so replaying 100 steps twice would take as long as the training twice
    runner = FakeRunner(training_seconds=100.0)
    results, _ = world(runner, budget_seconds=600.0)
    assert ReplayTask not in [type(task) for task in runner.tasks]
    said = results.comparison.quality.certificate
    assert "replaying 100 steps twice would take about 3 min" in said
    cheap = FakeRunner(training_seconds=10.0)
    world(cheap, budget_seconds=600.0)
    assert ReplayTask in [type(task) for task in cheap.tasks]


def test_runs_are_not_forked_where_the_stack_changes_their_environment(world):
    runner = FakeRunner()
    world(runner, pairs=4)
    assert not any(task.alike for task in runner.tasks)  # the fake plugin sets threads


PLUS = "plus low"


def test_an_addition_is_run_in_the_rounds_of_the_stack_and_judged_apart(world):
    runner = FakeRunner({PLUS: 4.0})
    results, _ = world(runner, added=("p", "low"), pairs=4)
    assert [run.variant for run in results.runs].count(PLUS) == 4
    assert results.comparison.speedup == pytest.approx(10 / 8, rel=0.02)
    added = results.addition
    assert (added.plugins, added.variant, added.equivalence) == (("low",), PLUS, "rounding")
    assert added.verdict == "faster"
    assert added.speedup == pytest.approx(8 / 4, rel=0.02)
    assert added.total == pytest.approx(10 / 4, rel=0.02)
    assert added.resolved == {"p": {"threads": 4}, "low": {"threads": 4}}
    assert world.store.results(results.id) == results
    seeds = {run.round: {other.seed for other in results.runs if other.round == run.round}
             for run in results.runs}  # fmt: skip
    assert all(len(of_round) == 1 for of_round in seeds.values())
    replays = [task.job.variant for task in runner.tasks if isinstance(task, ReplayTask)]
    assert replays == ["baseline"]  # it fails, so none with a stack follows


def test_an_addition_that_fails_costs_the_stack_no_verdict(world):
    results, _ = world(FakeRunner({PLUS: "out of luck"}), added=("p", "low"), pairs=4)
    assert results.comparison.verdict == "faster"
    assert results.comparison.pairs == 4
    assert results.addition.verdict == "none"
    # after two failures it is not tried again
    assert [run.variant for run in results.runs].count(PLUS) == 2


def test_an_addition_gives_way_where_the_budget_holds_the_verdict_alone(world):
    # four rounds of both sides take 80 s, with the addition 4 x 100 s more
    results, events = world(
        FakeRunner({PLUS: 100.0}), added=("p", "low"), budget_seconds=190, length="full"
    )
    assert results.comparison.verdict == "faster"
    assert results.comparison.pairs == 4
    assert [run.variant for run in results.runs].count(PLUS) == 1
    assert results.addition.speedup is None
    assert "the budget holds no more runs of it" in results.addition.statement
    assert any("low on top of the stack" in e.text for e in events if isinstance(e, Noted))


def test_a_whole_pair_follows_cut_runs_and_changes_nothing_of_the_verdict(world):
    runner = FakeRunner({PLUS: 4.0}, training_seconds=400.0)
    results, events = world(
        runner, added=("p", "low"), length="steady", budget_seconds=1000,
        whole_pair=True,
    )  # fmt: skip
    assert [run.variant for run in results.whole_pair] == ["baseline", PLUS]
    assert all(run.complete for run in results.whole_pair)
    assert not any(run.complete for run in results.runs)
    assert results.comparison.kind == "steady"
    assert {run.id for run in results.whole_pair}.isdisjoint(run.id for run in results.runs)
    assert world.store.results(results.id) == results
    assert any("a pair of whole trainings" in e.text for e in events if isinstance(e, Noted))


def test_a_whole_pair_is_of_baseline_and_stack_where_nothing_is_added(world):
    results, _ = world(FakeRunner(), length="steady", whole_pair=True)
    assert [run.variant for run in results.whole_pair] == ["baseline", "full"]


def test_whole_runs_need_no_whole_pair_and_whoever_asks_for_one_is_told(world):
    results, events = world(FakeRunner(), pairs=4, whole_pair=True)
    assert results.whole_pair == ()
    assert any("--full adds none" in event.text for event in events if isinstance(event, Noted))


def test_a_whole_pair_is_without_an_addition_that_never_ran_to_an_end(world):
    results, _ = world(
        FakeRunner({PLUS: "out of luck"}), added=("p", "low"), length="steady",
        whole_pair=True,
    )  # fmt: skip
    assert [run.variant for run in results.whole_pair] == ["baseline", "full"]


def test_a_whole_pair_that_fails_is_a_warning(world):
    def whole(task):
        return 8.0 if task.longest_seconds else "out of luck"

    results, _ = world(FakeRunner({"full": whole}), length="steady", whole_pair=True)
    assert results.whole_pair == ()
    assert results.comparison.speedup is not None
    assert any("whole trainings one failed: out of luck" in text for text in results.warnings)


def test_ctrl_c_in_a_whole_pair_keeps_the_verdict_and_a_resume_makes_the_pair(world, monkeypatch):
    def whole(task):
        if task.longest_seconds:
            return 8.0
        raise KeyboardInterrupt

    stopped, _ = world(FakeRunner({"full": whole}), length="steady", whole_pair=True)
    assert stopped.interrupted
    assert stopped.whole_pair == ()
    assert any("Ctrl-C ended the pair" in text for text in stopped.warnings)
    assert any("--resume --full makes it anew" in text for text in stopped.warnings)
    assembled_again(monkeypatch)
    results, _ = world(
        FakeRunner(), length="steady", whole_pair=True, resuming=True
    )  # fmt: skip
    assert not results.interrupted
    assert results.comparison == stopped.comparison
    assert [run.variant for run in results.whole_pair] == ["baseline", "full"]


def test_a_resumed_measurement_goes_on_with_its_addition(world, monkeypatch):
    world(FakeRunner({"baseline": stopped_at(3), PLUS: 4.0}), added=("p", "low"), pairs=4)
    assembled_again(monkeypatch)
    runner = FakeRunner({PLUS: 4.0})
    results, _ = world(runner, pairs=4, resuming=True)
    assert results.resumed == 1
    assert results.addition.pairs == 4
    added = next(task for task in runner.tasks if task.job.variant == PLUS)
    assert [plugin.name for plugin in added.job.plugins] == ["p", "low"]


def test_an_addition_that_is_not_installed_any_more_cannot_be_resumed(world):
    world(FakeRunner({"baseline": stopped_at(3), PLUS: 4.0}), added=("p", "low"), pairs=4)
    with pytest.raises(InputError, match="cannot be resumed"):
        world(FakeRunner(), pairs=4, resuming=True)


def assembled_again(monkeypatch):
    """Plugins are not installed here: those of a resumed measurement are made by their names."""

    def assembled(entries):
        assert all(entry.settings == {"threads": 4} for entry in entries)
        return tuple(StackedPlugin(entry.use, Three(threads=4)) for entry in entries), []

    monkeypatch.setattr("tfopt_core.measurement.resume.assemble", assembled)


def test_a_stack_that_its_recipe_has_as_comments_is_resumed(world, monkeypatch):
    world(FakeRunner({"baseline": stopped_at(3)}), pairs=4)
    assembled_again(monkeypatch)
    runner = FakeRunner()
    results, _ = world(runner, plugins=(), pairs=4, resuming=True)
    assert (results.resumed, results.comparison.pairs) == (1, 4)
    full = next(task for task in runner.tasks if task.job.variant == "full")
    assert [plugin.name for plugin in full.job.plugins] == ["p"]


def test_an_addition_whose_code_was_edited_is_not_resumed(world, monkeypatch):
    world(FakeRunner({"baseline": stopped_at(3), PLUS: 4.0}), added=("p", "low"), pairs=4)
    assembled_again(monkeypatch)
    [measurement] = world.store.measurements()
    kept = dict(world.store.request_of(measurement))
    name = 'code of plugin "low"'
    kept["fingerprint"] = {**kept["fingerprint"], name: "0" * len(kept["fingerprint"][name])}
    world.store.update_request(measurement, kept)
    with pytest.raises(InputError, match=f"{name} changed"):
        world(FakeRunner(), pairs=4, resuming=True)


def with_addition(world, walls=None, noise=0.003, **how):
    """A first contact whose first verdict is wanted after two minutes."""
    given = {"added": ("p", "low"), "budget_seconds": 600.0, "first_verdict": 120.0, **how}
    runner = FakeRunner({PLUS: 4.0, **(walls or {})}, noise=noise)
    return world(runner, **given)


def variants_by_round(results):
    made = {}
    for run in results.runs:
        made.setdefault(run.round, set()).add(run.variant)
    return made


def test_a_second_contrast_begins_after_a_first_verdict_and_does_not_delay_it(world):
    results, events = with_addition(world)
    made = variants_by_round(results)
    assert all(made[round_] == {"baseline", "full"} for round_ in range(4))
    assert all(made[round_] == {"baseline", "full", PLUS} for round_ in range(4, 8))
    assert len(made) == 8
    ready = next(event for event in events if isinstance(event, Ready))
    assert ready.total_runs == 8
    first, *notes = [event.text for event in events if isinstance(event, Noted)]
    assert first.startswith("first verdict, after 4 pairs: faster")
    assert first.endswith("it is final; what follows tries low on top of the stack")
    assert notes == ["trying low", "runs of low on top of the stack follow"]
    assert results.addition.verdict == "faster"
    assert results.addition.pairs == 4
    assert results.addition.total == pytest.approx(10 / 4, rel=0.02)
    assert results.warnings == ()
    assert world.store.results(results.id) == results


def test_a_verdict_is_that_of_its_own_rounds_whatever_follows_for_a_second_contrast(world):
    alone, _ = with_addition(world, added=())
    both, _ = with_addition(world)
    assert alone.comparison.run_ids != both.comparison.run_ids  # of two measurements
    parts = ("verdict", "pairs", "speedup", "low", "high", "statement")
    assert all(getattr(alone.comparison, part) == getattr(both.comparison, part) for part in parts)
    assert (alone.ratios, alone.observations) == (both.ratios, both.observations)


def test_an_addition_waits_for_a_verdict_that_is_open_at_first(world):
    results, _ = with_addition(world, {"full": 10.0, PLUS: 5.0}, noise=0.2)
    made, pairs = variants_by_round(results), results.comparison.pairs
    assert pairs in (8, 12)
    assert [PLUS in made[round_] for round_ in sorted(made)] == [False] * pairs + [True] * 4


def test_an_addition_is_not_tried_where_the_rest_of_the_budget_does_not_hold_its_rounds(world):
    results, events = with_addition(world, budget_seconds=150.0)
    assert results.comparison.verdict == "faster"
    assert len(results.runs) == 8
    assert results.addition is None
    assert not any(isinstance(event, Noted) for event in events)


def test_where_no_addition_stays_the_verdict_stands_as_it_is(world):
    tried = Waiting(("low",), lambda tell: None)
    results, events = world(
        FakeRunner(), budget_seconds=600.0, first_verdict=120.0, waiting=tried
    )  # fmt: skip
    assert results.comparison.verdict == "faster"
    assert (len(results.runs), results.addition) == (8, None)
    assert sum("first verdict" in e.text for e in events if isinstance(e, Noted)) == 1


def test_a_second_contrast_that_fails_for_good_ends_after_two_rounds(world):
    results, _ = with_addition(world, {PLUS: "out of luck"})
    assert results.comparison.verdict == "faster"
    assert [run.variant for run in results.runs].count(PLUS) == 2
    assert max(run.round for run in results.runs) == 5
    assert results.addition.verdict == "none"


def test_runs_of_a_second_contrast_are_cut_no_later_than_those_of_the_verdict(world):
    runner = FakeRunner({"baseline": 1.0, "full": 0.8, PLUS: 0.5})
    results, _ = world(
        runner, added=("p", "low"), length="steady", budget_seconds=900.0, first_verdict=40.0
    )
    longest = [task.longest_seconds for task in runner.tasks if isinstance(task, RunTask)]
    assert results.addition.pairs == 4
    assert max(longest[8:]) <= max(longest[:8])


def test_a_second_contrast_that_is_stopped_leaves_the_verdict_and_is_resumed(world, monkeypatch):
    stopped, _ = with_addition(world, {PLUS: stopped_at(2)}, first_verdict=85.0)
    assert stopped.interrupted
    assert stopped.comparison.verdict == "faster"
    assert stopped.addition.speedup is None
    assembled_again(monkeypatch)
    results, _ = world(FakeRunner({PLUS: 4.0}), budget_seconds=600.0, resuming=True)
    assert not results.interrupted
    assert results.comparison == stopped.comparison
    assert variants_by_round(results)[7] == {"baseline", "full", PLUS}
    assert len(variants_by_round(results)) == 8
    assert results.addition.pairs == 4


def test_an_addition_is_replayed_once_the_first_verdict_on_the_stack_is_there(world):
    runner = FakeRunner({PLUS: 4.0}, training_seconds=10.0)
    results, _ = world(runner, added=("p", "low"), budget_seconds=600.0, first_verdict=50.0)
    kinds = [type(task) for task in runner.tasks if not isinstance(task, PrepareTask)]
    assert kinds[:10] == [ReplayTask, *[RunTask] * 8, ReplayTask]
    # each fails, so none with a stack follows
    for quality in (results.comparison.quality, results.addition.quality):
        assert "the replay without the stack failed" in quality.certificate


def test_a_first_verdict_that_is_overdue_is_late_rather_than_without_a_certificate(world):
    # a training of 20 steps takes 15 s, and so would two replays of it
    for wanted, replayed in ((40.0, False), (0.0, True)):
        runner = FakeRunner(training_seconds=15.0)
        results, _ = world(runner, budget_seconds=600.0, first_verdict=wanted)
        assert any(isinstance(task, ReplayTask) for task in runner.tasks) is replayed
        too_long = "about 30 s, more than the 20 s for it until a first verdict"
        assert (too_long in results.comparison.quality.certificate) is not replayed


def test_an_edit_while_additions_are_tried_or_run_costs_the_verdict_nothing(world, monkeypatch):
    edited = []

    def check(self, runs):
        if edited:
            raise EditedMeanwhile(("train.py",), runs)

    monkeypatch.setattr(CodeAtStart, "check", check)
    tried = Waiting(("low",), lambda tell: edited.append("while it is tried"))
    how = {"budget_seconds": 600.0, "first_verdict": 120.0}
    for given in ({"waiting": tried}, {"added": ("p", "low")}):
        edited.clear()
        runner = FakeRunner({PLUS: lambda task: edited.append("while it runs") or 4.0})
        results, events = world(runner, **how, **given)
        assert edited
        assert (results.comparison.verdict, results.comparison.pairs) == ("faster", 4)
        last = [event.text for event in events if isinstance(event, Noted)][-1]
        assert last == "low on top of the stack: train.py changed meanwhile"
        assert not world.store.unfinished()


def test_a_resume_compares_with_the_code_of_the_start_not_with_that_of_the_trials(
    world, monkeypatch
):
    def edited_since(request):
        return dict.fromkeys(fingerprint(request), "edited")

    monkeypatch.setattr("tfopt_core.measurement.waiting.fingerprint", edited_since)
    with_addition(world, {PLUS: stopped_at(2)})
    [measurement] = world.store.measurements()
    kept = world.store.request_of(measurement)["fingerprint"]
    assert {name for name, value in kept.items() if value == "edited"} == {'code of plugin "low"'}


def test_an_edit_in_a_pair_of_whole_trainings_costs_the_verdict_nothing(world, monkeypatch):
    def check(self, runs):
        if world.store.results("m0") is not None:
            raise EditedMeanwhile(("train.py",), runs)

    monkeypatch.setattr(CodeAtStart, "check", check)
    results, _ = world(FakeRunner(), pairs=4, length="steady", whole_pair=True)
    assert results.comparison.speedup is not None
    assert results.whole_pair == ()
    assert "no pair of whole trainings: train.py changed meanwhile" in results.warnings
