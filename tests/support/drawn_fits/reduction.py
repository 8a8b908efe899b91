"""Make a case that shows a difference smaller, one piece after the other."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from support.drawn_fits.case import Case, Fit

# Each case that is tried costs seconds.
TRIES = 40
_STAGES = re.compile(r"(?=\.(?:shuffle|cache|map|filter|prefetch|take|skip|repeat|batch)\()")


def reduced(case: Case, differs: Callable[[Case], bool], tries: int = TRIES) -> Case:
    """Return the smallest case found that still differs; so many are tried at most."""
    known = {case}
    found = True
    while found:
        found = False
        for smaller in _smaller(case):
            if smaller in known:
                continue
            if tries <= 0:
                return case
            known.add(smaller)
            tries -= 1
            if differs(smaller):
                case, found = smaller, True
                break
    return case


def _smaller(case: Case) -> Iterator[Case]:
    """Yield cases with one piece less, the largest pieces first."""
    for index in reversed(range(len(case.fits) if len(case.fits) > 1 else 0)):
        yield attrs.evolve(case, fits=_without(case.fits, index))
    if case.validation:
        yield _without_validation(case)
    for index, one in enumerate(case.fits):
        for fit in _smaller_fits(case, one):
            yield attrs.evolve(case, fits=(*case.fits[:index], fit, *case.fits[index + 1 :]))
    for train in _fewer_stages(case.train):
        yield attrs.evolve(case, train=train)
    for validation in _fewer_stages(case.validation):
        yield attrs.evolve(case, validation=validation)
    for index, given in enumerate(case.compile):
        if not given.startswith("loss="):
            yield attrs.evolve(case, compile=_without(case.compile, index))
    kind = re.search(r'"(\w+)"', case.rows)
    if kind is not None and kind[1] == "plain":
        yield attrs.evolve(case, model="dense()")
    yield attrs.evolve(case, rows=re.sub(r', "(float64|uint8)"', "", case.rows))
    yield attrs.evolve(case, floatx="", convert="", again=False)


def _smaller_fits(case: Case, fit: Fit) -> Iterator[Fit]:
    if fit.before:
        yield attrs.evolve(fit, before=())
    if fit.callbacks:
        yield attrs.evolve(fit, callbacks=())
    for field in ("before", "callbacks"):
        for index in range(len(getattr(fit, field))):
            yield attrs.evolve(fit, **{field: _without(getattr(fit, field), index)})
    yield attrs.evolve(fit, callback_list=False)
    for index, given in enumerate(fit.arguments):
        name = given.partition("=")[0]
        if name != "validation_data" and not _is_needed(case, name):
            yield attrs.evolve(fit, arguments=_without(fit.arguments, index))
    yield attrs.evolve(fit, data=re.sub(r"as_\w+\((\w)\)", r"\1", fit.data))
    yield attrs.evolve(fit, data=fit.data.replace(", sample_weight=w", ""))


def _is_needed(case: Case, name: str) -> bool:
    """Return whether a fit does not end without an argument."""
    data = {"steps_per_epoch": case.train, "validation_steps": case.validation}.get(name, "")
    return "repeat()" in data or "endless=True" in data


def _without_validation(case: Case) -> Case:
    def kept(given: str) -> bool:
        return not given.startswith("validation_") and "(validation" not in given

    fits = (
        attrs.evolve(
            one,
            arguments=tuple(filter(kept, one.arguments)),
            callbacks=tuple(filter(kept, one.callbacks)),
        )
        for one in case.fits
    )
    return attrs.evolve(case, validation="", fits=tuple(fits))


def _fewer_stages(expression: str) -> Iterator[str]:
    first, *stages = _STAGES.split(expression)
    for index, stage in enumerate(stages):
        if not stage.startswith((".batch", ".repeat()")):
            yield "".join((first, *_without(tuple(stages), index)))
    yield expression.replace(", drop_remainder=True", "")
    yield re.sub(r"^slices\((v?x, v?y), v?w\)", r"slices(\1)", expression)


def _without(pieces: tuple[Any, ...], index: int) -> tuple[Any, ...]:
    return (*pieces[:index], *pieces[index + 1 :])
