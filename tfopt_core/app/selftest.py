"""Measure the two controls, as `tfopt selftest` does."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tfopt_core.app.command_request import new_id
from tfopt_core.errors import InputError
from tfopt_core.hooks import read_machine
from tfopt_core.measurement.selftest import ControlTrial, controls, run_trial
from tfopt_core.training.runtime import check_environment

if TYPE_CHECKING:
    from tfopt_core.app.view import View


def control_trials(times: int, view: View) -> Iterator[ControlTrial]:
    """Measure both controls `times` times, and yield each trial once it is done.

    :param view: shows the measurements.
    :raises InputError: if `times` is below 1.
    :raises KeyboardInterrupt: if a trial was interrupted.
    """
    from tfopt_core.workers.fork import ForkRunner

    if times < 1:
        raise InputError(f"--times: expected a number of at least 1, got {times}")
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
