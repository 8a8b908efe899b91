"""The findings of `tfopt diagnose`, as plugins read them in `suggest(diagnosis)`. No TensorFlow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

import attrs

from tfopt_core.hooks.machine import Machine

# The parts of a step's time: those of `Target` whose share a diagnosis measures.
PARTS = ("input", "dispatch", "compute")


@attrs.frozen(kw_only=True)
class Finding:
    """A cause of lost time: what it is, where it is, and what can be done.

    :param kind: a word that plugins may look for: "python-generator", "python-function",
        "misplaced-cache", "retracing", "unbatched-map", "sequential-map",
        "no-prefetch", "tiny-batches", "control-flow", "layer-without-xla", "frozen-layers",
        "runs-eagerly", "costly-validation", "costly-callback", "fit-for-a-batch",
        "augmentation-in-model".
    :param split: the split of the data, None for the model.
    :param place: `file.py:12`, "" if the trace does not have it.
    """

    kind: str
    detail: str
    mend: str = ""
    split: str | None = None
    place: str = ""


@attrs.frozen(kw_only=True)
class StepFacts:
    """What is observed of a training and of one of its steps.

    All seconds are medians of one steady step. Of `step_seconds`, those of the real loop,
    `input_seconds` are waited for input, `dispatch_seconds` spent starting the step from Python,
    and `compute_seconds` computing; the three sum to `step_seconds`. Where `dispatch_known` is
    False, `compute_seconds` holds both. `data_seconds` is what a batch takes when the data are read
    alone. `example_bytes` is one training example behind the deterministic stages.
    `steps_per_epoch`, `examples` and `batch_size` are None where unknown. `layers` are the classes
    of the model's layers by name, nested ones too. `matmul_share` is the share of this machine's
    peak in matrix products that the model reaches while it computes, None where it is not known;
    `matmul_peaks` are those peaks in operations a second, by dtype ("float32", the type that the
    model computes in, and "bfloat16" or "float16" where the hardware has them). An `own_loop` is a
    training loop of a script's own: only plugins that act without `compile` and `fit` reach it, a
    step is an update of an optimizer, and `epochs` are the passes over the data that were begun.
    """

    epochs: int
    steps_per_epoch: int | None
    batch_size: int | None
    examples: int | None
    example_bytes: float | None
    available_memory_bytes: int
    trainable_parameters: int
    policy: str
    jit_compile: bool
    supports_jit: bool
    batch_callbacks: tuple[str, ...] = ()
    step_seconds: float
    input_seconds: float
    dispatch_seconds: float
    compute_seconds: float
    dispatch_known: bool = True
    data_seconds: float
    matmul_share: float | None = None
    matmul_peaks: Mapping[str, float] = attrs.field(factory=dict)
    findings: tuple[Finding, ...] = ()
    layers: tuple[str, ...] = ()
    own_loop: bool = False

    def bound(self, targets: Iterable[str]) -> float:
        """Return the most that a plugin with these `targets` can gain: the speedup of a step if its
        targets took no time. It is infinite if nothing else takes time.

        Reading the data takes the time that it takes alone, since the wait for it may be hidden
        behind the rest. A plugin that targets dispatch may fetch batches while a step computes.
        """
        taken = set(targets) & set(PARTS)
        if not taken:
            return 1.0
        if not self.dispatch_known and taken & {"dispatch", "compute"}:
            taken |= {"dispatch", "compute"}
        hidden = {"input"} if "dispatch" in taken else set()
        left = sum(getattr(self, f"{part}_seconds") for part in PARTS if part not in taken | hidden)
        if "input" not in taken:
            left = max(left, self.data_seconds)
        return max(1.0, self.step_seconds / left) if left > 0 else float("inf")

    def found(self, kind: str, split: str | None = None) -> bool:
        """Return whether there is a finding of this kind, for this split if one is given."""
        return any(
            finding.kind == kind and split in (None, finding.split) for finding in self.findings
        )


@attrs.frozen(kw_only=True)
class Diagnosis(StepFacts):
    """Where a baseline's time goes on this machine.

    `plans` are the baseline's data plans by split (`tfopt_core.DataPlan`). With `exact` only
    settings count that leave each value as it is: see `exact_only`.
    """

    machine: Machine
    plans: Mapping[str, Any] = attrs.field(factory=dict, repr=False)
    exact: bool = False

    def exact_only(self) -> Self:
        """Return the diagnosis for settings that leave each value as it is: a plugin that may also
        round otherwise is asked with it a second time."""
        return attrs.evolve(self, exact=True)
