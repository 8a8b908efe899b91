"""A whole measurement with a runner that only pretends: rounds, looks, failures, Ctrl-C."""

import random
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from support.failing_disk import Killed
from support.in_process import ended_with
from support.measure_runs import make_outcome, make_request
from support.report_results import make_plan, make_prepared

from tfopt_core.errors import DamagedMeasurement, InputError, PreparationFailed, StoreError
from tfopt_core.hooks.diagnosis import Finding
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.hooks.values import Effect
from tfopt_core.measurement.certifying import most_batches
from tfopt_core.measurement.progress import Noted, Ready, RunEnded, RunStarted
from tfopt_core.measurement.session import measure, resume
from tfopt_core.plugins import Plugin, hookimpl
from tfopt_core.recipe.model import MeasureSpec, QualitySpec, Recipe, TargetSpec, WorkloadSpec
from tfopt_core.store.database import Store
from tfopt_core.store.lock import held
from tfopt_core.training.messages import Block, EpochDone, RunReport, StepDone
from tfopt_core.workers.task import Failure, PrepareTask, ReplayTask, RunTask


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
        self.estimate_error = self.fits = None

    def __call__(self, task, environment, tell):
        self.tasks.append(task)
        self.environments.append(environment)
        self.now += 1.0
        if isinstance(task, PrepareTask):
            return self._prepared(task)
        if isinstance(task, ReplayTask):
            return ended_with(None, cause="there is nothing to replay here")
        self.number += 1
        if self.fits is not None:
            of_fits = [make_outcome(wall_seconds=each, name="fit") for each in self.fits]
            return ended_with(RunReport(
                wall_seconds=sum(self.fits), cpu_seconds=0.0, peak_rss_bytes=1, effects={},
                fits=tuple(of_fits),
            ), seconds=sum(self.fits))  # fmt: skip
        wall = self.walls[task.job.variant]
        wall = wall(task) if callable(wall) else wall
        if isinstance(wall, str):
            return ended_with(None, cause=wall)
        if isinstance(wall, Failure):
            return ended_with(wall)
        self.now += wall
        tell(StepDone(0, 5))
        tell(EpochDone(0, {"val_accuracy": 0.5}))
        source, noise = self.noise
        return ended_with(RunReport(
            wall_seconds=wall * (1 + source.gauss(0, noise)), cpu_seconds=0.0, peak_rss_bytes=1,
            effects={p.name: Effect(True, "set") for p in task.job.plugins},
            fits=(self._fit(task, wall),),
        ), seconds=wall + 1.0)  # fmt: skip

    def _fit(self, task, wall):
        if task.warm_seconds is None:
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
            return ended_with(self.estimate_error)
        if self.prepare_error:
            plain = {"error": "E", "message": "no", "exit_code": 3}
            return ended_with(Failure(**{**plain, **self.prepare_error}))
        plans = tuple(
            make_plan(
                p.name, settings={"threads": 4}, asked={"threads": "auto"},
                equivalence=self.equivalence,
            )
            for p in task.job.plugins
        )  # fmt: skip
        quality = task.job.recipe.measure.quality
        prepared = make_prepared(
            plugins=plans,
            quality_metric=quality.metric if quality else "val_accuracy",
            epochs=2, steps_per_epoch=self.steps_per_epoch, validation_examples=100,
            training_seconds=self.training_seconds,
            several_processes=self.several_processes,
            baseline_batch_size=512,
            to_target=task.job.recipe.measure.objective == "time-to-target",
        )  # fmt: skip
        return ended_with(prepared)


FINDING = Finding(kind="runs-eagerly", detail="each step runs eagerly", place="train.py:12")


def prepared_before(request, training_seconds):
    """What a first contact knows before it measures: both dry builds."""
    plan = make_plan("p", settings={"threads": 4})
    prepared = make_prepared(
        plugins=(plan,), epochs=2, steps_per_epoch=10,
        validation_examples=100, training_seconds=training_seconds, findings=(FINDING,),
    )  # fmt: skip
    low = attrs.evolve(plan, name="low", equivalence="rounding")
    extended = attrs.evolve(prepared, plugins=(plan, low))
    return {"prepared_before": (prepared, request), "extended": extended}


