"""Shuffle: examples are shuffled where they are still small."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from tfopt_core.data import Map, random_ops
from tfopt_core.data import Shuffle as ShuffleStage
from tfopt_core.plugins import DataPlan, Diagnosis, RunContext, Split, plugin, setting
from tfopt_data.rewrite import Rewrite, RewritingPlugin, chosen_otherwise

# A buffer that takes more of the free memory than this is worth the move by itself.
HEAVY_SHARE = 0.1

BufferSize = int | Literal["auto", "all"]


def with_shuffle_up(plan: DataPlan, buffer_size: BufferSize = "auto") -> Rewrite:
    """The plan with its shuffle before the maps and filters that it stood behind.

    It is moved up to the source, or as far as the stages work on single elements and yield the
    same each time. It never passes a cache, which would freeze the order, nor a repeat, take or
    batch, which would train on other examples, and stays where a take or the like follows it.

    :param buffer_size: elements to shuffle among; "auto" takes all where the source is in memory
        anyway (arrays, paths, numbers), and else leaves the size.
    """
    place = plan.find(ShuffleStage)
    if place is None:
        return Rewrite(plan, reason="the workload does not shuffle")
    stage = plan.stages[place]
    assert isinstance(stage, ShuffleStage)
    target = _furthest_up(plan, place)
    passed = [other for other in plan.stages[target:place] if not other.neutral]
    at_source = target == 1 and _is_in_memory(plan)
    size = stage.buffer_size
    if buffer_size == "all" or (buffer_size == "auto" and at_source):
        size = None
    elif buffer_size != "auto":
        size = buffer_size
    count = plan.upto(place).cardinality
    own = stage.buffer_size
    takes_all = own is not None and count is not None and own >= count
    resized = size != own and not (size is None and takes_all)
    if not passed and not resized:
        return Rewrite(plan, reason=_stays(plan, place))
    chosen = chosen_otherwise(plan.stages[place + 1 :])
    if chosen:
        return Rewrite(plan, reason=f"{stage.describe()}: {chosen}")
    moved = attrs.evolve(stage, buffer_size=size)
    others = [other for other in plan.stages if other is not stage]
    others.insert(target if passed else place, moved)
    done = moved.describe()
    if passed:
        done += f", before {passed[0].describe()}"
    return Rewrite(plan.with_stages(tuple(others)), done=done)


def _furthest_up(plan: DataPlan, place: int) -> int:
    target = place
    while target > 1:
        stage = plan.stages[target - 1]
        passes = stage.neutral or (stage.elementwise and stage.yields != "new")
        if not passes or random_ops(plan, target - 1):
            break
        target -= 1
    return target


def _is_in_memory(plan: DataPlan) -> bool:
    """Whether a shuffle of the source holds no more than the source itself does."""
    source = plan.source
    if source.origin == "zip":
        return all(len(part.stages) == 1 and _is_in_memory(part) for part in source.parts)
    return source.random_access


def _stays(plan: DataPlan, place: int) -> str:
    before = plan.stages[place - 1]
    if place == 1:
        return "it stands at the source already"
    if random_ops(plan, place - 1):
        return f'"{before.describe()}" before it draws at random, so it would draw for others'
    return f'"{before.describe()}" before it must come first'


@plugin
class Shuffle(RewritingPlugin):
    """Shuffles paths, indices or raw records instead of decoded examples.

    What it does: moves the workload's shuffle up to the source, before the deterministic maps and
    filters that it stood behind. Where the source is in memory anyway its buffer then takes all
    of it.

    Why it helps: the buffer holds references or paths instead of decoded examples, which frees
    memory and spares the wait for it to fill; and a buffer over everything shuffles better.

    When it does not: where the shuffle stands at the source already, as tfopt's own does for
    arrays; behind a cache, where it holds what is in memory anyway; before a take or skip, which
    would choose other examples.

    Mixes with: cache, which moves maps before the shuffle again, so with it there is little to
    gain; parallel-map.

    Reference: https://www.tensorflow.org/guide/data_performance#reducing_memory_footprint
    """

    targets = ("input", "memory")
    _sign = "Shuffle"
    equivalence = "order"  # the same examples, shuffled otherwise

    buffer_size: BufferSize = setting(
        default="auto",
        help="Examples to shuffle among; auto takes all where the source holds them in memory "
        "anyway, and else leaves the workload's number.",
    )

    @buffer_size.validator
    def _check_buffer_size(self, _: Any, value: int | str) -> None:
        if isinstance(value, int) and value < 1:
            raise ValueError(f'buffer_size must be at least 1, "auto" or "all", got {value}')

    def suggest(self, diagnosis: Diagnosis) -> dict[str, Any] | None:
        """Where decoded examples wait in the buffer of a shuffle."""
        plan = diagnosis.plans.get("train")
        if plan is None:
            return None
        place = plan.find(ShuffleStage)
        if place is None or not any(isinstance(stage, Map) for stage in plan.stages[:place]):
            return None
        shuffle = plan.stages[place]
        count = plan.examples if shuffle.buffer_size is None else shuffle.buffer_size
        if count is None or diagnosis.example_bytes is None:
            return None
        held = count * diagnosis.example_bytes
        return {} if held > HEAVY_SHARE * diagnosis.available_memory_bytes else None

    def _rewritten(self, run: RunContext, split: Split, plan: DataPlan) -> Rewrite:
        return with_shuffle_up(plan, self.buffer_size)

    def by_hand(self) -> str:
        """The same in plain code."""
        size = self.buffer_size if isinstance(self.buffer_size, int) else "train.cardinality()"
        return f"train = train.shuffle({size})  # before the batch"
