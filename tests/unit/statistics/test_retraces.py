"""Traces of a step that cost time while it ran are counted, with their cause."""

from __future__ import annotations

from support.measure_runs import make_fit, make_run

from tfopt_core.records.run import StepTrace
from tfopt_core.statistics.fit_figures import retraced_runs

FIRST = StepTrace(steps=0, shapes="(8, 3)", cause="first")


def run(variant, round_, *traces):
    return make_run(variant, round_, 10.0, fit=make_fit(traces=traces))


def test_the_first_trace_is_no_retrace():
    assert retraced_runs([run("baseline", 0, FIRST), run("full", 0, FIRST, FIRST)]) == []


def test_traces_are_counted_by_variant_and_cause_with_the_mend():
    new = [StepTrace(steps=n, shapes=f"(8, {n})", cause="shapes") for n in (10, 20, 30)]
    again = StepTrace(steps=40, shapes="(8, 3)", cause="python")
    runs = [run("baseline", 0, FIRST), run("full", 0, FIRST), run("full", 1, FIRST, *new, again)]
    assert retraced_runs(runs) == [
        'in a run of "full" the step was traced again 3 times for new shapes: (8, 10); (8, 20); '
        "(8, 30); pad batches to few shapes, or leave the changing axis None in the signature",
        'in a run of "full" the step was traced again once for the same shapes: a Python value or '
        "the train function changed; keep what changes in a tf.Variable, and build the train "
        "function once",
    ]
