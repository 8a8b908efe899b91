"""The result of `tfopt diagnose` as plain data: what is printed, and its `--json`."""

from __future__ import annotations

from typing import Any, Self

import attrs

from tfopt_core.hooks.diagnosis import StepFacts
from tfopt_core.hooks.installed.suggest import NoAnswer, Suggestion
from tfopt_core.training.messages import Answer, Message
from tfopt_core.trials.request import Estimate

SCHEMA_VERSION = 2
# The name of the validation among the parts of an epoch, and of its data.
VALIDATION = "validation"


@attrs.frozen(kw_only=True)
class Round:
    """Seconds of a step in each of the loops, timed one after another.

    `real` is `fit` over the workload's data; `cached` the same over one batch in memory, so
    dispatch and compute; `graph` steps in one graph over that batch, so compute alone, None where
    that cannot be done; `data` a batch read and not used.
    """

    real: float
    cached: float
    graph: float | None
    data: float


@attrs.frozen(kw_only=True)
class StepPart:
    """The share of one part of a step, over all rounds. `low` and `high` are the least and the
    largest share in a single round."""

    share: float
    low: float
    high: float


@attrs.frozen(kw_only=True)
class EpochPart:
    """What an epoch takes besides its steps: the validation, or a callback by its class name.
    `seconds` is None where it was not timed, with the reason in `note`."""

    name: str
    seconds: float | None = None
    note: str = ""


@attrs.frozen(kw_only=True)
class Bounds:
    """The most that a plugin for one part of a step can gain, as a factor; None for no bound.

    `input_and_dispatch` is for both together: what is left is the model itself.
    """

    input: float | None
    dispatch: float | None
    compute: float | None
    input_and_dispatch: float | None

    @classmethod
    def of(cls, facts: StepFacts) -> Self:
        """Return the bounds of each part of this step."""

        def most(*targets: str) -> float | None:
            bound = facts.bound(targets)
            return None if bound == float("inf") else bound

        return cls(
            input=most("input"), dispatch=most("dispatch"), compute=most("compute"),
            input_and_dispatch=most("input", "dispatch"),
        )  # fmt: skip


@attrs.frozen(kw_only=True)
class Diagnosed(StepFacts, Answer):
    """Where the time of a training goes on this machine.

    `stack` are the plugins that were in effect, () for the baseline, with `resolved` their
    settings. `suggestions` are sorted by what they can gain; those in `proposed_stack` can be
    stacked together, in that order. `silent` are plugins that gave no answer. `estimate` is
    about what a training takes, in a first look.
    """

    schema_version: int = SCHEMA_VERSION
    recipe: str = ""
    recipe_sha256: str = ""
    workload: str = ""
    baseline: str
    stack: tuple[str, ...]
    resolved: dict[str, dict[str, Any]]
    machine: dict[str, Any]
    environment: dict[str, str] = attrs.field(factory=dict)
    data: dict[str, tuple[str, ...]]
    input: StepPart
    dispatch: StepPart
    compute: StepPart
    bounds: Bounds
    rounds: tuple[Round, ...]
    epoch_parts: tuple[EpochPart, ...] = ()
    estimate: Estimate | None = None
    suggestions: tuple[Suggestion, ...] = ()
    proposed_stack: tuple[str, ...] = ()
    silent: tuple[NoAnswer, ...] = ()
    warnings: tuple[str, ...] = ()
    measuring_seconds: float
    seconds: float = 0.0


@attrs.frozen
class PartsMeasured(Message):
    """A diagnosis before the plugins are asked for suggestions."""

    diagnosed: Diagnosed


@attrs.frozen
class PluginAsked(Message):
    """This plugin is asked for suggestions."""

    plugin: str
