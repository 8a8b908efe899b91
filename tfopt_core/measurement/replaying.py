"""Make the equivalence certificate of stacks: processes replay the same short training."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from tfopt_core.hooks.card import Equivalence, equivalence_of
from tfopt_core.measurement.schedule import baseline_and_full
from tfopt_core.records.variants import Variant
from tfopt_core.statistics.certificate import Certificate, certify, impossible
from tfopt_core.statistics.judgement import stack_equivalence
from tfopt_core.trials.processes import Processes

__all__ = ["Certificate", "certify", "replay_all", "replay_both"]


def replay_both(
    processes: Processes, *, seed: int, equivalence: Equivalence | None = None
) -> Certificate | None:
    """Replay a short training without and with the resolved stack, untimed, and compare.

    A replay that fails is no error of the measurement: the certificate then says why nothing is
    certified.

    :param seed: of both sides.
    :param equivalence: what the stack does to the mathematics here; None for what its plugins
        declare.
    :returns: None for a stack that changes the algorithm, which trains something else by intention.
    """
    plugins = processes.request.plugins
    if equivalence is None:
        equivalence = stack_equivalence(
            [equivalence_of(stacked.name, stacked.plugin) for stacked in plugins]
        )
    if not plugins:
        return None
    return replay_all(processes, [(baseline_and_full(plugins)[1], equivalence)], seed=seed)[0]


def replay_all(
    processes: Processes, stacks: Sequence[tuple[Variant, Equivalence]], *, seed: int
) -> list[Certificate | None]:
    """Replay a short training without plugins once, and with each of these stacks.

    :param stacks: each with what it does to the mathematics.
    :returns: for each stack what `replay_both` returns.
    """
    if all(equivalence == "changes" for _, equivalence in stacks):
        return [None for _ in stacks]
    shared = processes.request.folder / "replay" / "shared"
    shutil.rmtree(shared, ignore_errors=True)
    try:
        baseline = processes.replay(baseline_and_full(())[0], seed, shared)
        certificates: list[Certificate | None] = []
        for variant, equivalence in stacks:
            if equivalence == "changes":
                certificates.append(None)
            elif isinstance(baseline, str):
                why = f"the replay without the stack failed: {_one_line(baseline)}"
                certificates.append(impossible(why))
            else:
                replayed = processes.replay(variant, seed, shared)
                certificates.append(
                    impossible(f"the replay with the stack failed: {_one_line(replayed)}")
                    if isinstance(replayed, str)
                    else certify(equivalence, baseline, replayed)
                )
        return certificates
    finally:
        shutil.rmtree(shared, ignore_errors=True)


def _one_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip()), "no cause is known")