@pytest.fixture
def world(tmp_path):
    store = Store(tmp_path / "runs.sqlite")

    def go(
        runner, plugins=("p",), save_to=None, resuming=False, observers=(),
        added=(), seconds="whole", **spec,
    ):  # fmt: skip
        recipe = Recipe(
            name="r",
            workload=WorkloadSpec(use="w"),
            measure=MeasureSpec(**{"attribution": "off", "seconds": seconds, **spec}),
        )
        request = make_request(
            recipe=recipe,
            plugins=tuple(StackedPlugin(name, Three()) for name in plugins),
            observers=tuple(StackedPlugin(name, Three()) for name in observers),
            added=tuple(StackedPlugin(name, Three(threads=4)) for name in added),
            folder=tmp_path / "runs" / f"m{len(store.measurements())}",
            environment={"PATH": "/bin", "SECRET_TOKEN": "x", "OMP_NUM_THREADS": "2"},
            seed=1,
            save_to=save_to,
        )
        events = []
        first_contact = added and not resuming
        before = prepared_before(request, runner.training_seconds) if first_contact else {}
        conduct = resume if resuming else measure
        found = conduct(request, runner=runner, store=store, observer=events.append, **before)
        return found, events

    go.store = store
    return go


def test_four_fixed_pairs_are_eight_runs_each_stored_and_told_as_which_of_how_many(world):
    results, events = world(FakeRunner(), pairs=4)
    assert results.comparison.verdict == "faster"
    assert len(results.runs) == 8
    assert world.store.results(results.id) == results
    assert next(e for e in events if isinstance(e, Ready)).total_runs == 8
    started = [event for event in events if isinstance(event, RunStarted)]
    assert [(event.index, event.total_runs) for event in started] == [(i, 8) for i in range(8)]
    ended = [event for event in events if isinstance(event, RunEnded)]
    assert len(ended) == 8
    assert ended[0].speedup_so_far is None
    assert ended[1].speedup_so_far == pytest.approx(1.25, rel=0.02)
    assert ended[-1].seconds_left == 0


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
    runner = FakeRunner(training_seconds=400.0, several_processes=True)
    results, _ = world(runner, seconds=5.0)
    assert results.warm_seconds is None
    runs = [task for task in runner.tasks if isinstance(task, RunTask)]
    assert not any(task.warm_seconds for task in runs)
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


def test_runs_have_the_resolved_settings_and_the_environment_of_their_variant(world):
    runner = FakeRunner()
    world(runner, pairs=4)
    assert isinstance(runner.tasks[0], PrepareTask)
    used = {
        task.job.plugins[0].plugin.threads for task in runner.tasks if task.job.variant == "full"
    } - {"auto"}
    assert used == {4}
    threads = {
        task.job.variant: environment.get("TF_NUM_INTRAOP_THREADS")
        for task, environment in zip(runner.tasks, runner.environments, strict=True)
    }
    assert threads == {"full": "3", "baseline": None}
    assert not any(task.forks for task in runner.tasks)  # since the environment is another


def test_leave_one_out_runs_every_variant_each_round(world):
    runner = FakeRunner({"without p": 9.9, "without q": 8.0})
    results, _ = world(runner, plugins=("p", "q"), pairs=4, attribution="leave-one-out")
    assert len(results.runs) == 16
    by_name = {row.plugin: row for row in results.attribution}
    assert by_name["p"].left_out == pytest.approx(9.9 / 8, rel=0.02)
    assert by_name["q"].low < 1 < by_name["q"].high


def test_a_time_to_target_is_measured_from_the_first_run_on(world):
    target = TargetSpec(metric="val_accuracy", at_least=0.95)  # which nobody reaches
    runner = FakeRunner(equivalence="changes")
    results, events = world(runner, pairs=4, target=target)
    runs = [task for task in runner.tasks if isinstance(task, RunTask)]
    assert runs
    assert not any(task.in_turns for task in runs)  # stops would count towards the target
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
        # beside the other one, and alone
        return "killed by SIGKILL" if len(seen) in (2, 3) else 10.0

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


@pytest.mark.promise(4, injected="ResourceExhaustedError in each run of the baseline")
def test_a_baseline_that_never_fits_is_a_result_after_two_groups(world):
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


def test_a_dry_build_that_runs_out_of_memory_is_made_without_the_estimate(world):
    runner = FakeRunner({"baseline": OUT_OF_MEMORY})
    runner.estimate_error = OUT_OF_MEMORY
    results, _ = world(runner)
    prepared = [task for task in runner.tasks if isinstance(task, PrepareTask)]
    assert [task.estimate for task in prepared] == [True, False]
    assert results.comparison.verdict == "fits"
    assert any("the time of a training is not estimated" in text for text in results.warnings)


@pytest.mark.promise(16, injected="a quality metric that the training does not report")
def test_a_metric_that_is_not_reported_is_named_with_those_that_are(world):
    with pytest.raises(InputError, match='no "val_acuracy"; did you mean "val_accuracy"') as caught:
        world(FakeRunner(), quality=QualitySpec(metric="val_acuracy"))
    assert "it reports: accuracy, val_accuracy" in str(caught.value)
    with pytest.raises(InputError, match=r"measure\.target\.metric"):
        world(FakeRunner(), target=TargetSpec(metric="nothing", at_least=1.0))


