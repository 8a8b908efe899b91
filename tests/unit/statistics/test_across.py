"""Statements on two stacks, and each reason not to compare: measurements that give it, and not."""

import math

import attrs
import pytest
from support.measure_across import BASE, ENVIRONMENT, MACHINE, make_measured
from support.measure_runs import make_fit, make_judgement, make_pairs, make_run, with_fits

from tfopt_core.errors import InputError
from tfopt_core.statistics.across import compare_stacks
from tfopt_core.statistics.results import ComparisonKind, Verdict

FAST = (8.0, 8.1, 7.95, 8.02)  # 1.25x
FASTER = (6.66, 6.75, 6.62, 6.68)  # 1.5x
AS_FAST = (8.01, 8.09, 7.93, 8.04)
NOISY = (6.5, 8.9, 7.0, 9.6)
PROJECTED = {"kind": ComparisonKind.STEADY}


def across(a=FAST, b=FASTER, **changes):
    return compare_stacks(make_measured("a", a), make_measured("b", b, **changes))


def test_faster_and_slower_need_the_whole_interval_on_one_side_of_one():
    there, back = across(), across(FASTER, FAST)
    assert (there.verdict, back.verdict) == ("faster", "slower")
    assert there.statement == (
        "B's stack is faster than A's: 1.20x (95% interval 1.19 to 1.21, 4 and 4 pairs, each "
        "against its own baseline)"
    )
    assert 1 < there.low < there.speedup < there.high
    assert back.statement.startswith("B's stack is slower than A's: 0.83x (95% interval")
    assert math.isclose(there.low * back.high, 1)
    assert across(b=NOISY).statement.startswith("inconclusive: which stack is faster cannot")


def test_no_difference_needs_the_interval_inside_the_band():
    found = across(b=AS_FAST)
    assert found.verdict == "no difference"
    assert found.statement.startswith(
        "no measurable difference between the stacks (within 5%): 1.00x"
    )


def test_each_side_counts_the_pairs_that_its_own_verdict_rests_on():
    assert "4 and 8 pairs" in across(b=FASTER * 2, baseline=BASE * 2).statement
    late = attrs.evolve(
        make_measured("b", FASTER), runs=tuple(make_pairs((*BASE, 10.0), (*FASTER, 99.0)))
    )
    assert compare_stacks(make_measured("a", FAST), late) == across()


def half_of_it(run):
    return run.wall_seconds / 2


def to_target(id_, walls):
    runs = with_fits(make_pairs(BASE, walls), seconds_to_target=half_of_it)
    return make_measured(id_, walls, runs=runs, judgement=make_judgement(equivalence="changes"))


def projected(id_, walls):
    pairs = make_pairs(BASE, walls)
    cut = with_fits(pairs, complete=False, projected_seconds=lambda run: run.wall_seconds)
    runs = [attrs.evolve(run, wall_seconds=1.0) for run in cut]
    return make_measured(id_, walls, runs=runs, comparison=PROJECTED)


@pytest.mark.parametrize(
    ("measured", "words"), [(to_target, "to the target"), (projected, "(projected)")]
)
def test_the_times_are_compared_that_the_own_verdicts_are_about(measured, words):
    found = compare_stacks(measured("a", FAST), measured("b", FASTER))
    assert found.statement.startswith(f"B's stack is faster than A's {words}: 1.20x")


def test_baselines_that_differ_are_pointed_out():
    found = across(b=[2 * seconds for seconds in FASTER], baseline=[2 * s for s in BASE])
    assert "; the baselines differ (median 10.03 s in A, 20.05 s in B)" in found.statement


# Each reason not to compare: measurements that give it, and the like that must not


CLAIMED = {"verdict": Verdict.FASTER, "statement": "faster", "speedup": 2.0}


def b_with(walls=AS_FAST, baseline=BASE, **changes):
    return make_measured("b", walls, baseline, **changes)


def machine(**changes):
    return b_with(machine={**MACHINE, **changes})


def environment(**changes):
    return b_with(environment={**ENVIRONMENT, **changes})


def of_fits(id_="b", **changes):
    return make_measured(id_, FAST, runs=with_fits(make_pairs(BASE, FAST), **changes))


def of_target(id_="b", target="val_accuracy >= 0.9", seconds=4.0):
    judgement = make_judgement(equivalence="changes")
    runs = with_fits(make_pairs(BASE, FAST), seconds_to_target=seconds and half_of_it)
    return make_measured(id_, FAST, runs=runs, judgement=judgement, target=target)


def with_runs(**changes):
    """The runs of a stored measurement, edited after it was judged."""
    b = b_with()
    return attrs.evolve(b, runs=tuple(attrs.evolve(run, **changes) for run in b.runs))


A = of_fits("a", planned_epochs=2, batch_size=32)


def refusals(a, b):
    try:
        compare_stacks(a, b)
    except InputError as error:
        heading = f'A ("{a.id}") and B ("{b.id}") cannot be compared: '
        return tuple(line.removeprefix(heading) for line in str(error).splitlines())
    return ()


