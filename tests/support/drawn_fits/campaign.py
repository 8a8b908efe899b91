"""Draw cases for a chosen time, and compare each under stacks with plain Keras."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs
from hypothesis import HealthCheck, Phase, given, seed, settings

from support.drawn_fits.case import Case, Stack, script_of, to_json
from support.drawn_fits.comparison import Difference, Outcome, compare
from support.drawn_fits.stacks import changes_data, math_in, trials, whole
from support.drawn_fits.training import Trainer

# Trains a case, plain for None.
Train = Callable[[Case, Stack | None], Outcome]
SHOWN = 8
# How often plain Keras is repeated before a difference is believed.
REPEATS = 4
_BATCH = 400


@attrs.frozen
class Verdict:
    """What became of a case under one stack.

    :param result: "equal", "rounding", "refused", "reordered" (only counts could be compared),
        "discarded" (plain Keras differs from itself, or does not end), "different" or "unsteady"
        (different, but not when it was repeated).
    """

    case: Case
    stack: Stack
    result: str
    differences: tuple[Difference, ...] = ()
    message: str = ""
    effects: Mapping[str, tuple[bool, str]] = attrs.field(factory=dict)

    @property
    def kind(self) -> str:
        """The plugins with what differs first."""
        names = "+".join(one["use"] for one in self.stack) or "empty stack"
        base = "".join(f" on {one['use']}" for one in self.case.base)
        return f"{names}{base}: {self.differs_first}"

    @property
    def differs_first(self) -> str:
        """What differs first, without numbers: an exception, or a value."""
        raised = [one for one in self.differences if "raised" in one.path]
        return next((one.kind for one in (*raised, *self.differences)), "")

    def __str__(self) -> str:
        lines = [f"under {list(self.stack)}:", *map(str, self.differences[:SHOWN])]
        more = len(self.differences) - SHOWN
        lines += [f"and {more} more"] if more > 0 else []
        lines += [f"{name}: {'applied' if applied else 'not applied'}: {why}"
                  for name, (applied, why) in self.effects.items()]  # fmt: skip
        return "\n".join((*lines, script_of(self.case, whole(self.case, self.stack))))


@attrs.define
class Tally:
    """The counts of a campaign, and its differences, the first one of each kind."""

    cases: int = 0
    results: Counter[str] = attrs.field(factory=Counter)
    messages: Counter[str] = attrs.field(factory=Counter)
    kinds: Counter[str] = attrs.field(factory=Counter)
    found: list[Verdict] = attrs.field(factory=list)
    drawn: Counter[str] = attrs.field(factory=Counter)
    applied: Counter[str] = attrs.field(factory=Counter)

    def add(self, verdict: Verdict) -> bool:
        """Count a verdict and return whether it is a difference of a new kind."""
        self.results[verdict.result] += 1
        for name, (applied, why) in verdict.effects.items():
            if not applied:
                self.messages[f"not applied: {name}: {why}"[:250]] += 1
            self.drawn[name] += 1
            self.applied[name] += applied
        if verdict.result in ("refused", "discarded", "rounding", "unsteady"):
            self.messages[f"{verdict.result}: {verdict.message}"[:250]] += 1
        if verdict.result != "different":
            return False
        self.kinds[verdict.kind] += 1
        if self.kinds[verdict.kind] > 1:
            return False
        self.found.append(verdict)
        return True

    def __str__(self) -> str:
        names = ("equal", "rounding", "reordered", "refused", "discarded", "unsteady", "different")
        counts = ", ".join(f"{self.results[name]} {name}" for name in names)
        applied = ", ".join(f"{name} {self.applied[name]}/{count}" for name, count in
                            self.drawn.most_common())  # fmt: skip
        return (
            f"{self.cases} cases; under stacks: {counts} ({len(self.kinds)} kinds)\n"
            f"applied: {applied}"
        )


@attrs.frozen
class Judge:
    """Trains cases plain and under stacks, two at a time.

    A difference is believed if plain Keras does not differ from itself, and put down to the empty
    stack or to a single plugin where that is enough; the next one of its kind is taken to be alike.
    """

    train: Train
    pool: ThreadPoolExecutor = attrs.field(factory=lambda: ThreadPoolExecutor(2))
    causes: dict[str, Stack] = attrs.field(factory=dict)

    def __call__(self, case: Case, *tried: Stack) -> list[Verdict]:
        """Return the verdict of each stack."""
        plain, *others = self._train(case, None, *tried)
        if plain.ended is not None and not plain.notes:
            return [Verdict(case, one, "discarded", message=plain.ended) for one in tried]
        found = [judge(case, one, plain, other) for one, other in zip(tried, others, strict=True)]
        new = [one for one in found if one.result == "different" and one.kind not in self.causes]
        if new:
            again = self._train(case, *[None] * REPEATS)
            if any(compare(plain, other).differences for other in again):
                why = "plain Keras differs from itself"
                return [attrs.evolve(one, result="discarded", message=why) for one in found]
            causes = {one.kind: self._cause(one, plain) for one in new}
            self.causes.update((kind, one.stack) for kind, one in causes.items())
            found = [causes.get(one.kind, one) for one in found]
        return [attrs.evolve(one, stack=self.causes.get(one.kind, one.stack)) for one in found]

    def _train(self, case: Case, *tried: Stack | None) -> list[Outcome]:
        return list(self.pool.map(lambda stack: self.train(case, whole(case, stack)), tried))

    def _cause(self, verdict: Verdict, plain: Outcome) -> Verdict:
        """Return the verdict of the least of a stack that differs likewise, which is repeated."""
        case, stack = verdict.case, verdict.stack
        parts = [(one,) for one in stack] if len(stack) > 1 else []
        tried = [*([()] if stack else []), *parts, stack]
        for one, other in zip(tried, self._train(case, *tried), strict=True):
            found = judge(case, one, plain, other)
            if found.result == "different" and found.differs_first == verdict.differs_first:
                return found
        return attrs.evolve(verdict, result="unsteady", message=f"{verdict.kind}, not repeated")


def judge(case: Case, stack: Stack, plain: Outcome, other: Outcome) -> Verdict:
    """Return the verdict of one outcome."""
    if refusal := other.refusal((*case.base, *stack)):
        return Verdict(case, stack, "refused", message=refusal, effects=other.effects)
    compared, result = compare(plain, other), "equal"
    if compared.differences and (why := case.why_unsteady):
        return Verdict(case, stack, "discarded", message=why)
    if compared.differences and any(_reorders(case, one, other) for one in stack):
        if case.depends_on_order:
            return Verdict(case, stack, "discarded", message="stops by values, another order")
        compared, result = compare(plain, other, ordered=False), "reordered"
    if compared.differences and (helped := _helped(case, plain, other)):
        return Verdict(case, stack, "discarded", message=f"{helped} takes effect under it only")
    if compared.differences:
        return Verdict(case, stack, "different", compared.differences, effects=other.effects)
    if compared.rounded:
        result = "rounding"
    names = "+".join(one["use"] for one in stack)
    return Verdict(
        case, stack, result, message=f"{names} {compared.rounded}", effects=other.effects
    )


def _helped(case: Case, plain: Outcome, other: Outcome) -> str:
    """Return a plugin of the base that has an effect on what only the stack lets it see."""
    names = (one["use"] for one in case.base)
    return next((name for name in names if other.applied(name) and not plain.applied(name)), "")


def _reorders(case: Case, plugin: Mapping[str, Any], other: Outcome) -> bool:
    """Return whether a plugin was applied that may give the examples in another order."""
    own = math_in(plugin) == "order" or case.order_by_readers
    own = own or (case.shuffles_arrays and changes_data(plugin))
    return own and other.applied(plugin["use"])


def collect(
    tally: Tally,
    seconds: float,
    first_seed: int,
    out: Path | None = None,
    tree: Path | None = None,
    *,
    to_first: bool = False,
) -> None:
    """Draw cases for so many seconds, and count what becomes of them.

    :param out: a file to which a line of JSON is added for the first difference of each kind.
    :param tree: where tfopt is imported from, if not from where it is installed.
    :param to_first: end with the first difference.
    """
    end, judging = time.monotonic() + seconds, Judge(Trainer(tree))
    for number in itertools.count(first_seed):
        if time.monotonic() > end or (to_first and tally.found):
            break
        _draw(judging, tally, number, end, out)


def _draw(judging: Judge, tally: Tally, number: int, end: float, out: Path | None) -> None:
    @seed(number)
    @settings(
        max_examples=_BATCH, phases=[Phase.generate], deadline=None, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(trials())
    def one(trial: tuple[Case, Stack, Stack]) -> None:
        case, *tried = trial
        if time.monotonic() > end:
            return
        tally.cases += 1
        for verdict in judging(case, *tried):
            if tally.add(verdict) and out is not None:
                with out.open("a", encoding="utf-8") as file:
                    file.write(line_of(verdict, number) + "\n")

    one()


def line_of(verdict: Verdict, number: int) -> str:
    """Return a difference as a line of JSON."""
    return to_json(
        verdict.case, verdict.stack, kind=verdict.kind, seed=number, note=verdict.message,
        differences=list(map(str, verdict.differences[:SHOWN])), effects=verdict.effects,
    )  # fmt: skip
