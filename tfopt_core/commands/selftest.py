"""`tfopt selftest`: check whether measurements on this machine can be trusted."""

from __future__ import annotations

import rich_click as click

from tfopt_core.commands.options import debug_option


@click.command()
@click.option("--times", default=1, metavar="N", help="Repeat both controls N times.")
@click.option("--quiet", "-q", is_flag=True, help="Print the result only, no progress.")
@debug_option
def selftest(times: int, quiet: bool, debug: bool) -> int:
    """Check whether measurements on this machine tell a no-op from a loss.

    Measures two controls: a plugin that does nothing, which must be neither faster nor slower, and
    one that sleeps 5% of each step, which must be slower. Takes about three minutes. Ends with
    status 1 if a control failed; the no-op fails by chance in one of twenty selftests.
    """
    from tfopt_core.app.selftest import control_trials
    from tfopt_core.measurement.selftest import ControlTrial
    from tfopt_core.report.results.selftest import render_selftest
    from tfopt_core.report.style.console import make_console
    from tfopt_core.report.terminal import Terminal

    trials: list[ControlTrial] = []
    try:
        trials.extend(control_trials(times, Terminal(quiet=quiet)))
    finally:
        if trials:
            make_console().print(render_selftest(trials))
    return 0 if all(trial.as_expected for trial in trials) else 1
