"""Compare drawn cases under stacks with plain Keras."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from support.drawn_fits.case import Case, Stack, script_of
from support.drawn_fits.comparison import Difference, Outcome, compare
from support.drawn_fits.stacks import changes_data, math_in, whole

# Trains a case, plain for None.
Train = Callable[[Case, Stack | None], Outcome]
SHOWN = 8
# How often plain Keras is repeated before a difference is believed.
REPEATS = 4


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

    def __str__(self) -> str:
        lines = [f"under {list(self.stack)}:", *map(str, self.differences[:SHOWN])]
        more = len(self.differences) - SHOWN
        lines += [f"and {more} more"] if more > 0 else []
        lines += [f"{name}: {'applied' if applied else 'not applied'}: {why}"
                  for name, (applied, why) in self.effects.items()]  # fmt: skip
        return "\n".join((*lines, script_of(self.case, whole(self.case, self.stack))))


@attrs.frozen
class Judge:
    """Trains cases plain and under stacks.

    A difference is believed if it comes again and plain Keras does not differ from itself.
    """

    train: Train

    def __call__(self, case: Case, *tried: Stack) -> list[Verdict]:
        """Return the verdict of each stack."""
        plain = self._trained(case, None)
        if plain.ended is not None and not plain.notes:
            return [Verdict(case, one, "discarded", message=plain.ended) for one in tried]
        return [self._believed(case, one, plain) for one in tried]

    def _believed(self, case: Case, stack: Stack, plain: Outcome) -> Verdict:
        verdict = judge(case, stack, plain, self._trained(case, stack))
        if verdict.result != "different":
            return verdict
        others = (self._trained(case, None) for _ in range(REPEATS))
        if any(compare(plain, other).differences for other in others):
            why = "plain Keras differs from itself"
            return attrs.evolve(verdict, result="discarded", message=why)
        again = judge(case, stack, plain, self._trained(case, stack))
        return again if again.result == "different" else attrs.evolve(verdict, result="unsteady")

    def _trained(self, case: Case, stack: Stack | None) -> Outcome:
        return self.train(case, whole(case, stack))


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
