"""What `tfopt diagnose` found, as plugins read it in `suggest(diagnosis)`. No TensorFlow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from tfopt_core.hooks.machine import Machine

# What a step's time is spent on; a plugin's `targets` name what it can take away of it.
PARTS = ("input", "dispatch", "compute")


@attrs.frozen(kw_only=True)
class Finding:
    """Something named that costs time: what it is, where it is, and what can be done.

    :param kind: a word that plugins may look for: "python-generator", "misplaced-cache",
        "retracing", "unbatched-map", "sequential-map", "tiny-batches", "control-flow",
        "repeated-subexpression", "no-prefetch", "layer-without-xla", ...
    :param split: the data it is about, None where it is about the model.
    :param place: `file.py:12`, "" where the trace does not say.
    """

    kind: str
    detail: str
    mend: str = ""
    split: str | None = None
    place: str = ""


@attrs.frozen(kw_only=True)
class Diagnosis:
    """Where a baseline's time goes on this machine.

    All seconds are medians of one steady step. `step_seconds` is the real loop's; of these
    `input_seconds` are waited for input, `dispatch_seconds` spent starting the step from Python,
    and `compute_seconds` computing; the three sum to `step_seconds`. `data_seconds` is what a
    batch takes when the data are read alone. `plans` are the baseline's data plans by split
    (`tfopt_core.DataPlan`); `example_bytes` is one training example behind the deterministic
    stages. `matmul_share` is the share of the machine's measured matrix-product peak that the
    model reaches, None where its operations cannot be counted. `steps_per_epoch`, `examples` and
    `batch_size` are None where unknown.
    """

    machine: Machine
    epochs: int
    steps_per_epoch: int | None
    batch_size: int | None
    examples: int | None
    step_seconds: float
    input_seconds: float
    dispatch_seconds: float
    compute_seconds: float
    data_seconds: float
    example_bytes: float | None
    available_memory_bytes: int
    trainable_parameters: int
    policy: str
    jit_compile: bool
    supports_jit: bool
    batch_callbacks: tuple[str, ...] = ()
    matmul_share: float | None = None
    plans: Mapping[str, Any] = attrs.field(factory=dict, repr=False)
    findings: tuple[Finding, ...] = ()

    def bound(self, targets: Iterable[str]) -> float:
        """The most that a plugin with these `targets` can gain: the speedup of a step if all of
        what they name took no time. Infinite where nothing else takes any.
        """
        seconds = {
            "input": self.input_seconds,
            "dispatch": self.dispatch_seconds,
            "compute": self.compute_seconds,
        }
        left = self.step_seconds - sum(seconds[part] for part in PARTS if part in set(targets))
        return self.step_seconds / left if left > 0 else float("inf")

    def found(self, kind: str, split: str | None = None) -> bool:
        """Whether there is a finding of this kind, about this split if one is given."""
        return any(
            finding.kind == kind and split in (None, finding.split) for finding in self.findings
        )
