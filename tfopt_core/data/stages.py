"""Stages that choose and order elements, or change how a pipeline runs, and compute nothing."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import attrs

from tfopt_core.data.dissect.walk import shuffled
from tfopt_core.data.stage import Count, SameElements, Stage
from tfopt_core.errors import WorkloadError
from tfopt_core.lazy import tf

# The shuffle buffer, in examples, if their number is unknown.
UNKNOWN_COUNT_BUFFER = 10_000
# A seed pair that has tf.data draw a new seed each time.
NEW_SEED = (0, 0)
# The attribute of a data set copied to a device: the stage that did it, and the data before it.
COPIED = "_tfopt_copied"


@attrs.frozen(kw_only=True, eq=False)
class Shuffle(SameElements, kind="shuffle", order="shuffled", cheap=True):
    """Shuffles through a buffer; `buffer_size` None means all elements if their number is known,
    else 10,000. A `seed` pair is what tf.data made of the global seed and the op's."""

    buffer_size: int | None = None
    seed: int | tuple[int, int] | None = None
    reshuffle: bool = True
    deterministic: bool | None = attrs.field(init=False)

    @deterministic.default
    def _is_deterministic(self) -> bool:
        return not self.reshuffle and self.seed not in (None, NEW_SEED)

    @property
    def holds(self) -> int | None:
        return self.buffer_size

    def lower(self, dataset: Any) -> Any:
        size = self.buffer_size
        if size is None:
            # elements are never counted, which may take as long as an epoch, or for ever
            count = int(dataset.cardinality())
            size = UNKNOWN_COUNT_BUFFER if count < 0 else max(1, count)
        if isinstance(self.seed, tuple):
            return shuffled(dataset, size, self.seed, self.reshuffle)
        return dataset.shuffle(size, seed=self.seed, reshuffle_each_iteration=self.reshuffle)

    def describe(self) -> str:
        buffer = "all examples" if self.buffer_size is None else f"buffer of {self.buffer_size:,}"
        return f"shuffle: {buffer}" + (", anew each epoch" if self.reshuffle else "")


@attrs.frozen(kw_only=True, eq=False)
class Repeat(Stage, kind="repeat", yields="some", order="kept", chooses=False, stops_early=False):
    """Repeats the data; `count` None means without end."""

    deterministic: bool | None = True
    count: int | None = None

    def lower(self, dataset: Any) -> Any:
        return dataset.repeat(self.count)

    def count_after(self, before: Count) -> Count:
        return attrs.evolve(
            before,
            elements=self._times(before.elements),
            inside=self._times(before.inside),
            examples=before.examples if before.batched else self._times(before.examples),
        )

    def _times(self, number: int | None) -> int | None:
        return None if number is None or self.count is None else number * self.count

    def describe(self) -> str:
        return "repeat: without end" if self.count is None else f"repeat: {self.count} times"


@attrs.frozen(kw_only=True, eq=False)
class Take(Stage, kind="take", yields="some", order="kept"):
    """The first `count` elements; all if it is negative."""

    deterministic: bool | None = True
    count: int

    def lower(self, dataset: Any) -> Any:
        return dataset.take(self.count)

    def count_after(self, before: Count) -> Count:
        # of an endless source too, a known number is taken; of an unknown one, at most that
        if self.count < 0 or before.elements is None:
            return before.with_elements(before.elements)
        return before.with_elements(min(before.elements, self.count))

    def describe(self) -> str:
        return f"take: {self.count:,}" if self.count >= 0 else "take: all"


@attrs.frozen(kw_only=True, eq=False)
class Skip(Stage, kind="skip", yields="some", order="kept", stops_early=False):
    """All elements except the first `count`; none if it is negative."""

    deterministic: bool | None = True
    count: int

    def lower(self, dataset: Any) -> Any:
        return dataset.skip(self.count)

    def count_after(self, before: Count) -> Count:
        if self.count < 0:
            return before.with_elements(0)
        left = None if before.elements is None else max(0, before.elements - self.count)
        return before.with_elements(left)

    def describe(self) -> str:
        return f"skip: {self.count:,}" if self.count >= 0 else "skip: all"


@attrs.frozen(kw_only=True, eq=False)
class Shard(Stage, kind="shard", yields="some", order="kept", stops_early=False):
    """Every `count`-th element, beginning with that at `index`."""

    deterministic: bool | None = True
    count: int
    index: int

    def lower(self, dataset: Any) -> Any:
        return dataset.shard(self.count, self.index)

    def count_after(self, before: Count) -> Count:
        if before.elements is None:
            return before.with_elements(None)
        return before.with_elements(max(0, math.ceil((before.elements - self.index) / self.count)))

    def describe(self) -> str:
        return f"shard: {self.index + 1} of {self.count}"


@attrs.frozen(kw_only=True, eq=False)
class Cache(SameElements, kind="cache"):
    """Keeps elements after their first computation, in memory or in files under `path`."""

    path: Path | None = None

    @property
    def fills(self) -> bool:
        return True

    @property
    def holds(self) -> int | None:
        return None if self.path is None else 0

    def lower(self, dataset: Any) -> Any:
        return dataset.cache("" if self.path is None else str(self.path))

    def describe(self) -> str:
        return "cache: in memory" if self.path is None else "cache: on disk"