def test_a_dry_build_that_fails_starts_no_run(world):
    runner = FakeRunner(prepare_error={"exit_code": 2})
    with pytest.raises(InputError, match="no"):
        world(runner)
    assert len(runner.tasks) == 1
    with pytest.raises(PreparationFailed):
        world(FakeRunner(prepare_error={"exit_code": 3}))


def test_a_model_that_cannot_be_saved_costs_no_verdict(world, tmp_path):
    # the fake runner leaves no model behind, so copying it must fail
    results, _ = world(FakeRunner(), pairs=4, save_to=tmp_path / "model.keras")
    assert results.comparison.verdict == "faster"
    assert results.saved_model is None
    assert any("no model was saved" in warning for warning in results.warnings)
    assert world.store.results(results.id) == results


def stopped_at(count, error=KeyboardInterrupt):
    """The seconds of a run; the one of this number is stopped."""

    def wall(task, seen=[]):  # noqa: B006
        seen.append(1)
        if len(seen) == count:
            raise error
        return 10.0

    return wall


@pytest.fixture
def stopped(world):
    """The id of a measurement of four pairs that Ctrl-C has ended in its second one."""
    world(FakeRunner({"baseline": stopped_at(3)}), pairs=4)
    [measurement] = world.store.measurements()
    return measurement


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


@pytest.mark.promise(15, injected="another number of pairs in the recipe")
def test_resuming_refuses_another_recipe_and_names_the_key(world):
    world(FakeRunner({"baseline": stopped_at(3)}), pairs=4)
    with pytest.raises(InputError, match=r"recipe: measure\.pairs was 4, is 8"):
        world(FakeRunner(), pairs=8, resuming=True)


@pytest.mark.promise(15, injected="other code, another environment")
def test_resuming_refuses_other_code_and_another_environment(world, stopped, monkeypatch):
    known = world.store.request_of(stopped)["fingerprint"]
    changed = {'code of plugin "p"': "0" * 64, "environment variable OMP_NUM_THREADS": "1"}
    world.store.update_request(stopped, fingerprint={**known, **changed})
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


def test_a_damaged_measurement_of_another_recipe_does_not_prevent_resuming(world, stopped):
    world.store.begin("other", "9999", "another recipe", "ab", {})
    world.store._write("UPDATE measurement SET request = '{' WHERE id = 'other'", ())
    results, _ = world(FakeRunner(), pairs=4, resuming=True)
    assert results.id == stopped
    assert results.comparison.pairs == 4


@pytest.mark.parametrize(("part", "value"), [("prepared", {}), ("course", []), ("fingerprint", 3)])
def test_resuming_names_the_measurement_whose_decisions_are_damaged(world, stopped, part, value):
    world.store.update_request(stopped, **{part: value})
    with pytest.raises(DamagedMeasurement, match=f'measurement "{stopped}".*{part}'):
        world(FakeRunner(), pairs=4, resuming=True)


@pytest.mark.promise(14, injected="a lock that another process holds")
def test_a_measurement_that_another_process_holds_is_not_resumed(world, stopped, tmp_path):
    with held(tmp_path / "runs" / stopped), pytest.raises(StoreError, match="under way"):
        world(FakeRunner(), pairs=4, resuming=True)


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
    # it fails in the replay of each, so that none with a stack follows
    assert replays == ["baseline", "baseline"]


def test_an_addition_that_fails_costs_the_stack_no_verdict(world):
    results, _ = world(FakeRunner({PLUS: "out of luck"}), added=("p", "low"), pairs=4)
    assert results.comparison.verdict == "faster"
    assert results.comparison.pairs == 4
    assert results.addition.verdict == "none"
    # after two failures it is not tried again
    assert [run.variant for run in results.runs].count(PLUS) == 2


def test_a_resumed_measurement_keeps_its_addition_and_what_its_look_found(world, monkeypatch):
    world(FakeRunner({"baseline": stopped_at(3), PLUS: 4.0}), added=("p", "low"), pairs=4)
    assembled_again(monkeypatch)
    runner = FakeRunner({PLUS: 4.0})
    results, _ = world(runner, pairs=4, resuming=True)
    assert results.resumed == 1
    assert results.addition.pairs == 4
    assert results.findings == (FINDING,)
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

    monkeypatch.setattr("tfopt_core.measurement.session.assemble", assembled)


# What is decided beforehand, and what may end it


def test_without_a_word_six_pairs_of_runs_are_cut_short_and_projected(world):
    runner = FakeRunner({"baseline": 1.0, "full": 0.8}, training_seconds=100.0)
    results, events = world(runner, seconds=5.0)
    ready = next(event for event in events if isinstance(event, Ready))
    assert (ready.state.pairs, ready.total_runs, ready.state.warm_seconds) == (6, 12, 5.0)
    assert {task.warm_seconds for task in runner.tasks if isinstance(task, RunTask)} == {5.0}
    assert (results.comparison.kind, results.comparison.pairs) == ("steady", 6)
    assert results.comparison.confidence == pytest.approx(0.95)
    # nothing was certified and no training was finished
    assert results.comparison.verdict == "quality open"
    assert "(projected)" in results.comparison.statement
    assert results.next_steps[-1] == "settle the quality with whole trainings: --full"


