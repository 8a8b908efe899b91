"""`tfopt selftest`: check whether measurements on this machine can be trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from tfopt_core.commands.options import debug_option
from tfopt_core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tfopt_core.measurement.selftest import ControlTrial
    from tfopt_core.report.terminal import Terminal


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
    from tfopt_core.report.results.selftest import render_selftest
    from tfopt_core.report.style.console import make_console
    from tfopt_core.report.terminal import Terminal

    if times < 1:
        raise InputError(f"--times: expected a number of at least 1, got {times}")
    trials: list[ControlTrial] = []
    try:
        trials.extend(_control_trials(times, Terminal(quiet=quiet)))
    finally:
        if trials:
            make_console().print(render_selftest(trials))
    return 0 if all(trial.as_expected for trial in trials) else 1


def _control_trials(times: int, view: Terminal) -> Iterator[ControlTrial]:
    """Measure both controls so many times, and yield each trial once it is done.

    :raises KeyboardInterrupt: if a trial was interrupted.
    """
    import os
    import tempfile
    from pathlib import Path

    from tfopt_core.commands.request import new_id
    from tfopt_core.hooks import read_machine
    from tfopt_core.measurement.selftest import controls, run_trial
    from tfopt_core.training.runtime import check_environment
    from tfopt_core.workers.fork import ForkRunner

    check_environment(os.environ)
    machine = read_machine()
    with tempfile.TemporaryDirectory(prefix="tfopt-selftest-") as folder, ForkRunner() as runner:
        for _ in range(times):
            for control in controls():
                with view.measuring() as observer:
                    trial = run_trial(
                        control, machine=machine, folder=Path(folder), runner=runner,
                        environment=os.environ, observer=observer, new_id=new_id,
                    )  # fmt: skip
                if trial.results.interrupted:
                    raise KeyboardInterrupt
                yield trial
