"""`tfopt doctor` and `tfopt selftest`: check this machine, and what its timings are worth."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import rich_click as click

from tfopt_core.commands import options as shared
from tfopt_core.commands.output import ReportFiles
from tfopt_core.report.style.console import make_console


@click.command()
@shared.report_option()
@shared.debug_option
def doctor(files: ReportFiles, debug: bool) -> int:
    """Check this machine: Python, TensorFlow, CPU, GPUs, memory, data sets.

    Lists the private members of TensorFlow and Keras that tfopt uses but that are missing, with the
    features that need them. Ends with status 1 if something is missing that training needs.
    """
    from tfopt_core.commands.doctor import examine
    from tfopt_core.report.listing import render_doctor

    findings = examine()
    ok = all(finding.ok is not False for finding in findings)
    files.show_list(render_doctor(findings), ok=ok, findings=findings)
    return 0 if ok else 1


@click.command()
@click.option(
    "--times", default=1, type=click.IntRange(min=1), metavar="N",
    help="Repeat both controls N times.",
)  # fmt: skip
@click.option("--quiet", "-q", is_flag=True, help="Print the result only, no progress.")
@shared.debug_option
def selftest(times: int, quiet: bool, debug: bool) -> int:
    """Check whether measurements on this machine tell a no-op from a slowdown.

    Measures two controls: a plugin that does nothing, which must be neither faster nor slower, and
    one that sleeps 5% of each step, which must be slower. Takes about three minutes. Ends with
    status 1 if a control failed; the no-op fails by chance in one of twenty selftests.
    """
    from tfopt_core.commands.request import new_id
    from tfopt_core.hooks.machine import read_machine
    from tfopt_core.measurement.selftest import CONTROLS, ControlTrial, run_trial
    from tfopt_core.report.live import MeasurementView
    from tfopt_core.report.results.selftest import render_selftest
    from tfopt_core.training.runtime import check_environment
    from tfopt_core.workers.fork import ForkRunner

    check_environment(os.environ)
    machine, console = read_machine(), make_console(stderr=True, quiet=quiet)
    trials: list[ControlTrial] = []
    try:
        with tempfile.TemporaryDirectory(prefix="tfopt-selftest-") as folder, ForkRunner() as fork:
            for control in [*CONTROLS] * times:
                with MeasurementView(console) as observer:
                    trial = run_trial(
                        control, machine=machine, folder=Path(folder), runner=fork,
                        environment=os.environ, observer=observer, new_id=new_id,
                    )  # fmt: skip
                if trial.results.interrupted:
                    raise KeyboardInterrupt
                trials.append(trial)
    finally:
        if trials:
            make_console().print(render_selftest(trials))
    return 0 if all(trial.as_expected for trial in trials) else 1
