"""Drafts of a first contact, and what trying them would find."""

from __future__ import annotations

from tfopt_core.diagnosis.draft import Draft
from tfopt_core.diagnosis.screening import Tried
from tfopt_core.errors import PluginRefused
from tfopt_core.hooks.installed.suggest import Suggestion
from tfopt_core.records.diagnosis import Bounds, MatmulUse, Roofline, StepPart
from tfopt_core.records.estimate import Estimate


class Diagnosed:
    """What a draft reads of a diagnosis."""

    step_seconds = 0.012
    own_loop, dispatch_known = False, True
    input = StepPart(seconds=0.003, share=0.25, low=0.2, high=0.3)
    dispatch = StepPart(seconds=0.003, share=0.25, low=0.2, high=0.3)
    compute = StepPart(seconds=0.006, share=0.5, low=0.4, high=0.6)
    estimate = Estimate(step_seconds=0.01, seconds=10.0, steps=1000)
    matmul = MatmulUse(
        dtype="float32", operations=1e9, why_not="", share_computing=0.4, share_of_step=0.2,
        peaks={},
    )  # fmt: skip
    bounds = Bounds(
        input=1.33, dispatch=1.33, compute=1.3, compute_rounding=1.72, input_and_dispatch=2.0
    )
    roofline = Roofline(fastest="bfloat16")
    proposed_stack = ("a", "b", "c", "loop", "low")


def suggestion(name: str, **changes) -> Suggestion:
    plain = {
        "plugin": name, "settings": {}, "bound": 1.33, "targets": ("input",), "math": "exact",
        "summary": f"Does what {name} does.", "distribution": "tfopt",
    }  # fmt: skip
    return Suggestion(**{**plain, **changes})


def draft(*names: str, additions: tuple[Suggestion, ...] = ()) -> Draft:
    return Draft(
        "train.py", {"script": "train.py"}, Diagnosed(), tuple(map(suggestion, names)),
        additions=additions, measure={"budget": "90s"},
    )  # fmt: skip


def attempt(found: dict[tuple[str, ...], Estimate | Exception], idle: dict[str, str] | None = None):
    """What a training with a stack takes, by its plugins; the baseline takes 10 s."""

    def tried(candidate: Draft) -> Tried:
        names = tuple(one.plugin for one in candidate.stack)
        taken = found[names]
        if isinstance(taken, Exception):
            raise taken
        return Tried(names, taken, idle or {})

    return tried


def about(step_milliseconds: float, seconds: float | None = None) -> Estimate:
    """A training of 1,000 steps."""
    return Estimate(step_milliseconds / 1e3, seconds or step_milliseconds, steps=1000)


def names(stack: Draft) -> list[str]:
    return [one.plugin for one in stack.stack]


SLOWER = {("a",): about(10.5, 30), ("b",): about(10, 20), ("c",): PluginRefused("no GPU", "c")}
