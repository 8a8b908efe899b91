"""Schedule a measurement: its variants, their order in each round, and their seeds."""

from __future__ import annotations

import random
from collections.abc import Sequence

import attrs

from tfopt_core.hooks.card import traits
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.records.variants import BASELINE, FULL, Contrast, ScheduledRun, Variant


def baseline_and_full(plugins: Sequence[StackedPlugin]) -> tuple[Variant, Variant]:
    """Return the two variants of every measurement."""
    return Variant(BASELINE, ()), Variant(FULL, tuple(plugins))


def leave_one_out(plugins: Sequence[StackedPlugin]) -> tuple[list[Variant], list[Contrast]]:
    """Return the variants that leave out each plugin in turn, and their contrasts.

    A plugin is left out together with those that require it; if nothing is left, the baseline is
    that variant. A single plugin is judged by the comparison itself.
    """
    variants: dict[str, Variant] = {}
    contrasts = []
    for stacked in plugins if len(plugins) > 1 else ():
        group = _group(stacked.name, plugins)
        rest = tuple(other for other in plugins if other.name not in group)
        name = f"without {' and '.join(group)}" if rest else BASELINE
        if rest:
            variants[name] = Variant(name, rest)
        contrasts.append(Contrast(stacked.name, group, name))
    return list(variants.values()), contrasts


def _group(name: str, plugins: Sequence[StackedPlugin]) -> tuple[str, ...]:
    """Return the plugin and all that require it, in recipe order."""
    group = {name}
    grown = True
    while grown:
        needy = {p.name for p in plugins if group & set(traits(p.name, type(p.plugin)).requires)}
        grown = not needy <= group
        group |= needy
    return tuple(p.name for p in plugins if p.name in group)


@attrs.frozen(eq=False)
class Schedule:
    """The order and seeds of the rounds, drawn from one seed that is stored with the results."""

    seed: int

    def runs(self, round_: int, variants: Sequence[Variant]) -> list[ScheduledRun]:
        """Return one round: every variant once, all under the round's seed.

        With two variants each two rounds are ABBA or BAAB, so that a linear drift of the machine's
        speed biases neither. Which of the two is random, since a periodic load could otherwise
        keep step with the order. More variants are put in random order.
        """
        seed = random.Random(f"{self.seed} seed of round {round_}").randrange(1, 2**31)
        order = list(variants)
        if len(order) == 2:
            first = random.Random(f"{self.seed} order of rounds {round_ // 2}").randrange(2)
            if (first + round_) % 2:
                order.reverse()
        else:
            random.Random(f"{self.seed} order of round {round_}").shuffle(order)
        return [ScheduledRun(round_, place, variant, seed) for place, variant in enumerate(order)]
