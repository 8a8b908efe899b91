"""Drafts of a first contact, and what trying them would find."""

import attrs

from support.report_results import make_plan, make_prepared
from tfopt_core.diagnosis.draft import Draft, LeftOut, Tried
from tfopt_core.diagnosis.results import StepPart
from tfopt_core.errors import PluginRefused
from tfopt_core.hooks.installed.suggest import Suggestion
from tfopt_core.trials.request import Estimate


class Diagnosed:
    """What a draft reads of a diagnosis."""

    step_seconds = 0.012
    own_loop, dispatch_known, findings = False, True, ()
    input = StepPart(share=0.25, low=0.2, high=0.3)
    dispatch = StepPart(share=0.25, low=0.2, high=0.3)
    compute = StepPart(share=0.5, low=0.4, high=0.6)
    estimate = Estimate(step_seconds=0.01, seconds=10.0, steps=1000)
    policy, matmul_share = "float32", 0.4
    proposed_stack = ("a", "b", "c", "loop", "low")


def suggestion(name: str, **changes) -> Suggestion:
    plain = {
        "plugin": name, "settings": {}, "bound": 1.33, "targets": ("input",),
        "equivalence": "exact", "summary": f"Does what {name} does.", "distribution": "tfopt",
    }  # fmt: skip
    return Suggestion(**{**plain, **changes})


def draft(*names: str, additions: tuple[Suggestion, ...] = ()) -> Draft:
    return Draft(
        "train.py", {"script": "train.py"}, Diagnosed(), tuple(map(suggestion, names)),
        additions=additions, measure={"budget": "90s"},
    )  # fmt: skip


def left(made: Draft, *out: tuple[str, str]) -> Draft:
    """The draft with these plugins left out, each for a reason."""
    return attrs.evolve(made, left_out=tuple(LeftOut(*one) for one in out))


def attempt(found: dict[tuple[str, ...], Estimate | Exception], idle: dict[str, str] | None = None):
    """What a training with a stack takes, by its plugins; the baseline takes 10 s."""

    def tried(candidate: Draft) -> Tried:
        taken = found[tuple(names(candidate))]
        if isinstance(taken, Exception):
            raise taken
        return made(candidate, taken, not_applied=idle or {})

    return tried


def made(candidate: Draft, estimate: Estimate | None, settings=None, maths="", **changes) -> Tried:
    """The dry build of a draft."""
    plans = tuple(
        make_plan(
            one,
            settings=(settings or {}).get(one, {}),
            equivalence=maths or ("rounding" if one == "low" else "exact"),
        )
        for one in names(candidate)
    )
    return Tried(make_prepared(plugins=plans, **changes), None, estimate)


def built(tried: Tried) -> list[str]:
    """The plugins of a dry build."""
    return [one.name for one in tried.prepared.plugins]


def about(step_milliseconds: float, seconds: float | None = None) -> Estimate:
    """A training of 1,000 steps."""
    return Estimate(step_milliseconds / 1e3, seconds or step_milliseconds, steps=1000)


def names(stack: Draft) -> list[str]:
    return [one.plugin for one in stack.stack]


NO_GPU = PluginRefused("no GPU", "c")
SLOWER = {("a",): about(10.5, 30), ("b",): about(10, 20), ("c",): NO_GPU, ("b", "c"): NO_GPU}
