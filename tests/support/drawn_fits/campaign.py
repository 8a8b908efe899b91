"""Draw cases for a chosen time, and compare each under stacks with plain Keras."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from support.drawn_fits.case import Case, Stack, from_json, script_of, to_json
from support.drawn_fits.comparison import Compared, Difference, Outcome, compare
from support.drawn_fits.stacks import changes_data, math_in, stacks
from support.drawn_fits.strategies import cases
from support.drawn_fits.training import Trainer

SHOWN = 8
# Each smaller case that is tried costs seconds.
SHRINKS = 30
# How often plain Keras is repeated before a difference is believed.
REPEATS = 2
_BATCH = 20


class FoundDifference(AssertionError):
    """A stack trains otherwise than plain Keras; the message holds the script."""


@attrs.frozen
class Verdict:
    """What became of a case under one stack.

    :param result: "equal", "rounding", "refused", "reordered" (only counts could be compared),
        "discarded" (plain Keras differs from itself, or does not end) or "different".
    """

    case: Case
    stack: Stack
    result: str
    differences: tuple[Difference, ...] = ()
    message: str = ""
    effects: str = ""

    @property
    def kind(self) -> str:
        """The plugins with what differs first, without numbers: an exception, or a value."""
        names = "+".join(one["use"] for one in self.stack) or "empty stack"
        raised = [one for one in self.differences if "raised" in one.path]
        return f"{names}: {[*raised, *self.differences][0].kind if self.differences else ''}"

    def __str__(self) -> str:
        lines = [f"under {list(self.stack)}:", *map(str, self.differences[:SHOWN])]
        more = len(self.differences) - SHOWN
        lines += [f"and {more} more"] if more > 0 else []
        return "\n".join((*lines, f"effects: {self.effects}", script_of(self.case, self.stack)))


@attrs.define
class Tally:
    """The counts of a campaign, and its differences, the first one of each kind."""

    cases: int = 0
    results: Counter[str] = attrs.field(factory=Counter)
    refusals: Counter[str] = attrs.field(factory=Counter)
    kinds: Counter[str] = attrs.field(factory=Counter)
    found: list[Verdict] = attrs.field(factory=list)

    def add(self, verdict: Verdict) -> bool:
        """Count a verdict and return whether it is a difference of a new kind."""
        self.results[verdict.result] += 1
        if verdict.result == "refused":
            self.refusals[verdict.message] += 1
        if verdict.result != "different":
            return False
        self.kinds[verdict.kind] += 1
        if self.kinds[verdict.kind] > 1:
            return False
        self.found.append(verdict)
        return True

    def __str__(self) -> str:
        names = ("equal", "rounding", "reordered", "refused", "discarded", "different")
        counts = ", ".join(f"{self.results[name]} {name}" for name in names)
        return f"{self.cases} cases; under stacks: {counts} ({len(self.kinds)} kinds)"


@attrs.frozen
class Judge:
    """Trains cases plain and under stacks, two at a time.

    :param known: the kinds of differences that need not be confirmed any more.
    """

    train: Callable[[Case, Stack | None], Outcome]
    known: Collection[str] = ()
    pool: ThreadPoolExecutor = attrs.field(factory=lambda: ThreadPoolExecutor(2))

    def __call__(self, case: Case, *tried: Stack) -> list[Verdict]:
        """Return the verdict of each stack; behind an empty one that differs, of no other."""
        plain, *others = self._train(case, None, *tried)
        if plain.ended is not None and not plain.notes:
            return [Verdict(case, one, "discarded", message=plain.ended) for one in tried]
        found = [judge(case, one, plain, other) for one, other in zip(tried, others, strict=True)]
        if not tried[0] and found[0].result == "different":
            found = found[:1]
        new = [one for one in found if one.result == "different" and one.kind not in self.known]
        if new and any(
            compare(plain, other).differences for other in self._train(case, *[None] * REPEATS)
        ):
            return [attrs.evolve(one, result="discarded") for one in found]
        return [self._confirmed(one, plain) if one in new else one for one in found]

    def _train(self, case: Case, *tried: Stack | None) -> list[Outcome]:
        return list(self.pool.map(lambda stack: self.train(case, stack), tried))

    def _confirmed(self, verdict: Verdict, plain: Outcome) -> Verdict:
        """Repeat a stack that differs, and return the verdict of the one plugin that is enough."""
        case, stack = verdict.case, verdict.stack
        tried = [*((one,) for one in stack if len(stack) > 1), stack]
        for one, other in zip(tried, self._train(case, *tried), strict=True):
            found = judge(case, one, plain, other)
            if found.result == "different":
                return found
        return attrs.evolve(verdict, message="not when repeated")


def judge(case: Case, stack: Stack, plain: Outcome, other: Outcome) -> Verdict:
    """Return the verdict of one outcome."""
    effects = "; ".join(f"{name} {applied}: {why}" for name, (applied, why) in
                        other.effects.items())  # fmt: skip
    if refusal := other.refusal(stack):
        return Verdict(case, stack, "refused", message=refusal, effects=effects)
    ordered = not any(
        other.applied(one["use"])
        and (math_in(one) == "order" or (case.shuffles_arrays and changes_data(one)))
        for one in stack
    )
    if not ordered and case.depends_on_order:
        return Verdict(case, stack, "discarded", effects=effects)
    compared: Compared = compare(plain, other, ordered=ordered)
    if compared.differences:
        return Verdict(case, stack, "different", compared.differences, effects=effects)
    result = "reordered" if not ordered else "equal" if compared.bitwise else "rounding"
    return Verdict(case, stack, result, effects=effects)


def collect(
    tally: Tally, seconds: float, first_seed: int, out: Path | None = None, tree: Path | None = None
) -> None:
    """Draw cases for so many seconds, go on behind differences, and count what is found.

    :param out: a file to which a line of JSON is added for the first difference of each kind.
    :param tree: where tfopt is imported from, if not from where it is installed.
    """
    end, judging = time.monotonic() + seconds, Judge(Trainer(tree), tally.kinds)
    for number in itertools.count(first_seed):
        if time.monotonic() > end:
            break
        _draw(judging, tally, number, end, out)


def _draw(judging: Judge, tally: Tally, number: int, end: float, out: Path | None) -> None:
    @seed(number)
    @settings(_drawing(), max_examples=_BATCH, phases=[Phase.generate])
    @given(cases(), stacks(), stacks())
    def one(case: Case, first: Stack, second: Stack) -> None:
        if time.monotonic() > end:
            return
        tally.cases += 1
        for verdict in judging(case, (), first, second):
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


def search(tally: Tally, seconds: float, first_seed: int, tree: Path | None = None) -> None:
    """Draw cases for so many seconds, up to the first difference, whose case is made smaller.

    :raises FoundDifference: with the smallest case.
    """
    end, judging = time.monotonic() + seconds, Judge(Trainer(tree))
    tries = {"left": SHRINKS}
    known: dict[str, Verdict] = {}

    def verdict_of(case: Case, stack: Stack) -> Verdict | None:
        key = to_json(case, stack)
        if key not in known:
            if tally.found:
                tries["left"] -= 1
            if (time.monotonic() > end and not tally.found) or tries["left"] < 0:
                return None
            tally.cases += 1
            [known[key]] = judging(case, stack)
            tally.add(known[key])
        return known[key]

    @seed(first_seed)
    @settings(_drawing(), max_examples=10_000, phases=[Phase.generate, Phase.shrink])
    @given(cases(), st.one_of(stacks(), st.just(())))
    def one(case: Case, stack: Stack) -> None:
        verdict = verdict_of(case, stack)
        if verdict is not None and verdict.result == "different":
            raise FoundDifference(str(verdict))

    one()


def _drawing() -> settings:
    return settings(
        deadline=None, database=None, suppress_health_check=list(HealthCheck), print_blob=False,
        report_multiple_bugs=False,
    )  # fmt: skip


def run_case(text: str, tree: Path | None = None) -> Verdict:
    """Run the case of a line of JSON under its stack, which may be missing for the empty one."""
    case, stack = from_json(text)
    return Judge(Trainer(tree))(case, stack or ())[0]
