"""Each reason not to compare: measurements that give it, and the like that must not."""

from __future__ import annotations

import attrs
import pytest
from support.measure_across import BASE, ENVIRONMENT, MACHINE, RECIPE, make_measured
from support.measure_runs import make_fit, make_judgement, make_pairs, make_run

from tfopt_core.errors import NotComparable
from tfopt_core.recipe import TargetSpec
from tfopt_core.records.verdict import ComparisonKind, Verdict
from tfopt_core.statistics.across import _refusals, compare_stacks

FAST = (8.0, 8.1, 7.95, 8.02)
A = make_measured("a", FAST)
PROJECTED = {"kind": ComparisonKind.STEADY}
OTHER_BASELINE = make_measured("b", FAST, described="x")


def workload(**changes):
    return {"workload": {**RECIPE["workload"], **changes}}


def machine(**changes):
    return make_measured("b", FAST, machine={**MACHINE, **changes})


def environment(**changes):
    return make_measured("b", FAST, environment={**ENVIRONMENT, **changes})


def with_fits(**changes):
    runs = [attrs.evolve(run, fits=(make_fit(**changes),)) for run in make_pairs(BASE, FAST)]
    return make_measured("b", FAST, runs=runs)


def refusals(a, b):
    return tuple(_refusals(a, b))


@pytest.mark.parametrize(
    ("b", "reason"),
    [
        (A, 'the same measurement twice ("a")'),
        (machine(cpu_model="other"), 'the CPU is "cpu" in A and "other" in B'),
        (machine(cpu_count=4), "the number of usable CPUs is 2 in A and 4 in B"),
        (machine(memory_bytes=16 * 2**30), "the memory in GiB is 8.0 in A and 16.0 in B"),
        (machine(gpus=[{"name": "T4"}]), 'the list of GPUs is none in A and "T4" in B'),
        (make_measured("b", FAST, workload="v"), 'the workload is "w" in A and "v" in B'),
        (make_measured("b", FAST, workload="x"), 'the workload is "w" in A and "x" in B'),
        (OTHER_BASELINE, "the baseline is"),
        (make_measured("b", FAST, recipe=workload(options={})), "the workload's options is"),
        (make_measured("b", FAST, recipe=workload(options={"classes": 6})), "s options is"),
        (make_measured("b", FAST, recipe=workload(epochs=3)), "epochs is 2 in A and 3 in B"),
        (make_measured("b", FAST, recipe=workload(batch_size=64)), "batch_size is 32 in A and 64"),
        (make_measured("b", FAST, recipe=workload(batch_size=8)), "batch_size is 32 in A and 8"),
        (with_fits(epochs=3), "epochs of the baseline's trainings is 2 in A and 3 in B"),
        (with_fits(steps=99), "steps of the baseline's trainings is 100 in A and 99 in B"),
        (with_fits(trainable_parameters=11), "trainable_parameters of the baseline's trainings"),
        (environment(tensorflow="2.22.0"), 'tensorflow is "2.21.0" in A and "2.22.0" in B'),
        (environment(python="3.13.0"), "the environment's python is"),
        (environment(OMP_NUM_THREADS="1"), 'OMP_NUM_THREADS is "2" in A and "1" in B'),
        (environment(XLA_FLAGS="--x"), 'the environment\'s XLA_FLAGS is not given in A and "--x"'),
        (make_measured("b", FAST, comparison=PROJECTED), "the kind of comparison is"),
        (make_measured("b", FAST[:3], BASE[:3]), "B has no verdict to compare (no verdict: 3"),
        (make_measured("b", FAST, fit={"applied": False}), "B has no verdict to compare (not app"),
        (make_measured("b", BASE), "B has no verdict to compare (no verdict: suspiciously"),
        (make_measured("b", FAST, comparison={"run_ids": ("full 0",)}), "B has 0 valid pairs"),
    ],
)  # fmt: skip
def test_what_says_nothing_of_the_other_is_refused(b, reason):
    reasons = refusals(A, b)
    assert len(reasons) == 1
    assert reason in reasons[0]


@pytest.mark.parametrize(
    "b",
    [
        make_measured("b", FAST),
        make_measured("b", FAST, recipe_sha256="a"),
        make_measured("b", FAST, recipe={}),
        make_measured("b", FAST, recipe={"workload": {"use": "w", "options": {"classes": 5}}}),
        make_measured("b", FAST, recipe={**RECIPE, "name": "other", "plugins": [{"use": "q"}]}),
        make_measured("b", FAST, judgement=make_judgement(sequential=True)),
        make_measured("b", FAST, target="val_accuracy >= 0.9"),
        make_measured("b", FAST, interrupted=True),
        make_measured("b", FAST, comparison={"quality": None}),
        machine(memory_bytes=int(8.3 * 2**30)),
        machine(system="Linux 7"),
    ],
)
def test_what_does_not_matter_is_no_reason(b):
    assert refusals(A, b) == ()