@attrs.frozen(kw_only=True, eq=False)
class Prefetch(SameElements, kind="prefetch", neutral=True):
    """Computes elements ahead of their use. A prefetch of a plugin is lowered last,
    wherever it is put; one `inside` a given pipeline stays in its place.

    `device` names the device into whose memory the elements are copied, None for none.
    """

    buffer_size: int | Literal["auto"] = "auto"
    inside: bool = False
    device: str | None = None

    def lower(self, dataset: Any) -> Any:
        size = tf.data.AUTOTUNE if self.buffer_size == "auto" else self.buffer_size
        if self.device is None:
            return dataset.prefetch(size)
        ahead = dataset.apply(tf.data.experimental.prefetch_to_device(self.device, size))
        ahead.cardinality = dataset.cardinality  # TF 2.21 calls it unknown, and `fit` then warns
        vars(ahead)[COPIED] = self, dataset  # past the attributes that TensorFlow tracks
        return ahead

    def describe(self) -> str:
        size = "AUTOTUNE" if self.buffer_size == "auto" else str(self.buffer_size)
        return f"prefetch: {size}" + (f", to {self.device}" if self.device else "")


def before_copy(dataset: Any, change: Callable[[Any], Any]) -> Any:
    """Return the changed data set. A copy to a device stays last: behind one to a GPU, a stage
    such as `map` or `repeat`, which runs on the CPU, fails."""
    stage, uncopied = vars(dataset).get(COPIED, (None, dataset))
    return change(uncopied) if stage is None else stage.lower(change(uncopied))


@attrs.frozen(kw_only=True, eq=False)
class Autotune(SameElements, kind="autotune", neutral=True):
    """Sets how tf.data tunes the pipeline while it runs; None leaves its default."""

    enabled: bool | None = None
    cpu_budget: int | None = None
    ram_budget_bytes: int | None = None

    def lower(self, dataset: Any) -> Any:
        options = tf.data.Options()
        for name, value in (
            ("enabled", self.enabled),
            ("cpu_budget", self.cpu_budget),
            ("ram_budget", self.ram_budget_bytes),
        ):
            if value is not None:
                setattr(options.autotune, name, value)
        return dataset.with_options(options)

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
class Options(SameElements, kind="options", neutral=True):
    """`tf.data.Options`, which hold for the whole pipeline wherever they stand."""

    options: Any

    def lower(self, dataset: Any) -> Any:
        return dataset.with_options(self.options)

    def describe(self) -> str:
        return f"options: {', '.join(_changed(self.options, type(self.options)())) or 'none'}"


def _changed(options: Any, default: Any, within: str = "") -> Iterator[str]:
    """Yield the options that are set: `deterministic=False`, `autotune.enabled=False`."""
    properties = vars(type(options))
    for name, one in properties.items():
        renamed = name.startswith("experimental_") and name.partition("_")[2] in properties
        if not isinstance(one, property) or renamed:
            continue
        value, usual = getattr(options, name), getattr(default, name)
        if any(isinstance(each, property) for each in vars(type(value)).values()):
            yield from _changed(value, usual, f"{within}{name}.")
        elif value != usual:
            yield f"{within}{name}={value}"


@attrs.frozen(kw_only=True, eq=False)
class Part(Stage, yields="some", order="kept", stops_early=False):
    """The data of the worker at `index` among `count` that train one model; None for all of them.

    After it, a plan still counts the examples and the batch sizes of all workers together.
    """

    deterministic: bool | None = True
    count: int
    index: int | None

    @property
    def whose(self) -> str:
        """The worker in messages: `1 of 2 workers`."""
        return f"{'one' if self.index is None else self.index + 1} of {self.count} workers"

    @abstractmethod
    def left_of(self, elements: int) -> int:
        """Return how many of these elements are the worker's."""

    def count_after(self, before: Count) -> Count:
        elements = None if before.elements is None else self.left_of(before.elements)
        return attrs.evolve(before, elements=elements, inside=None, shared=True)


@attrs.frozen(kw_only=True, eq=False)
class EvenSteps(Stage, kind="even_steps", order="kept", chooses=False, stops_early=False):
    """Exactly `batches` batches, the same number on every worker; missing ones are empty."""

    deterministic: bool | None = True
    batches: int

    def lower(self, dataset: Any) -> Any:
        """Return the batches, cut off or followed by empty ones.

        It reads one batch more than it yields: a cache before this stage, or a file, is complete
        only once its end was read. Else the worker would compute and shuffle its data anew in each
        epoch.

        :raises WorkloadError: for batches of which no empty one can be made.
        """
        empty = tf.nest.map_structure(_empty, dataset.element_spec)
        filling = tf.data.Dataset.from_tensors(empty).repeat()
        numbered = tf.data.Dataset.zip(
            (dataset.concatenate(filling), tf.data.Dataset.range(self.batches))
        )
        return numbered.map(lambda batch, _: batch)

    def count_after(self, before: Count) -> Count:
        return attrs.evolve(before, elements=self.batches, inside=None)

    def describe(self) -> str:
        return f"even steps: {self.batches:,} on every worker"


def _empty(spec: Any) -> Any:
    """Return a batch without rows; an axis of unknown length gets length 1, for the layers."""
    if not isinstance(spec, tf.TensorSpec) or not spec.shape.rank:
        raise WorkloadError(
            f"there is no empty batch of a {type(spec).__name__}, which a worker with fewer "
            'batches would need; set shard = "batch"'
        )
    return tf.zeros([0, *(size or 1 for size in spec.shape[1:])], spec.dtype)


def rows_of(rows: int, count: int, index: int) -> tuple[int, int]:
    """Return begin and end of a worker's rows of a batch; all parts in order are the batch."""
    return rows * index // count, rows * (index + 1) // count


def in_any_order(stages: Sequence[Stage]) -> list[Stage]:
    """Return the stages of a pipeline whose order may depend on timing.

    Options that allow any order apply to all stages.
    """
    any_order = any(
        isinstance(stage, Options) and stage.options.deterministic is False for stage in stages
    )
    return [stage for stage in stages if not stage.has_fixed_order(any_order)]
