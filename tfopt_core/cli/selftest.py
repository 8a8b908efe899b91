"""`tfopt selftest`: can figures from this machine be trusted?"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import rich_click as click

from tfopt_core.cli.options import debug_option
from tfopt_core.errors import InputError


@click.command()
@click.option("--times", default=1, metavar="N", help="Repeat both controls N times, and count.")
@click.option("--quiet", "-q", is_flag=True, help="Print the outcome only, no progress.")
@debug_option
def selftest(times: int, quiet: bool, debug: bool) -> int:
    """See whether measuring tells a no-op from a loss here.

    Measures two controls: a plugin that does nothing, which must come out neither faster nor
    slower, and one that sleeps 5% of each step, which must come out slower. Takes some three
    minutes. Ends with status 1 if a control failed; the no-op does so by chance in one of twenty.
    """
    from tfopt_core.app.command_request import new_id
    from tfopt_core.hooks import read_machine
    from tfopt_core.measurement.selftest import ControlTrial, controls, run_trial
    from tfopt_core.report.live.display import make_observer
    from tfopt_core.report.results.selftest import render_selftest
    from tfopt_core.report.style.console import make_console
    from tfopt_core.training.runtime import check_environment
    from tfopt_core.workers.fork import ForkRunner

    if times < 1:
        raise InputError(f"--times: expected a number of at least 1, got {times}")
    check_environment(os.environ)
    trials: list[ControlTrial] = []
    machine = read_machine()
    try:
        with (
            tempfile.TemporaryDirectory(prefix="tfopt-selftest-") as folder,
            ForkRunner() as runner,
        ):
            for _ in range(times):
                for control in controls():
                    with make_observer(make_console(stderr=True), quiet=quiet) as observer:
                        trial = run_trial(
                            control, machine=machine, folder=Path(folder), runner=runner,
                            environment=os.environ, observer=observer, new_id=new_id,
                        )  # fmt: skip
                    if trial.results.interrupted:
                        raise KeyboardInterrupt
                    trials.append(trial)
    finally:
        if trials:
            make_console().print(render_selftest(trials))
    return 0 if all(trial.as_expected for trial in trials) else 1
