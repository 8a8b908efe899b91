"""Draw stacks of the plugins that say that they leave a training as it is."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import attrs
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from support.drawn_fits.case import Case, Stack, script_of
from support.drawn_fits.strategies import cases
from support.plugin_settings import TRIED
from support.stack_array import Candidate, admissible, candidates, ordered, stacked
from tfopt_core.hooks.plugin_class import equivalence_of

# Settings that need nothing to be timed; none declares more than another order.
SETTINGS: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    "chunked": tuple({"steps": steps, "xla": False} for steps in (3, 2, 1, 20)),
    "resident": (
        {"steps": "epoch", "xla": False}, {"steps": 2, "xla": False}, {"steps": 3, "xla": False},
    ),
    "steps-per-execution": tuple({"steps": steps} for steps in (3, 2, 20)),
    "cache": (
        {"storage": "memory", "memory_mib": 64}, {"storage": "disk", "memory_mib": 64},
        {"storage": "partial", "memory_mib": 1}, {"storage": "disk-or-partial", "memory_mib": 1},
        {"storage": "memory", "memory_mib": 64, "place": "end"},
    ),
    "prefetch": ({"buffer_size": 2}, {}),
    "autotune": ({"mode": "budget", "cpu_budget": 2, "ram_budget_mib": 64}, {"mode": "off"}),
    "prefetch-to-device": ({"device": "/cpu:0", "buffer_size": 2},),
    "parallel-map": ({"calls": 2},),
    "vectorize-map": ({"rounding": False},),
    "materialize": (
        {"storage": "memory", "order": "kept"}, {"storage": "disk", "order": "kept"},
        {"storage": "memory", "order": "auto"}, {"storage": "memory", "order": "examples"},
    ),
    "one-device": ({"device": "/cpu:0"},),
    "rematerialize": ({"segments": 2},),
    "frozen-features": ({"storage": "memory", "memory_mib": 64},),
    "profile": ({"steps": 2, "skip": 1},),
    "shuffle": ({"buffer_size": 16},),
    "interleave": ({"cycle_length": 2}, {"cycle_length": 3, "ordered": True}),
}  # fmt: skip
# what may take effect anywhere, and what needs something of the case: (a text of it, the plugins)
_ANYWHERE = ("chunked", "resident", "steps-per-execution", "prefetch", "autotune", "one-device")
_RARELY = ("prefetch-to-device", "profile", "cache", "materialize")
_SPECIAL = (
    (".map(", ("cache", "parallel-map", "vectorize-map") * 3),
    ("Batches(x", ("materialize",) * 6),
    ("generated(x", ("materialize",) * 6),
    ("deep()", ("rematerialize",) * 6),
    ("trainable = False", ("frozen-features",) * 4),
    (".shuffle(", ("shuffle",)),
    ("records(x", ("interleave",) * 6 + ("vectorize-map",) * 2),
)
# Of both sides of a case: another training than the script's, by another batch, loss or step.
BASES: tuple[Mapping[str, Any], ...] = (
    *({"use": "batch", "last": last} for last in ("drop", "drop", "pad")),
    {"use": "gradient-accumulation", "steps": 2}, {"use": "l2", "strength": 0.01},
    {"use": "lr-schedule"}, {"use": "mixed-precision", "policy": "mixed_bfloat16"},
    {"use": "fused-optimizer", "min_elements": 1}, {"use": "dropconnect"},
    {"use": "target-stop", "metric": "loss", "at_most": 0.5}, {"use": "adaptive-l2"},
    {"use": "split-batch", "parts": 2, "xla": False},
)  # fmt: skip
# what leaves the data as they are, so that Keras still draws the order of arrays
_NOT_DATA = frozenset(("chunked", "steps-per-execution", "one-device", "rematerialize", "profile"))


@functools.cache
def known() -> dict[str, Candidate]:
    """Return what each plugin declares."""
    return candidates(TRIED)


@functools.cache
def _math(name: str, settings: tuple[tuple[str, Any], ...]) -> str:
    return equivalence_of(name, stacked(name, dict(settings)).plugin)


def math_in(plugin: Mapping[str, Any]) -> str:
    """Return what a plugin declares with the settings of its table."""
    settings = tuple((key, value) for key, value in plugin.items() if key != "use")
    return _math(plugin["use"], settings)


def changes_data(plugin: Mapping[str, Any]) -> bool:
    """Return whether a plugin that was applied has replaced the data."""
    return plugin["use"] not in _NOT_DATA


@st.composite
def stacks(draw: DrawFn, case: Case) -> Stack:
    """Draw one plugin or two that may stand together, such as may take effect in a case."""
    text, base = script_of(case, None), {one["use"] for one in case.base}
    special = [name for part, names in _SPECIAL if part in text for name in names]
    names = st.sampled_from((*_ANYWHERE, *_ANYWHERE, *_RARELY, *special))
    chosen = {draw(names)}
    if draw(st.booleans()):
        other = chosen | {draw(names)}
        if admissible(other | base, known()):
            chosen = other
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
