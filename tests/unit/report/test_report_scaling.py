"""What is printed of a stack over several replicas."""

from __future__ import annotations

import attrs
from report_results import make_comparison, make_results, make_run, show

from tfopt_core.report.summary import render_summary
from tfopt_core.store.results import Scaling

SCALING = Scaling(
    replicas=2, baseline_replicas=1, workers=2, plugin=None, speedup=1.24, efficiency=0.62,
    step_seconds=0.012, communication_step_seconds=0.0031, communication_share=0.2583,
)  # fmt: skip


def page(results=None, **changes):
    results = results or make_results(resolved={"spread": {}})
    return show(render_summary(attrs.evolve(results, scaling=attrs.evolve(SCALING, **changes))))


def flowing(text):
    return " ".join(text.split())


def test_efficiency_and_communication_are_told():
    text = flowing(page())
    assert "scaling efficiency: 62% of 2 replicas (1.24x of 2x)" in text
    assert "communication: 3.10 ms of a step's 12.0 ms (26%), timed alone" in text
    assert "slower than one device" not in text


def test_a_stack_on_one_device_has_no_such_section():
    assert "Scaling" not in show(render_summary(make_results()))


def test_the_figure_of_a_whole_stack_says_so():
    assert "all plugins of the stack together" in flowing(page(make_results()))
    assert "all plugins" not in flowing(page(make_results(), plugin="spread"))


def test_a_loss_is_explained_by_what_is_shared_and_by_communication():
    text = flowing(page(speedup=0.8, efficiency=0.4))
    assert "slower than one device: both workers share the 2 CPUs of this machine" in text
    assert "communication took 26% of a step" in text


def test_a_loss_that_is_paid_once_says_so():
    runs = []
    for number in range(8):
        stacked = number % 2 == 1
        run = make_run(number, "full" if stacked else "baseline")
        # 3 s are lost, 2 s of them once
        fit = attrs.evolve(run.fit, one_time_seconds=2.5 if stacked else 0.5)
        runs.append(attrs.evolve(run, wall_seconds=13.0 if stacked else 10.0, fits=(fit,)))
    results = make_results(runs=tuple(runs), resolved={"spread": {}})
    assert "one-time cost is 67% of the time lost" in flowing(page(results, speedup=0.77))
    assert "one-time cost is" not in flowing(page(results, speedup=1.2))


def test_a_loss_on_gpus_enough_for_all_is_not_blamed_on_sharing():
    results = make_results(
        machine={"cpu_count": 8, "gpus": [{"name": "G"}, {"name": "G"}]}, resolved={"spread": {}}
    )
    text = flowing(page(results, speedup=0.9, efficiency=0.45))
    assert "slower than one device: communication took 26% of a step" in text
    assert "share" not in text.partition("slower than one device")[2].partition("runs in")[0]


def test_a_loss_without_any_figure_invents_no_reason():
    results = make_results(machine={"gpus": [{"name": "G"}] * 2}, resolved={"spread": {}})
    text = flowing(
        page(
            results, speedup=0.9, efficiency=0.45, communication_step_seconds=None,
            communication_share=None,
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
