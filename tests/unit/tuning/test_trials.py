"""One trial with a runner that only pretends: its pairs, its failures, and what they are called."""

import math

import attrs
import pytest
from support.in_process import ended_with
from support.measure_runs import make_outcome
from support.simulated_search import make_tune, plugin
from support.simulated_settings import prepared

from tfopt_core.hooks.machine import Gpu
from tfopt_core.hooks.values import Effect
from tfopt_core.recipe.model import MeasureSpec, Recipe, TargetSpec, WorkloadSpec
from tfopt_core.testing import make_machine
from tfopt_core.training.messages import RunReport
from tfopt_core.tuning.results import StackTrial, TrialOutcome
from tfopt_core.tuning.search_log import SearchLog
from tfopt_core.tuning.trials import TrialMaker, decided, with_figures
from tfopt_core.workers.task import Failure, PrepareTask

OUT_OF_MEMORY = Failure(error="E", message="raised MemoryError", exit_code=3, out_of_memory=True)
FAILED = Failure(error="E", message="raised ValueError", exit_code=3)
FULL = Failure(error="E", message="the device has no room", exit_code=3, out_of_memory=True)
NO_SUCH_DATA = Failure(
    error="WorkloadError", message="the factory raised", exit_code=2, out_of_memory=True
)
OF_MEMORY = Failure(error="E", message='no layer is named "out of memory"', exit_code=3)
REFUSED = Failure(error="InputError", message="no place for a cache", exit_code=2)


class Pretends:
    """Answers at once; `walls` are the seconds of the runs without and with a plugin, or a
    failure; `applied` says of which plugins take effect, True of all; `beside` is the failure of a
    run beside another one; `reaches` says which sides reach a target; `math` is that of all
    plugins."""

    def __init__(
        self, without=10.0, with_=5.0, applied=True, prepares=None, beside=None,
        reaches=(True, True), equivalence="exact",
    ):  # fmt: skip
        self.reaches, self.equivalence = reaches, equivalence
        self.walls, self.applied, self.prepares = (without, with_), applied, prepares
        self.beside, self.runs, self.in_turns = beside, [], []

    def __call__(self, task, environment, tell):
        if isinstance(task, PrepareTask):
            return ended_with(self.prepares or prepared(task, self.equivalence))
        self.runs.append((task.job.variant, task.job.seed))
        self.in_turns.append(task.in_turns)
        if task.in_turns and self.beside is not None:
            return ended_with(self.beside)
        wall = self.walls[bool(task.job.plugins)]
        if isinstance(wall, Failure):
            return ended_with(wall)
        # timings differ a little from run to run
        wall *= 1 + 0.001 * len(self.runs)
        applied = self.applied if isinstance(self.applied, dict) else {}
        effects = {
            one.name: Effect(applied.get(one.name, self.applied is True), "why")
            for one in task.job.plugins
        }
        last = 0.9 if self.reaches[bool(task.job.plugins)] else 0.2
        history = {"val_accuracy": (0.1, last)}
        return ended_with(
            RunReport(
                wall_seconds=wall, peak_rss_bytes=int(wall * 1000), effects=effects,
                fits=(make_outcome(wall_seconds=wall, history=history),),
            )
        )  # fmt: skip


@pytest.fixture
def trial_of(tmp_path):
    def go(runner, objective="time", machine=None, joined_by=(), action="add", **settings):
        measured = MeasureSpec(target=TargetSpec(metric="val_accuracy", at_least=0.8))
        recipe = Recipe(name="r", workload=WorkloadSpec(use="flights"), measure=measured)
        tune = make_tune(
            tmp_path, recipe=recipe, objective=objective, runner=runner, trial_runner=runner
        )
        if machine is not None:
            tune.request = attrs.evolve(tune.request, machine=machine)
        tune.log = SearchLog.open(tmp_path / "search", "here", {})
        trials = TrialMaker(tune=tune)
        plan = StackTrial(
            action=action, plugin="cache", joined_by=joined_by, without=(),
            stack=(plugin("cache", **settings), *(plugin(one) for one in joined_by)),
        )  # fmt: skip
        return trials(plan)

    return go


def test_pairs_share_a_seed_and_decide(trial_of):
    runner = Pretends()
    trial = trial_of(runner)
    assert trial.outcome is TrialOutcome.IN
    assert trial.ratio == pytest.approx(2.0, rel=0.01)
    assert trial.pairs == 2
    # settings as they were resolved
    assert trial.stack[0].settings["storage"]
    first, second = runner.runs[:2], runner.runs[2:]
    assert [{seed for _, seed in pair} for pair in (first, second)] == [
        {first[0][1]}, {second[0][1]}
    ]  # fmt: skip
    # ABBA or BAAB
    assert [variant for variant, _ in first] == [variant for variant, _ in reversed(second)]


@pytest.mark.promise(52, injected="a dry build and runs that end for want of memory")
@pytest.mark.parametrize(
    ("how", "ends"),
    [
        ({"with_": OUT_OF_MEMORY}, TrialOutcome.OUT_OF_MEMORY),
        ({"with_": FAILED}, TrialOutcome.FAILED),
        ({"without": OUT_OF_MEMORY}, TrialOutcome.IN),
        ({"applied": False}, TrialOutcome.NOT_APPLIED),
        ({"prepares": REFUSED}, TrialOutcome.REFUSED),
        ({"prepares": OUT_OF_MEMORY}, TrialOutcome.OUT_OF_MEMORY),
        ({"prepares": FULL}, TrialOutcome.OUT_OF_MEMORY),
        ({"prepares": NO_SUCH_DATA}, TrialOutcome.OUT_OF_MEMORY),
        ({"prepares": OF_MEMORY}, TrialOutcome.FAILED),
        ({"with_": 20.0}, TrialOutcome.WORSE),
    ],
)
def test_each_failure_is_an_outcome_with_a_reason(how, ends, trial_of):
    trial = trial_of(Pretends(**how))
    assert trial.outcome is ends
    assert trial.reason


