"""The findings of `tfopt diagnose`, as plugins read them in `suggest(diagnosis)`. No TensorFlow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

import attrs

from tfopt_core.hooks.machine import Machine

# The parts of a step's time: those of `card.TARGETS` whose share a diagnosis measures.
PARTS = ("input", "dispatch", "compute")


@attrs.frozen(kw_only=True)
class Finding:
    """A cause of lost time: what it is, where it is, and what can be done.

    :param kind: a word that plugins may look for: "python-generator", "python-function",
        "misplaced-cache", "retracing", "changing-shapes", "unbatched-map", "sequential-map",
        "no-prefetch", "tiny-batches", "control-flow", "repeated-subexpression",
        "merged-subexpression", "layer-without-xla", "frozen-layers", "runs-eagerly",
        "costly-validation", "costly-callback".
    :param split: the split of the data, None for the model.
    :param place: `file.py:12`, "" if the trace does not have it.
    """

    kind: str
    detail: str
    mend: str = ""
    split: str | None = None
    place: str = ""


@attrs.frozen(kw_only=True)
class ComputeFloor:
    """The least seconds in which this machine can compute what a step multiplies and moves.

    `same_precision` holds for a plugin that keeps each value ("exact", "order"), `any_precision`
    for one that may round otherwise. Both are 0.0 where nothing is known.
    """

    same_precision: float = 0.0
    any_precision: float = 0.0

    def of(self, math: str, model_change: str = "none") -> float:
        """Return the least seconds for a plugin with this `math()` and `model_change`.

        A plugin that changes the model, or trains otherwise, may leave work out.
        """
        if model_change != "none":
            return 0.0
        if math in ("exact", "order"):
            return self.same_precision
        return self.any_precision if math == "rounding" else 0.0


@attrs.frozen(kw_only=True)
class StepFacts:
    """What is observed of a training and of one of its steps.

    All seconds are medians of one steady step. `step_seconds` is the real loop's, `data_seconds`
    what a batch takes when the data are read alone. Where `dispatch_known` is False dispatch and
    compute could not be told apart. `example_bytes` is one training example behind the
    deterministic stages. `steps_per_epoch`, `examples` and `batch_size` are None where unknown.
    `layers` are the classes of the model's layers by name, nested ones too. An `own_loop` is a
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
    data_seconds: float
    dispatch_known: bool = True
    findings: tuple[Finding, ...] = ()
    layers: tuple[str, ...] = ()
    own_loop: bool = False


@attrs.frozen(kw_only=True)
class Diagnosis(StepFacts):
    """Where a baseline's time goes on this machine.

    Of `step_seconds`, `input_seconds` are waited for input, `dispatch_seconds` spent starting the
    step from Python, and `compute_seconds` computing; the three sum to `step_seconds`. Where
    `dispatch_known` is False, `compute_seconds` holds both. `plans` are the baseline's data plans
    by split (`tfopt_core.DataPlan`). `matmul_share` is the share of the machine's measured
    matrix-product peak that the model reaches while it computes, None where its operations cannot
    be counted; `matmul_peaks` are those peaks in operations a second, by dtype ("float32", and
    "bfloat16" or "float16" where the hardware has them). `floor` is the least time in which this
    machine can compute the step. With `exact` only settings count that
    leave each value as it is: see `exact_only`.
    """

    machine: Machine
    input_seconds: float
    dispatch_seconds: float
    compute_seconds: float
    matmul_share: float | None = None
    matmul_peaks: Mapping[str, float] = attrs.field(factory=dict)
    floor: ComputeFloor = attrs.field(factory=ComputeFloor)
    plans: Mapping[str, Any] = attrs.field(factory=dict, repr=False)
    exact: bool = False

    def exact_only(self) -> Self:
        """Return the diagnosis for settings that leave each value as it is: a plugin that may also
        round otherwise is asked with it a second time."""
        return attrs.evolve(self, exact=True)

    def bound(self, targets: Iterable[str], floor: float = 0.0) -> float:
        """Return the most that a plugin with these `targets` can gain: the speedup of a step if its
        targets took no time, or compute no more than `floor` seconds. It is infinite if nothing
        else takes time.

        The remaining parts take their time: the input pipeline the time that it takes alone, since
        the wait for it may be hidden behind the rest, and the rest the time without input. A plugin
        that does not target dispatch keeps their order, so it gains at most its own part; one that
        does may fetch batches while a step computes.
        """
        taken = {part for part in PARTS if part in set(targets)}
        if not taken:
            return 1.0
        if not self.dispatch_known and taken & {"dispatch", "compute"}:
            taken |= {"dispatch", "compute"}
        seconds = {
            "input": self.input_seconds,
            "dispatch": self.dispatch_seconds,
            "compute": self.compute_seconds,
        }
        # what is left of each part
        after = {part: 0.0 if part in taken else seconds[part] for part in PARTS}
        if "compute" in taken:
            after["compute"] = min(floor, self.compute_seconds)
        least = [after["dispatch"] + after["compute"]]
        if "input" not in taken:
            least.append(self.data_seconds)
        if "dispatch" not in taken:
            least.append(self.step_seconds - sum(seconds[part] - after[part] for part in PARTS))
        left = max(least)
        if left <= 0:
            return float("inf")
        return max(1.0, self.step_seconds / left)

    def found(self, kind: str, split: str | None = None) -> bool:
        """Return whether there is a finding of this kind, for this split if one is given."""
        return any(
            finding.kind == kind and split in (None, finding.split) for finding in self.findings
        )
