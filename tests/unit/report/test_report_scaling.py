"""What is printed of a stack over several replicas."""

from __future__ import annotations

import attrs
from support.report_results import make_comparison, make_results, make_run, show

from tfopt_core.records.results import Scaling
from tfopt_core.report.results.summary import render_summary

SCALING = Scaling(
    replicas=2, baseline_replicas=1, workers=2, plugin=None, speedup=1.24, efficiency=0.62,
    low=1.16, high=1.32, step_seconds=0.012, communication_step_seconds=0.0031,
    communication_share=0.2583,
)  # fmt: skip
SLOWER = {"speedup": 0.8, "low": 0.7, "high": 0.9, "efficiency": 0.4}


def page(results=None, **changes):
    results = results or make_results(resolved={"spread": {}})
    return show(render_summary(attrs.evolve(results, scaling=attrs.evolve(SCALING, **changes))))


def flowing(text):
    return " ".join(text.split())


def test_efficiency_and_communication_are_told():
    text = flowing(page())
    assert "scaling efficiency: 62% of 2 replicas (58 to 66%), 1.24x of 2x" in text
    assert (
        "communication: 3.10 ms, at most 26% of a step's 12.0 ms, an all-reduce timed alone" in text
    )
    assert "slower than one device" not in text


def test_without_a_measurable_difference_nothing_is_called_slower():
    text = flowing(page(speedup=0.99, low=0.97, high=1.01, efficiency=0.495))
    assert "scaling efficiency: 50% of 2 replicas (48 to 50%), 0.99x of 2x" in text
    assert "slower than one device" not in text


def test_without_an_interval_none_is_invented():
    text = flowing(page(speedup=0.8, efficiency=0.4, low=None, high=None))
    assert "scaling efficiency: 40% of 2 replicas, 0.80x of 2x" in text
    assert "slower than one device" not in text


def test_a_stack_on_one_device_has_no_such_section():
    assert "Scaling" not in show(render_summary(make_results()))


def test_the_figure_of_a_whole_stack_says_so():
    assert "all plugins of the stack together" in flowing(page(make_results()))
    assert "all plugins" not in flowing(page(make_results(), plugin="spread"))


def test_a_loss_is_explained_by_what_is_shared_and_by_communication():
    text = flowing(page(**SLOWER))
    assert "slower than one device: both workers share the 2 CPUs of this machine" in text
    assert "communication took at most 26% of a step, an all-reduce timed alone" in text


def test_a_loss_that_is_paid_once_says_so():
    runs = []
    for number in range(8):
        stacked = number % 2 == 1
        run = make_run(number, "full" if stacked else "baseline")
        # 3 s are lost, 2 s of them once
        fit = attrs.evolve(run.fit, one_time_seconds=2.5 if stacked else 0.5)
        runs.append(attrs.evolve(run, wall_seconds=13.0 if stacked else 10.0, fits=(fit,)))
    results = make_results(runs=tuple(runs), resolved={"spread": {}})
    assert "one-time cost is 67% of the time lost" in flowing(page(results, **SLOWER))
    assert "one-time cost is" not in flowing(page(results))


def test_a_loss_on_gpus_enough_for_all_is_not_blamed_on_sharing():
    results = make_results(
        machine={"cpu_count": 8, "gpus": [{"name": "G"}, {"name": "G"}]}, resolved={"spread": {}}
    )
    text = flowing(page(results, **SLOWER))
    assert "slower than one device: communication took at most 26% of a step" in text
    assert "share" not in text.partition("slower than one device")[2].partition("runs in")[0]


def test_a_loss_without_any_figure_invents_no_reason():
    results = make_results(machine={"gpus": [{"name": "G"}] * 2}, resolved={"spread": {}})
    text = flowing(
        page(
            results, **SLOWER, communication_step_seconds=None, communication_share=None
        )
    )  # fmt: skip
    assert "where the time went was not timed" in text


def test_memory_is_that_of_the_chief_where_several_processes_trained():
    runs = [
        attrs.evolve(run, fits=(attrs.evolve(run.fit, workers=2),))
        for run in (make_run(n, "full") for n in range(4))
    ]
    text = show(render_summary(make_results(runs=tuple(runs))))
    assert "peak memory, of the chief" in flowing(text)
    assert "of the chief" not in show(render_summary(make_results(comparison=make_comparison())))


def test_joining_a_cluster_is_a_row_of_its_own_without_a_ratio():
    runs = []
    for number in range(8):
        stacked = number % 2 == 1
        run = make_run(number, "full" if stacked else "baseline")
        fit = attrs.evolve(run.fit, cluster_seconds=3.25 if stacked else None)
        runs.append(attrs.evolve(run, fits=(fit,)))
    [line] = [
        line
        for line in show(render_summary(make_results(runs=tuple(runs)))).splitlines()
        if "joining the cluster" in line
    ]
    assert line.split()[3:] == ["-", "3.25", "s"]
    alone = show(render_summary(make_results()))
    assert "joining the cluster" not in alone
