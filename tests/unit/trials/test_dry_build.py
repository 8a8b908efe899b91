"""What a dry build does with resolved settings, and which metrics it must find."""

import attrs
import pytest
from support.in_process import job_here
from support.measure_runs import make_request
from support.report_results import make_prepared
from tfopt_data.prefetch import Prefetch

from tfopt_core.errors import RecipeError
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.hooks.values import Change
from tfopt_core.trials import dry_build
from tfopt_core.trials.dry_build import _with_resolved
from tfopt_core.trials.processes import check_metrics


def test_the_runtime_is_asked_for_again_only_where_settings_are_others_now(monkeypatch, tmp_path):
    # the process was started with what the hooks set before, which they would read there
    before, again = (Change("prefetch", "configure_runtime", None, name) for name in ("a", "b"))
    job = job_here(Prefetch(buffer_size=2), folder=tmp_path)
    job = attrs.evolve(job, runtime_changes=(before,))
    monkeypatch.setattr(dry_build, "configured_runtime", lambda *given: (None, (again,)))
    assert _with_resolved(job, job.plugins).runtime_changes == (before,)
    other = (StackedPlugin("prefetch", Prefetch(buffer_size=3)),)
    assert _with_resolved(job, other).runtime_changes == (again,)


def test_a_metric_is_judged_by_if_it_is_known_to_be_better_high_or_low():
    request, unknown = make_request(), {"quality_direction": None}
    # a script whose metrics nobody knows trains without one
    check_metrics(request, make_prepared(quality_metric="", **unknown))
    with pytest.raises(RecipeError, match='whether "val_accuracy" is better high or low is not'):
        check_metrics(request, make_prepared(**unknown))
