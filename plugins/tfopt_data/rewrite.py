"""What a plugin of this folder made of a data plan, and how it reports that at the run's end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, TypeVar

import attrs
from attrs import validators

from tfopt_core.data import COMPUTED_FROM, Stage, datasets, has_stage, split_map
from tfopt_core.plugins import (
    DataPlan,
    Diagnosis,
    Effect,
    Plugin,
    RunContext,
    Split,
    hookimpl,
    setting,
)  # fmt: skip
from tfopt_core.toolkit import why_without

# An input that takes less than this share of a step is not worth a plugin.
WORTH_SHARE = 0.05

AnyStage = TypeVar("AnyStage", bound=Stage)


@attrs.frozen(eq=False)
class Rewrite:
    """A plan after a plugin looked at it: `done` says what changed, `reason` why nothing did.

    `confirmed` reads back from the lowered data that the change is in them, where the plugin's
    usual sign of it is not.
    """

    plan: DataPlan
    done: str = ""
    reason: str = ""
    confirmed: Callable[[Any], bool] | None = None


class RewritingPlugin(Plugin):
    """A plugin that rewrites the plan of each split, or only of those in its setting `splits`, and
    reads back that the rewrite is in the lowered data.

    A subclass overrides `_rewritten`, and sets `_sign` or overrides `report_effect`.
    """

    __slots__ = ()

    # a word in the class name of the tf.data stage that must be there
    _sign: ClassVar[str]

    def _rewritten(self, run: RunContext, split: Split, plan: DataPlan) -> Rewrite:
        raise NotImplementedError

    @hookimpl
    def build_dataset(self, run: RunContext, split: Split, plan: DataPlan) -> DataPlan:
        """Rewrite the plan of the split."""
        if split not in getattr(self, "splits", (split,)):
            return remember(self, run, split, Rewrite(plan, reason='not among "splits"'))
        return remember(self, run, split, self._rewritten(run, split, plan))

    @hookimpl
    def report_effect(self, run: RunContext) -> Effect:
        """Read back from the lowered data whether the stage is in them."""
        return effect(self, run, self._sign)


def remember(plugin: Any, run: RunContext, split: str, rewrite: Rewrite) -> DataPlan:
    """Keep what a plugin did for its `effect`. Return the plan."""
    run.state_of(plugin).setdefault("rewrites", {})[split] = rewrite
    return rewrite.plan


def effect(plugin: Any, run: RunContext, stage: str) -> Effect:
    """Return which splits were rewritten, read back from the lowered data.

    :param stage: a word in the class name of the tf.data stage that must be there.
    """
    is_there = seen_through(lambda data: has_stage(data, stage))
    return effect_if(plugin, run, is_there, f'no stage "{stage}"')


def effect_if(
    plugin: Any, run: RunContext, is_there: Callable[[Any], bool], missing: str
) -> Effect:
    """Return which splits were rewritten, as far as the lowered data confirm it.

    :param is_there: whether a lowered data set has what the rewrite gave it.
    :param missing: what the data hold instead, for the reason: `no stage "Cache"`.
    """
    rewrites: dict[str, Rewrite] = run.state_of(plugin).get("rewrites", {})
    done, reasons = [], []
    for split, rewrite in rewrites.items():
        if not rewrite.done:
            reasons.append(f"{split}: {rewrite.reason}")
        elif (rewrite.confirmed or is_there)(run.datasets[split]):
            done.append(f"{split}: {rewrite.done}")
        elif lost := why_without("data-sets"):  # they do not tell what they are made from
            reasons.append(f"{split}: it cannot be read back; {lost}")
        else:
            reasons.append(f"{split}: the lowered data hold {missing}")
    if done:
        return Effect.applied_as("; ".join([*done, *reasons]))
    return Effect.not_applied("; ".join(reasons) or "no data set was built")


def seen_through(is_there: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Whether a lowered data set, or one whose elements it was given by a data service or out of
    the device's memory, has something: those have no inputs, and keep it as `computed_from`."""

    def anywhere(dataset: Any) -> bool:
        if is_there(dataset):
            return True
        below = (getattr(part, COMPUTED_FROM, None) for part in datasets(dataset))
        return any(anywhere(part) for part in below if part is not None)

    return anywhere


def stages_of(plan: DataPlan, kind: type[AnyStage]) -> Iterator[AnyStage]:
    """Every stage of this kind, those of the plans in a zip or concatenation too."""
    for part in plan.source.parts:
        yield from stages_of(part, kind)
    for stage in plan.stages:
        if isinstance(stage, kind):
            yield stage


def chosen_otherwise(behind: Iterable[Stage]) -> str:
    """Why the stages behind one stand against another order of its elements, "" if none does."""
    for stage in behind:
        if stage.chooses:
            return f'"{stage.describe()}" behind it would choose other examples'
    return ""


def in_parts(plan: DataPlan, rewrite: Callable[[DataPlan], DataPlan]) -> DataPlan:
    """The plan with `rewrite` applied to every plan that its source puts together, if it does.

    A plan whose parts all stay as they are is returned as it is.
    """
    source = plan.source
    parts = tuple(rewrite(part) for part in source.parts)
    if all(new is old for new, old in zip(parts, source.parts, strict=True)):
        return plan
    return plan.with_stages((attrs.evolve(source, value=parts), *plan.stages[1:]))


def with_split_maps(plan: DataPlan) -> DataPlan:
    """The plan with each map that draws at random as two, where that is worth it: what it computes
    before, and the rest."""
    for index in reversed(range(len(plan.stages))):
        plan = split_map(plan, index) or plan
    return plan


def splits_setting(default: tuple[Split, ...], help: str) -> Any:
    """Return the setting `splits`: which data are rewritten."""
    return setting(default=default, converter=tuple, validator=validators.min_len(1), help=help)


def costly_input(diagnosis: Diagnosis) -> DataPlan | None:
    """Return the training data's plan if the input takes time from the steps, else None."""
    plan: DataPlan | None = diagnosis.plans.get("train")
    return plan if plan is not None and input_matters(diagnosis) else None


def input_matters(diagnosis: Diagnosis) -> bool:
    """Whether a step waits for its input, or the input takes CPU time from the step."""
    least = WORTH_SHARE * diagnosis.step_seconds
    return max(diagnosis.input_seconds, diagnosis.data_seconds) > least
