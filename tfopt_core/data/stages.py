"""The stages of an input pipeline, as data. No TensorFlow: `lower` turns them into tf.data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import attrs

if TYPE_CHECKING:
    from tfopt_core.data.plan import DataPlan

Parallelism = int | Literal["auto"] | None
# Where elements come from. The value of "arrays" is a structure whose leaves share their first
# axis, of "tensors" a single element, of "range" (start, stop, step), of "zip" and "concatenate"
# a tuple of plans, of "dataset" a `tf.data.Dataset` that tfopt does not look into.
Origin = Literal[
    "arrays", "tensors", "range", "dataset", "generator", "pydataset", "zip", "concatenate"
]


@attrs.frozen(kw_only=True, eq=False)
class Stage:
    """One step of a pipeline.

    `deterministic` says whether the stage yields the same elements in the same order each time
    it is iterated; None means that this depends on a function that was not looked into yet
    (`determinism.random_ops` does).
    """

    kind: ClassVar[str] = "stage"
    deterministic: bool | None = True

    def describe(self) -> str:
        """The stage in one line, as `tfopt plan` prints it."""
        return self.kind


@attrs.frozen(kw_only=True, eq=False)
class Source(Stage):
    """Where examples come from. `count` is the number of elements, None where unknown.

    `batched` sources yield batches; `random_access` ones hold all examples, so shuffling
    them costs nothing but the references.
    """

    kind: ClassVar[str] = "source"
    value: Any
    origin: Origin
    count: int | None = None
    batched: bool = False
    signature: Any = None

    @property
    def random_access(self) -> bool:
        """Whether the elements can be shuffled before anything is computed from them."""
        return self.origin in ("arrays", "range")

    @property
    def parts(self) -> tuple[DataPlan, ...]:
        """The plans that a "zip" or "concatenate" source puts together, () for others."""
        return self.value if self.origin in ("zip", "concatenate") else ()

    def describe(self) -> str:
        unit = "batches" if self.batched else "examples"
        size = f"{self.count:,} {unit}" if self.count is not None else f"unknown number of {unit}"
        if self.parts:
            inner = "; ".join(", ".join(part.describe()) for part in self.parts)
            return f"source: {self.origin} of [{inner}], {size}"
        return f"source: {self.origin}, {size}"


@attrs.frozen(kw_only=True, eq=False)
class Map(Stage):
    """A function of one element. `parallel` calls run at once; `ordered` keeps their order."""

    function: Callable[..., Any]
    deterministic: bool | None = None
    parallel: Parallelism = None
    ordered: bool = True

    def describe(self) -> str:
        words: dict[Parallelism, str] = {None: "sequential", "auto": "parallel, AUTOTUNE"}
        calls = words.get(self.parallel, f"{self.parallel} in parallel")
        order = "" if self.ordered else ", any order"
        return f"{self.kind}: {function_name(self.function)} ({calls}{order})"


@attrs.frozen(kw_only=True, eq=False)
class MapExamples(Map):
    """A map over single examples, before batching."""

    kind: ClassVar[str] = "map_examples"


@attrs.frozen(kw_only=True, eq=False)
class MapBatches(Map):
    """A map over whole batches."""

    kind: ClassVar[str] = "map_batches"


@attrs.frozen(kw_only=True, eq=False)
class Filter(Stage):
    """Keeps the elements for which the predicate is true."""

    kind: ClassVar[str] = "filter"
    function: Callable[..., Any]
    deterministic: bool | None = None

    def describe(self) -> str:
        return f"filter: {function_name(self.function)}"


@attrs.frozen(kw_only=True, eq=False)
class Shuffle(Stage):
    """Shuffles through a buffer; `buffer_size` None means all elements, where their number is
    known, and 10,000 else. A `seed` pair is what tf.data made of the global and the op's seed."""

    kind: ClassVar[str] = "shuffle"
    buffer_size: int | None = None
    seed: int | tuple[int, int] | None = None
    reshuffle: bool = True
    deterministic: bool | None = attrs.field(init=False)

    @deterministic.default
    def _is_deterministic(self) -> bool:
        return not self.reshuffle and self.seed is not None

    def describe(self) -> str:
        buffer = "all examples" if self.buffer_size is None else f"buffer of {self.buffer_size:,}"
        return f"shuffle: {buffer}" + (", anew each epoch" if self.reshuffle else "")


@attrs.frozen(kw_only=True, eq=False)
class Repeat(Stage):
    """Repeats the data; `count` None means without end."""

    kind: ClassVar[str] = "repeat"
    count: int | None = None

    def describe(self) -> str:
        return "repeat: without end" if self.count is None else f"repeat: {self.count} times"


@attrs.frozen(kw_only=True, eq=False)
class Cache(Stage):
    """Keeps elements after their first computation, in memory or in files under `path`."""

    kind: ClassVar[str] = "cache"
    path: Path | None = None

    def describe(self) -> str:
        return "cache: in memory" if self.path is None else "cache: on disk"


@attrs.frozen(kw_only=True, eq=False)
class Batch(Stage):
    """Puts `size` examples into one batch."""

    kind: ClassVar[str] = "batch"
    size: int
    drop_remainder: bool = False

    def describe(self) -> str:
        return f"batch: {self.size}" + (", remainder dropped" if self.drop_remainder else "")


@attrs.frozen(kw_only=True, eq=False)
class PaddedBatch(Batch):
    """A batch whose examples are padded to one shape: to `shapes`, or to the longest of each
    batch where that is None; with `values`, or zeros where that is None."""

    kind: ClassVar[str] = "padded_batch"
    shapes: Any = None
    values: Any = None


