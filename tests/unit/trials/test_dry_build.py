"""What a dry build does with resolved settings."""

import attrs
from support.in_process import job_here
from tfopt_data.prefetch import Prefetch

from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.hooks.values import Change
from tfopt_core.trials import dry_build
from tfopt_core.trials.dry_build import _with_resolved


def test_the_runtime_is_asked_for_again_only_where_settings_are_others_now(monkeypatch, tmp_path):
    # the process was started with what the hooks set before, which they would read there
    before, again = (Change("prefetch", "configure_runtime", None, name) for name in ("a", "b"))
    job = job_here(Prefetch(buffer_size=2), folder=tmp_path)
    job = attrs.evolve(job, runtime_changes=(before,))
    monkeypatch.setattr(dry_build, "configured_runtime", lambda *given: (None, (again,)))
    assert _with_resolved(job, job.plugins).runtime_changes == (before,)
    other = (StackedPlugin("prefetch", Prefetch(buffer_size=3)),)
    assert _with_resolved(job, other).runtime_changes == (again,)
