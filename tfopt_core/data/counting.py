"""How many elements stages yield, and whether these are batches. No TensorFlow."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from tfopt_core.data.stages import (
    Batch,
    EvenSteps,
    Filter,
    Interleave,
    Map,
    Opaque,
    PartOfBatch,
    PartOfExamples,
    PartOfSource,
    Repeat,
    Shard,
    Skip,
    Source,
    Stage,
    Take,
    TakeWhile,
    Unbatch,
    Window,
)


@attrs.frozen
class Count:
    """What stages yield: `elements` of them; `examples` before they were put into batches, None
    where that is unknown; and, where batches hold known examples, how many, as `inside`.

    Once the data are `shared` out, `examples` and `batch_size` are those of all workers together,
    and the others those of this worker.
    """

    elements: int | None
    examples: int | None
    inside: int | None = None
    batched: bool = False
    batch_size: int | None = None
    shared: bool = False


def counted(stages: Sequence[Stage]) -> Count:
    """Follow the number of elements through these stages, the source first."""
    source = stages[0]
    assert isinstance(source, Source)
    count = Count(source.count, source.count, batched=source.batched)
    for stage in stages[1:]:
        count = _after(count, stage)
    return count


def examples_begin(stages: Sequence[Stage]) -> int:
    """The index of the first stage whose input are the examples that are trained on: behind
    every stage that makes several elements of one, or one of several, before they are batched."""
    begin = 1
    for index, stage in enumerate(stages):
        if isinstance(stage, Batch) and not any(isinstance(s, Unbatch) for s in stages[index:]):
            break
        if isinstance(stage, Interleave | Opaque | TakeWhile | Unbatch | Window):
            begin = index + 1
    return begin


def _after(count: Count, stage: Stage) -> Count:
    match stage:
        case Batch():
            return _batched(count, stage)
        case PartOfBatch():
            return attrs.evolve(count, inside=None, shared=True)
        case PartOfExamples() | PartOfSource():
            return _of_worker(count, stage)
        case EvenSteps(batches=batches):
            return attrs.evolve(count, elements=batches, inside=None)
        case Unbatch():
            elements = count.inside
            return Count(elements, elements)
        case Window():
            return _of_elements(count, _windows(count.elements, stage))
        case Map() if count.batched:
            return attrs.evolve(count, inside=None)  # it may make batches of another size
        case Filter() | TakeWhile() | Interleave() | Opaque():
            return _of_elements(count, None)
        case Repeat():
            return _repeated(count, stage)
        case Take() | Skip() | Shard():
            return _of_elements(count, _chosen(count.elements, stage))
    return count


def _of_elements(count: Count, elements: int | None) -> Count:
    """Another number of elements; what they are batches of is not followed further."""
    if count.batched:
        return attrs.evolve(count, elements=elements, inside=None)
    # of a part it is not known what becomes of the others'
    return attrs.evolve(count, elements=elements, examples=None if count.shared else elements)


def _batched(count: Count, stage: Batch) -> Count:
    elements = inside = None
    if count.elements is not None:
        whole = count.elements // stage.size
        elements = whole if stage.drop_remainder else math.ceil(count.elements / stage.size)
        inside = whole * stage.size if stage.drop_remainder else count.elements
    examples = count.examples if count.batched or count.shared else count.elements
    return Count(
        elements, examples, inside, batched=True, batch_size=stage.of or stage.size,
        shared=count.shared,
    )  # fmt: skip


def _of_worker(count: Count, stage: PartOfExamples | PartOfSource) -> Count:
    """A part of the elements; the examples stay those of all workers."""
    elements = None if count.elements is None else stage.left_of(count.elements)
    return attrs.evolve(count, elements=elements, inside=None, shared=True)


def _repeated(count: Count, stage: Repeat) -> Count:
    def times(number: int | None) -> int | None:
        return None if number is None or stage.count is None else number * stage.count

    return attrs.evolve(
        count,
        elements=times(count.elements),
        inside=times(count.inside),
        examples=count.examples if count.batched else times(count.examples),
    )


def _chosen(elements: int | None, stage: Take | Skip | Shard) -> int | None:
    match stage:
        case Take(count=count):
            # of an endless source too, a known number is taken; of an unknown one, at most that
            return elements if count < 0 or elements is None else min(elements, count)
        case Skip(count=count):
            if count < 0:
                return 0
            return None if elements is None else max(0, elements - count)
        case Shard(count=count, index=index):
            return None if elements is None else max(0, math.ceil((elements - index) / count))


def _windows(elements: int | None, stage: Window) -> int | None:
    """A window begins at every `shift`-th element; a whole one spans (size - 1) strides."""
    if elements is None:
        return None
    shift = stage.size if stage.shift is None else stage.shift
    if stage.drop_remainder:
        spanned = (stage.size - 1) * stage.stride + 1
        return max(0, (elements - spanned) // shift + 1)
    return math.ceil(elements / shift)