def test_a_failed_run_with_the_stack_is_a_reason_and_one_of_the_baseline_is_none():
    runs = make_pairs((*BASE, 10.0), (*FAST, 8.0))
    claimed = {"verdict": Verdict.FASTER, "statement": "faster"}
    for variant, expected in (("full", ("B has 1 failed runs with the stack",)), ("baseline", ())):
        b = make_measured("b", FAST, runs=[*runs, make_run(variant, 5, 9.0, status="failed")],
                          comparison=claimed)  # fmt: skip
        assert tuple(reason.partition(",")[0] for reason in refusals(A, b)) == expected


def to_target(id_, target, seconds=4.0):
    judgement = make_judgement(math="changes", target=TargetSpec("val_accuracy", at_least=0.9))
    runs = [
        attrs.evolve(run, fits=(make_fit(seconds_to_target=run.wall_seconds / 2 + seconds),))
        for run in make_pairs(BASE, FAST)
    ]
    return make_measured(id_, FAST, runs=runs, judgement=judgement, target=target)


def test_times_to_other_targets_are_not_compared():
    a, b = to_target("a", "val_accuracy >= 0.9"), to_target("b", "val_accuracy >= 0.8")
    [reason] = refusals(a, b)
    assert "the target is" in reason
    assert refusals(a, to_target("b", "val_accuracy >= 0.9")) == ()


def test_a_void_measurement_is_refused():
    runs = [
        attrs.evolve(run, fits=(make_fit(seconds_to_target=None),))
        for run in make_pairs(BASE, FAST)
    ]
    void = make_measured("b", FAST, runs=runs, judgement=make_judgement(math="changes"))
    assert "B has no verdict to compare (void" in refusals(to_target("a", None), void)[0]


def test_a_json_file_without_a_wall_time_is_refused():
    runs = [attrs.evolve(run, wall_seconds=None) for run in A.results.runs]
    b = make_measured("b", FAST)
    b = attrs.evolve(b, results=attrs.evolve(b.results, runs=tuple(runs)))
    assert refusals(A, b) == ("B cannot be judged again: runs have no wall time",)


def test_a_run_that_was_cut_short_needs_its_projected_time():
    fit = make_fit(complete=False, projected_seconds=None)
    runs = [attrs.evolve(run, fits=(fit,)) for run in A.results.runs]
    sides = [make_measured(id_, FAST, comparison=PROJECTED) for id_ in "ab"]
    b = attrs.evolve(sides[1], results=attrs.evolve(sides[1].results, runs=tuple(runs)))
    assert refusals(sides[0], b) == ("B cannot be judged again: runs have no projected time",)


def test_all_reasons_are_told_at_once_and_each_names_both():
    b = machine(cpu_count=4)
    b = attrs.evolve(b, results=attrs.evolve(b.results, workload="v"))
    with pytest.raises(NotComparable) as caught:
        compare_stacks(A, b)
    assert len(caught.value.reasons) == 2
    lines = str(caught.value).splitlines()
    assert all(line.startswith('A ("a") and B ("b") cannot be compared: ') for line in lines)
    assert caught.value.exit_code == 2


def test_what_is_read_from_two_files_is_the_same_if_it_is_equal():
    words = ["".join(("of the", " workload")) for _ in range(2)]
    assert words[0] is not words[1]
    a, b = (
        make_measured(id_, FAST, workload=word, described=word, machine={**MACHINE, "gpus": [word]})
        for id_, word in zip("ab", words, strict=True)
    )
    assert refusals(a, b) == ()


def test_a_figure_is_that_of_whole_trainings_and_parameters_are_those_of_any():
    def cut(whole=2, **changes):
        runs = with_fits(epochs=whole).results.runs
        fit = make_fit(complete=False, projected_seconds=10.0, **changes)
        # one baseline of each is cut short: its epochs are not those of a training
        runs = [attrs.evolve(run, fits=(fit,)) if run.id == "baseline 3" else run for run in runs]
        return make_measured("b", FAST, runs=runs)

    assert refusals(A, cut(epochs=1, steps=3)) == ()
    [said] = refusals(A, cut(whole=3, epochs=1, steps=3))
    assert "epochs of the baseline's trainings is 2 in A and 3 in B" in said
    # varying ones are unknown, and nothing is compared with them
    assert refusals(A, cut(trainable_parameters=99)) == ()


def test_a_measurement_without_any_spread_is_refused():
    same = make_measured("b", [base / 2 for base in BASE], comparison={
        "verdict": Verdict.FASTER, "statement": "faster", "speedup": 2.0,
    })  # fmt: skip
    assert refusals(A, same) == ("B has the same ratio in each pair, which no measurement has",)
