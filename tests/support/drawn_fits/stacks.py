"""Draw stacks of the plugins that say that they leave a training as it is."""

import functools
from collections.abc import Mapping
from typing import Any

import attrs
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from support.drawn_fits.case import Case, Stack, script_of
from support.drawn_fits.strategies import cases
from support.plugin_settings import TRIED
from support.stack_array import Candidate, admissible, candidates, ordered

# Settings that need nothing to be timed, and leave the training as it is.
SETTINGS: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    "chunked": tuple({"steps": steps, "xla": False} for steps in (3, 2, 1, 5, 20)),
    "resident": (
        {"steps": "epoch", "xla": False}, {"steps": 2, "xla": False}, {"steps": 3, "xla": False},
    ),
    "steps-per-execution": tuple({"steps": steps} for steps in (3, 2, 4, 20)),
    "cache": (
        {"storage": "memory", "memory_mib": 64}, {"storage": "disk", "memory_mib": 64},
        {"storage": "partial", "memory_mib": 1}, {"storage": "disk-or-partial", "memory_mib": 1},
        {"storage": "memory", "memory_mib": 64, "place": "end"},
    ),
    "prefetch": ({"buffer_size": 2}, {}),
    "autotune": ({"mode": "budget", "cpu_budget": 2, "ram_budget_mib": 64}, {"mode": "off"}),
    "parallel-map": ({"calls": 2},),
    "vectorize-map": ({"rounding": False},),
    "materialize": (
        {"storage": "memory", "order": "kept"}, {"storage": "disk", "order": "kept"},
    ),
    "one-device": ({"device": "/cpu:0"},),
    "rematerialize": ({"segments": 2, "rounding": False},),
    "frozen-features": ({"storage": "memory", "memory_mib": 64},),
    "profile": ({"steps": 2, "skip": 1},),
}  # fmt: skip
# what may take effect anywhere, and what needs something of the case: (a text of it, the plugins)
_LOOPS = ("chunked", "resident", "steps-per-execution")
_ANYWHERE = ("prefetch", "autotune", "one-device")
_RARELY = ("profile", "cache", "materialize")
_SPECIAL = (
    (".map(", ("cache", "parallel-map", "vectorize-map") * 3),
    ("Batches(x", ("materialize",) * 6),
    ("generated(x", ("materialize",) * 6),
    ("deep()", ("rematerialize",) * 6),
    ("trainable=False", ("frozen-features",) * 4),
    ("toggle", ("frozen-features",) * 2),
)
# Of both sides of a case: another training than the script's, by another batch, loss or step.
BASES: tuple[Mapping[str, Any], ...] = (
    *({"use": "batch", "last": last} for last in ("drop", "drop", "pad")),
    {"use": "gradient-accumulation", "steps": 2}, {"use": "l2", "strength": 0.01},
    {"use": "lr-schedule"}, {"use": "mixed-precision", "policy": "mixed_bfloat16"},
    {"use": "fused-optimizer", "min_elements": 1}, {"use": "dropconnect"},
    {"use": "target-stop", "metric": "loss", "at_most": 0.5},
    {"use": "split-batch", "parts": 2, "xla": False},
)  # fmt: skip


@functools.cache
def known() -> dict[str, Candidate]:
    """Return what each plugin declares."""
    return candidates(TRIED)


@st.composite
def stacks(draw: DrawFn, case: Case) -> Stack:
    """Draw up to four plugins that may stand together, such as may take effect in a case."""
    text, base = script_of(case, None), {one["use"] for one in case.base}
    special = [name for part, names in _SPECIAL if part in text for name in names]
    names = st.sampled_from((*_LOOPS * 3, *_ANYWHERE * 2, *_RARELY, *special))
    chosen: set[str] = {draw(names)}
    for _ in range(draw(st.sampled_from((0, 1, 1, 3)))):
        more = chosen | {draw(names)}
        if admissible(more | base, known()):
            chosen = more
    order = ordered(chosen, known())
    assert order is not None
    return tuple({"use": name, **draw(st.sampled_from(SETTINGS[name]))} for name in order)


def whole(case: Case, stack: Stack | None) -> Stack | None:
    """Return the plugins of a side that trains with a stack, in an order that all of them allow;
    None is plain Keras."""
    if not case.base:
        return stack
    tables = {one["use"]: one for one in (*case.base, *(stack or ()))}
    order = ordered(set(tables), known())
    return tuple(tables[name] for name in order or tables)


@st.composite
def trials(draw: DrawFn) -> tuple[Case, Stack, Stack]:
    """Draw a case and two stacks for it."""
    case = draw(cases())
    if draw(st.integers(0, 3)) == 0:
        case = attrs.evolve(case, base=(draw(st.sampled_from(BASES)),))
    return case, draw(stacks(case)), draw(stacks(case))
