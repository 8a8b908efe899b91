"""Make the equivalence certificate of a stack: two processes replay the same short training."""

from __future__ import annotations

import shutil

from tfopt_core.hooks.card import math_of
from tfopt_core.measurement.schedule import baseline_and_full
from tfopt_core.statistics.certificate import Certificate, certify, impossible
from tfopt_core.statistics.judgement import stack_math
from tfopt_core.trials.processes import Processes

__all__ = ["Certificate", "certify", "replay_both"]


def replay_both(processes: Processes, *, seed: int) -> Certificate | None:
    """Replay a short training without and with the resolved stack, untimed, and compare.

    A replay that fails is no error of the measurement: the certificate then says why nothing is
    certified.

    :param seed: of both sides.
    :returns: None for a stack that changes the algorithm, which trains something else by intention.
    """
    plugins = processes.request.plugins
    math = stack_math([math_of(stacked.name, stacked.plugin) for stacked in plugins])
    if math == "changes" or not plugins:
        return None
    shared = processes.request.folder / "replay" / "shared"
    shutil.rmtree(shared, ignore_errors=True)
    baseline, full = baseline_and_full(plugins)
    try:
        without = processes.replay(baseline, seed, shared)
        if isinstance(without, str):
            return impossible(f"the replay without the stack failed: {_one_line(without)}")
        with_ = processes.replay(full, seed, shared)
        if isinstance(with_, str):
            return impossible(f"the replay with the stack failed: {_one_line(with_)}")
    finally:
        shutil.rmtree(shared, ignore_errors=True)
    return certify(math, without, with_)


def _one_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip()), "no cause is known")
