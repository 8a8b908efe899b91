"""Compare drawn cases under stacks with plain Keras."""

from collections.abc import Callable, Mapping

import attrs

from support.drawn_fits.case import Case, Stack, script_of
from support.drawn_fits.comparison import Outcome, compare
from support.drawn_fits.stacks import whole

# Trains a case, plain for None.
Train = Callable[[Case, Stack | None], Outcome]
SHOWN = 8
# How often plain Keras is repeated before a difference is believed.
REPEATS = 4


@attrs.frozen
class Verdict:
    """What became of a case under one stack.

    :param result: "equal", "rounding", "refused", "discarded" (plain Keras differs from itself, or
        does not end), "different" or "unsteady" (different, but not when it was repeated).
    :param message: why it was discarded or refused.
    """

    case: Case
    stack: Stack
    result: str
    message: str = ""
    differences: tuple[str, ...] = ()
    effects: Mapping[str, tuple[bool, str]] = attrs.field(factory=dict)

    def __str__(self) -> str:
        lines = [f"under {list(self.stack)}:", *self.differences[:SHOWN]]
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
            return [Verdict(case, one, "discarded", plain.ended) for one in tried]
        return [self._believed(case, one, plain) for one in tried]

    def _believed(self, case: Case, stack: Stack, plain: Outcome) -> Verdict:
        verdict = judge(case, stack, plain, self._trained(case, stack))
        if verdict.result != "different":
            return verdict
        others = (self._trained(case, None) for _ in range(REPEATS))
        if any(compare(plain, other).differences for other in others):
            return Verdict(case, stack, "discarded", "plain Keras differs from itself")
        again = judge(case, stack, plain, self._trained(case, stack))
        return again if again.result == "different" else attrs.evolve(verdict, result="unsteady")

    def _trained(self, case: Case, stack: Stack | None) -> Outcome:
        return self.train(case, whole(case, stack))


def judge(case: Case, stack: Stack, plain: Outcome, other: Outcome) -> Verdict:
    """Return the verdict of one outcome."""
    if refusal := other.refusal((*case.base, *stack)):
        return Verdict(case, stack, "refused", refusal)
    compared = compare(plain, other)
    if not compared.differences:
        return Verdict(case, stack, "rounding" if compared.rounded else "equal", compared.rounded)
    if why := case.why_unsteady:
        return Verdict(case, stack, "discarded", why)
    for name in (one["use"] for one in case.base):
        if other.applied(name) and not plain.applied(name):
            return Verdict(case, stack, "discarded", f"only there {name} sees what it changes")
    return Verdict(
        case, stack, "different", differences=compared.differences, effects=other.effects
    )
