"""The plan of a trial: its two stacks, and the rule that decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from tfopt_core.records.tuning import Action
from tfopt_core.tuning.contrast import Decision, decide, decide_drop
from tfopt_core.tuning.stacks import Stack

# Called after each pair of a trial with the logarithms of all ratios so far.
OnPair = Callable[[Sequence[float]], None]


@attrs.frozen(kw_only=True)
class TrialPlan:
    """A trial to make: the two stacks, and the rule that decides from the pairs so far.

    :param joined_by: further plugins that the trial adds; the figure is that of all.
    """

    action: Action
    plugin: str
    stack: Stack
    without: Stack
    replaces: tuple[str, ...] = ()
    joined_by: tuple[str, ...] = ()

    @property
    def plugins(self) -> tuple[str, ...]:
        """The plugins that the trial adds or takes out."""
        return (self.plugin, *self.joined_by)

    def decide(self, log_ratios: Sequence[float]) -> Decision:
        """Return the decision on these pairs."""
        return decide(log_ratios) if self.action == "add" else decide_drop(log_ratios)