@attrs.frozen(kw_only=True, eq=False)
class RaggedBatch(Batch):
    """A batch of examples of different lengths, as ragged tensors."""

    kind: ClassVar[str] = "ragged_batch"


@attrs.frozen(kw_only=True, eq=False)
class Unbatch(Stage):
    """Takes batches apart into examples."""

    kind: ClassVar[str] = "unbatch"


@attrs.frozen(kw_only=True, eq=False)
class Window(Stage):
    """Data sets of `size` elements each, that begin `shift` apart and take every `stride`-th."""

    kind: ClassVar[str] = "window"
    size: int
    shift: int | None = None
    stride: int = 1
    drop_remainder: bool = False

    def describe(self) -> str:
        return f"window: {self.size}" + (", remainder dropped" if self.drop_remainder else "")


@attrs.frozen(kw_only=True, eq=False)
class Interleave(Stage):
    """Reads `cycle_length` data sets in turn, each made by the function from one element.

    A `cycle_length` of 1 reads them one after another, which is tf.data's flat_map.
    """

    kind: ClassVar[str] = "interleave"
    function: Callable[..., Any]
    cycle_length: int | None = None
    block_length: int = 1
    parallel: Parallelism = None
    ordered: bool = True
    deterministic: bool | None = None

    def describe(self) -> str:
        if self.cycle_length == 1:
            return f"interleave: {function_name(self.function)}, one after another"
        return f"interleave: {function_name(self.function)}"


@attrs.frozen(kw_only=True, eq=False)
class Take(Stage):
    """The first `count` elements."""

    kind: ClassVar[str] = "take"
    count: int

    def describe(self) -> str:
        return f"take: {self.count:,}"


@attrs.frozen(kw_only=True, eq=False)
class TakeWhile(Stage):
    """The elements before the first for which the predicate is false."""

    kind: ClassVar[str] = "take_while"
    function: Callable[..., Any]
    deterministic: bool | None = None

    def describe(self) -> str:
        return f"take_while: {function_name(self.function)}"


@attrs.frozen(kw_only=True, eq=False)
class Skip(Stage):
    """All elements but the first `count`."""

    kind: ClassVar[str] = "skip"
    count: int

    def describe(self) -> str:
        return f"skip: {self.count:,}"


@attrs.frozen(kw_only=True, eq=False)
class Shard(Stage):
    """Every `count`-th element, beginning with that at `index`."""

    kind: ClassVar[str] = "shard"
    count: int
    index: int

    def describe(self) -> str:
        return f"shard: {self.index + 1} of {self.count}"


@attrs.frozen(kw_only=True, eq=False)
class Prefetch(Stage):
    """Computes elements ahead of their use. One that a plugin adds is lowered last, wherever it
    is put; one that stood `inside` a given pipeline stays in its place.

    `device` names the device into whose memory the elements are copied, None for none.
    """

    kind: ClassVar[str] = "prefetch"
    buffer_size: int | Literal["auto"] = "auto"
    inside: bool = False
    device: str | None = None

    def describe(self) -> str:
        size = "AUTOTUNE" if self.buffer_size == "auto" else str(self.buffer_size)
        return f"prefetch: {size}" + (f", to {self.device}" if self.device else "")


@attrs.frozen(kw_only=True, eq=False)
class Autotune(Stage):
    """How tf.data tunes the whole pipeline while it runs; None leaves its own choice."""

    kind: ClassVar[str] = "autotune"
    enabled: bool | None = None
    cpu_budget: int | None = None
    ram_budget_bytes: int | None = None

    def describe(self) -> str:
        if self.enabled is False:
            return "autotune: off"
        budgets = []
        if self.cpu_budget is not None:
            budgets.append(f"{self.cpu_budget} CPUs")
        if self.ram_budget_bytes is not None:
            budgets.append(f"{self.ram_budget_bytes / 2**20:,.0f} MiB")
        return "autotune: " + (", ".join(budgets) or "on")


@attrs.frozen(kw_only=True, eq=False)
class Options(Stage):
    """The `tf.data.Options` that a given pipeline carries."""

    kind: ClassVar[str] = "options"
    options: Any

    def describe(self) -> str:
        return "options"


@attrs.define(eq=False)
class Held:
    """What a `Resident` stage holds once its plan was lowered: a structure of tensors whose
    leaves share their first axis, and their number of elements."""

    tensors: Any = None
    count: int | None = None


@attrs.frozen(kw_only=True, eq=False)
class Resident(Stage):
    """Computes all elements so far once, and keeps them as tensors in the device's memory.

    Lowering fills `held`; a resident loop gathers its batches from there, and any other loop
    reads them as a data set of slices. `device` None leaves them where TensorFlow puts them.
    """

    kind: ClassVar[str] = "resident"
    device: str | None = None
    held: Held = attrs.field(factory=Held, repr=False)

    def describe(self) -> str:
        return f"resident: in the memory of {self.device or 'the device'}"


@attrs.frozen(kw_only=True, eq=False)
class Opaque(Stage):
    """A function from data set to data set that tfopt does not look into."""

    kind: ClassVar[str] = "opaque"
    function: Callable[[Any], Any]
    deterministic: bool | None = False

    def describe(self) -> str:
        return f"opaque: {function_name(self.function)}"


def function_name(function: Any) -> str:
    """How a function is called in the code, its module left out."""
    name = getattr(function, "__qualname__", None) or type(function).__name__
    return str(name).replace("<locals>.", "")