def test_once_the_fits_of_a_script_are_known_each_trains_its_share_of_the_seconds(world):
    runner = FakeRunner(training_seconds=100.0)
    runner.fits = (40.0, 39.0, 1.0)
    world(runner, seconds=8.0)
    of_runs = [task.fit_seconds for task in runner.tasks if isinstance(task, RunTask)]
    assert of_runs == [()] * 2 + [(4.0, 3.9, 2.0)] * 10


def test_a_script_that_turns_out_to_have_several_fits_has_as_many_pairs_as_the_time_holds(world):
    for fits, seconds, pairs in (((10.0, 9.0), None, 6), ((8.0, 7.0), 120.0, 5)):
        runner = FakeRunner(training_seconds=2.0)
        runner.fits = fits
        results, events = world(runner, seconds=None, budget_seconds=seconds)
        planned = next(event for event in events if isinstance(event, Ready)).state.pairs
        assert planned > len(results.runs) / 2 == pairs


def test_an_interrupted_measurement_has_no_verdict_whatever_its_pairs_show(world):
    results, _ = world(FakeRunner({"baseline": stopped_at(6)}), pairs=6)
    assert results.interrupted
    assert (results.comparison.verdict, results.comparison.pairs) == ("none", 5)
    assert results.comparison.speedup is None
    assert "interrupted after 5 of 6 pairs" in results.comparison.statement


@pytest.mark.thorough
@pytest.mark.promise(1, injected="the end of tfopt in each group of a measurement, simulated")
@pytest.mark.parametrize(
    "plan", [{"pairs": 4}, {"pairs": 4, "plugins": ("p", "q"), "attribution": "leave-one-out"}],
    ids=["pairs", "attribution"],
)  # fmt: skip
def test_killed_in_each_group_a_measurement_ends_with_the_verdict_of_an_undisturbed_one(
    world, plan
):
    whole, _ = world(Mortal(), **plan)
    sides = len(whole.runs) // 4
    kills, results = 0, None
    while results is None:
        try:
            results, _ = world(Mortal(lasts=sides + 1), **plan, resuming=kills > 0)
        except Killed:
            kills += 1
    assert kills == 3
    assert [(run.round, run.variant, run.seed, run.wall_seconds) for run in results.runs] == [
        (run.round, run.variant, run.seed, run.wall_seconds) for run in whole.runs
    ]
    assert results.comparison.statement == whole.comparison.statement
    assert attrs.evolve(results.comparison, run_ids=whole.comparison.run_ids) == whole.comparison
    assert [row.statement for row in results.attribution] == [
        row.statement for row in whole.attribution
    ]


def test_a_run_that_fails_beside_another_one_is_made_alone_and_so_are_all_that_follow(world):
    def beside(task):
        return "address already in use" if task.in_turns else 8.0

    runner = FakeRunner({"full": beside})
    results, events = world(runner, pairs=4)
    assert (results.comparison.verdict, results.comparison.pairs) == ("faster", 4)
    assert not results.failed
    said = '"full" failed beside another run (address already in use), so runs are made one'
    assert any(said in warning for warning in results.warnings)
    assert any(said in event.text for event in events if isinstance(event, Noted))
    runs = [task for task in runner.tasks if isinstance(task, RunTask)]
    assert sum(task.in_turns for task in runs) == 2
    assert not any(task.in_turns for task in runs[2:])
    # both sides of the first pair are made anew
    assert len(runs) == 2 + 8


@pytest.mark.parametrize(
    ("training_seconds", "steps", "batches"),
    [
        (2.0, 100, None), (20.0, 100, 50), (2000.0, 100, 10), (2000.0, 9, None),
        (None, 1000, 100), (None, 50, None), (None, None, 100),
    ],
)  # fmt: skip
def test_long_epochs_are_cut_down_for_the_certificate(training_seconds, steps, batches):
    prepared: Any = SimpleNamespace(
        training_seconds=training_seconds, epochs=5, steps_per_epoch=steps
    )
    assert most_batches(prepared) == batches


def test_memory_is_measured_one_run_after_the_other(world):
    runner = FakeRunner({"full": 10.0}, noise=0.2)
    results, _ = world(runner, objective="memory", pairs=4)
    assert not any(task.in_turns for task in runner.tasks if isinstance(task, RunTask))
    assert results.comparison.headline.startswith("peak memory about the same")
    assert world.store.results(results.id) == results