def test_of_several_plugins_those_without_effect_are_left_out_with_the_reason(trial_of):
    runner = Pretends(applied={"cache": False, "autotune": True})
    trial = trial_of(runner, joined_by=("prefetch", "autotune"))
    assert trial.outcome is TrialOutcome.IN
    assert trial.left_out == {"cache": "why", "prefetch": "why"}
    assert (trial.plugins, [one.name for one in trial.stack]) == (("autotune",), ["autotune"])


def test_a_wrong_setting_is_refused_before_a_process_starts(trial_of):
    runner = Pretends()
    trial = trial_of(runner, storage="moon")
    assert trial.outcome is TrialOutcome.REFUSED
    assert runner.runs == []


def test_for_memory_the_peaks_are_compared(trial_of):
    trial = trial_of(Pretends(without=10.0, with_=2.5), objective="memory")
    assert trial.ratio == pytest.approx(4.0, rel=0.01)


@pytest.mark.parametrize(
    ("reaches", "action", "ends"),
    [
        ((True, False), "add", TrialOutcome.WORSE),
        ((True, False), "drop", TrialOutcome.DROPPED),
        ((False, True), "add", TrialOutcome.IN),
        ((False, False), "add", TrialOutcome.FAILED),
    ],
)
def test_a_stack_that_trains_fast_and_never_reaches_the_target_does_not_go_in(
    reaches, action, ends, trial_of
):
    trial = trial_of(Pretends(reaches=reaches), objective="time-to-target", action=action)
    assert trial.outcome is ends
    assert ("reached the target" in trial.reason) is (ends is not TrialOutcome.IN)


def test_by_time_a_plugin_that_changes_the_training_by_its_own_settings_is_refused(trial_of):
    runner = Pretends(equivalence="changes")
    trial = trial_of(runner)
    assert trial.outcome is TrialOutcome.REFUSED
    assert trial.reason == 'cache changes the training, which "time" may not'
    assert runner.runs == []
    assert trial_of(runner, objective="time-to-target").outcome is TrialOutcome.IN


def test_the_sides_of_a_pair_take_turns_where_their_times_are_compared(trial_of):
    in_turns, for_memory, on_gpu = Pretends(), Pretends(), Pretends()
    trial_of(in_turns)
    trial_of(on_gpu, machine=make_machine(gpus=(Gpu("GPU", (9, 0), 2**36),)))
    assert all(in_turns.in_turns + on_gpu.in_turns)
    trial_of(for_memory, objective="memory")
    assert not any(for_memory.in_turns)


@pytest.mark.promise(52, injected="runs for which memory is enough only where they are alone")
def test_a_failure_beside_another_process_is_none_where_the_run_succeeds_alone(trial_of):
    runner = Pretends(beside=OUT_OF_MEMORY)
    trial = trial_of(runner)
    assert trial.outcome is TrialOutcome.IN
    assert trial.pairs == 2
    assert runner.in_turns == [True, True, False, False, False, False]


def logs(*ratios):
    return [math.log(ratio) for ratio in ratios]


def outcome_of(action, *ratios):
    ended = decided(StackTrial(action=action, plugin="a", stack=(), without=()), logs(*ratios))
    return None if ended is None else ended.outcome


@pytest.mark.parametrize(
    ("ratios", "outcome"),
    [
        ((0.5,), TrialOutcome.WORSE),
        ((1.4,), None),
        ((1.4, 1.3), TrialOutcome.IN),
        ((1.05, 0.99), TrialOutcome.NO_GAIN),
        ((1.06, 0.96), None),
        ((1.06, 0.96, 0.93, 1.0), TrialOutcome.NO_GAIN),
        ((1.1, 1.11, 1.09, 1.1), TrialOutcome.IN),
        ((1.6, 0.7, 1.6, 0.7, 1.6, 0.7), TrialOutcome.NO_GAIN),
        ((1.2, 0.98, 1.1, 0.99, 1.1, 1.1), TrialOutcome.IN),
    ],
)
def test_a_plugin_goes_in_if_its_pairs_agree_on_a_gain(ratios, outcome):
    assert outcome_of("add", *ratios) is outcome


@pytest.mark.parametrize(
    ("ratios", "outcome"),
    [
        ((0.5,), None),
        ((0.9, 0.95), TrialOutcome.DROPPED),
        ((1.3, 1.2), TrialOutcome.STAYS),
        ((1.01, 1.02), None),
        ((1.02, 1.02, 1.0, 1.01), TrialOutcome.STAYS),
        ((1.05, 0.98, 1.02, 1.0, 1.03, 0.99), TrialOutcome.DROPPED),
        ((1.6, 0.7, 1.6, 0.7, 1.6, 0.7), TrialOutcome.DROPPED),
        ((1.1, 1.11, 1.09, 1.1), TrialOutcome.STAYS),
    ],
)
def test_a_plugin_stays_only_if_it_is_missed(ratios, outcome):
    assert outcome_of("drop", *ratios) is outcome


def test_one_pair_has_no_interval():
    plan = StackTrial(action="add", plugin="a", stack=(), without=())
    one = with_figures(plan, logs(1.5))
    assert (one.low, one.high, one.confidence) == (None, None, None)
    two = with_figures(plan, logs(1.5, 1.4))
    assert two.low < two.ratio < two.high
    assert two.confidence == pytest.approx(0.8)