@pytest.mark.parametrize(
    ("b", "reason"),
    [
        (A, "it is the same measurement twice"),
        (machine(cpu_model="other"), 'the CPU is "cpu" in A and "other" in B'),
        (machine(memory_bytes=16 * 2**30), "the memory in GiB is 8.0 in A and 16.0 in B"),
        (machine(gpus=[{"name": "T4"}]), 'the list of GPUs is [] in A and ["T4"] in B'),
        (b_with(workload={"options": {}}), 'options is {"classes": 5} in A and not given in B'),
        (b_with(workload={"args": ["--lr"]}), "the workload's args is not given in A"),
        (of_fits(planned_epochs=3), "planned_epochs of the baseline's trainings is 2 in A and 3"),
        (of_fits(batch_size=64), "batch_size of the baseline's trainings is 32 in A and 64 in B"),
        (of_fits(trainable_parameters=11), "trainable_parameters of the baseline's trainings"),
        (environment(tensorflow="2.22.0"), 'tensorflow is "2.21.0" in A and "2.22.0" in B'),
        (environment(XLA_FLAGS="--x"), "the environment's XLA_FLAGS is not given in A and \"--x\""),
        (b_with(comparison=PROJECTED), 'the kind of comparison is "end-to-end" in A and "steady"'),
        (b_with(FAST[:3], BASE[:3]), "B has no verdict to compare (no verdict: 3"),
        (b_with(fit={"applied": False}), "B has no verdict to compare (not app"),
        (b_with(BASE), "B has no verdict to compare (no verdict: suspiciously"),
        # files that were edited
        (b_with(comparison={"run_ids": ("full 0",)}), "B has 0 valid pairs, and it takes 4"),
        (with_runs(wall_seconds=math.inf), "B has the same ratio in each pair"),
        (b_with([base / 2 for base in BASE], comparison=CLAIMED), "B has the same ratio in each"),
    ],
)  # fmt: skip
def test_what_says_nothing_of_the_other_is_refused(b, reason):
    reasons = refusals(A, b)
    assert len(reasons) == 1
    assert reason in reasons[0]


@pytest.mark.parametrize(
    "b",
    [
        b_with(),
        b_with(recipe_sha256="a"),
        b_with(recipe_toml=""),
        b_with(workload={"epochs": 3}),  # the same training, if the baseline says so
        b_with(target="val_accuracy >= 0.9"),
        b_with(interrupted=True),
        machine(memory_bytes=int(8.3 * 2**30)),
        machine(system="Linux 7"),
    ],
)
def test_what_does_not_matter_is_no_reason(b):
    assert refusals(A, b) == ()


def test_a_failed_run_with_the_stack_is_a_reason_and_one_of_the_baseline_is_none():
    for variant, expected in (("full", ("B has 1 failed runs with the stack",)), ("baseline", ())):
        failed = make_run(variant, 5, 9.0, status="failed")
        b = b_with(runs=[*make_pairs(BASE, (12.0, 12.1, 11.95, 12.02)), failed])
        assert tuple(reason.partition(",")[0] for reason in refusals(A, b)) == expected


def test_times_to_a_target_need_the_same_target_and_two_that_reached_it():
    a = of_target("a")
    [reason] = refusals(a, of_target(target="val_accuracy >= 0.8"))
    assert "the target is" in reason
    assert refusals(a, of_target()) == ()
    assert "B has no verdict to compare (void" in refusals(a, of_target(seconds=None))[0]


def test_a_run_that_was_cut_short_needs_its_projected_time():
    cut = with_runs(fits=(make_fit(complete=False, projected_seconds=None),))
    b = attrs.evolve(cut, comparison=attrs.evolve(cut.comparison, **PROJECTED))
    assert refusals(attrs.evolve(b_with(comparison=PROJECTED), id="a"), b) == (
        "B has 0 valid pairs, and it takes 4",
    )


def test_all_reasons_are_told_at_once_and_each_names_both():
    b = b_with(
        machine={**MACHINE, "cpu_count": 4}, workload={"fit": 2}, comparison={"speedup": None}
    )
    with pytest.raises(InputError) as caught:
        compare_stacks(A, b)
    lines = str(caught.value).splitlines()
    assert len(lines) == 3
    assert all(line.startswith('A ("a") and B ("b") cannot be compared: ') for line in lines)
    assert caught.value.exit_code == 2


def test_a_figure_that_varies_among_the_baselines_runs_is_unknown():
    runs = list(of_fits(planned_epochs=2).runs)
    runs[0] = attrs.evolve(runs[0], fits=(make_fit(planned_epochs=3),))
    assert refusals(A, make_measured("b", FAST, runs=runs)) == ()


def test_a_recipe_that_is_no_toml_is_named():
    with pytest.raises(InputError, match='the recipe of "b" is damaged'):
        compare_stacks(A, b_with(recipe_toml="[workload"))
