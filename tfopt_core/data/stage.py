"""The base classes of the stages of an input pipeline, and the counts and changes of a sequence."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, ClassVar, Literal

import attrs

from tfopt_core.lazy import tf

Parallelism = int | Literal["auto"] | None
# The elements that a stage yields: "same", each that it is given, once and as it is; "mapped", one
# computed from each; "some", as they are, but maybe not each of them, or more than once; "new",
# anything else.
Yields = Literal["same", "mapped", "some", "new"]
# Their order: "kept"; "fixed", another that is always the same; "shuffled", drawn at random, anew
# each time unless the stage is deterministic; "unknown", where nobody can tell.
Order = Literal["kept", "fixed", "shuffled", "unknown"]


@attrs.frozen(kw_only=True, eq=False)
class Stage(ABC):
    """One step of a pipeline.

    A stage must define `lower` and `count_after`. The other facts are class attributes, which the
    line of the class may give: `class Take(Stage, kind="take", yields="some")`. Their defaults are
    cautious, so that no plugin moves, caches or shards a stage of which nothing is known:

    - `kind`: its name in messages and tables.
    - `yields`, `order`: see `Yields` and `Order`.
    - `neutral`: whether it says only how the pipeline runs, so that it may stand anywhere.
    - `computes`: whether it does work that is worth keeping in a cache.
    - `cheap`: whether it is never worth keeping, so that a cache stands before it.
    - `chooses`: whether the order of what it is given decides which elements it yields.
    - `stops_early`: whether it may stop reading before its input ends.

    The field `deterministic` says whether it yields the same elements in the same order each time
    it is iterated; None means that this depends on its `function`, which was not looked into yet
    (`anatomy.random_ops` does).
    """

    kind: ClassVar[str] = "stage"
    yields: ClassVar[Yields] = "new"
    order: ClassVar[Order] = "unknown"
    neutral: ClassVar[bool] = False
    computes: ClassVar[bool] = False
    cheap: ClassVar[bool] = False
    chooses: ClassVar[bool] = True
    stops_early: ClassVar[bool] = True

    deterministic: bool | None = False

    def __init_subclass__(cls, **facts: str | bool) -> None:
        super().__init_subclass__()
        for name, value in facts.items():
            setattr(cls, name, value)

    @abstractmethod
    def lower(self, dataset: Any, /) -> Any:
        """Return the `tf.data.Dataset` with this stage behind it."""

    @abstractmethod
    def count_after(self, before: Count) -> Count:
        """Return how much comes out of the stage, of what is known to go in."""

    @property
    def one_to_one(self) -> bool:
        """Whether it yields one element for each input element."""
        return self.yields in ("same", "mapped")

    @property
    def elementwise(self) -> bool:
        """Whether it treats each element separately: of a concatenation of two data sets it makes
        the concatenation of its results."""
        return False

    @property
    def fills(self) -> bool:
        """Whether the first epoch fills something that the later ones read."""
        return False

    @property
    def holds(self) -> int | None:
        """How many elements it holds in memory once it is full, None for all that pass."""
        return 0

    @property
    def tensors(self) -> Any:
        """The tensors of which its lowered form yields slices, in the structure of an element; None
        where it computes elements otherwise."""
        return None

    def emptied(self) -> Stage:
        """Return the stage without elements that its lowering has kept in this object."""
        return self

    def has_fixed_order(self, any_order: bool) -> bool:
        """Return whether the order of its elements never depends on timing.

        :param any_order: whether the options of the data set leave the order to chance.
        """
        return self.order != "unknown"

    def describe(self) -> str:
        """Return the stage in one line, as `tfopt plan` prints it."""
        return self.kind


@attrs.frozen(kw_only=True, eq=False)
class SameElements(Stage, yields="same", order="kept", chooses=False, stops_early=False):
    """A stage that yields its input elements unchanged."""

    deterministic: bool | None = True

    def count_after(self, before: Count) -> Count:
        return before


@attrs.frozen(kw_only=True, eq=False)
class ParallelStage(Stage):
    """A stage that runs `parallel` calls at once. `ordered` keeps the order of their results; None
    leaves that to the options of the data set."""

    parallel: Parallelism = None
    ordered: bool | None = True

    def has_fixed_order(self, any_order: bool) -> bool:
        ordered = not any_order if self.ordered is None else self.ordered
        return super().has_fixed_order(any_order) and (ordered or self.parallel is None)

    def calls(self) -> dict[str, Any]:
        """Return the arguments for parallel calls of a method of tf.data."""
        if self.parallel is None:
            return {}
        calls = tf.data.AUTOTUNE if self.parallel == "auto" else self.parallel
        return {"num_parallel_calls": calls, "deterministic": self.ordered}


@attrs.frozen(kw_only=True, eq=False)
class ModelStage(Stage):
    """A stage that computes with the model of the run.

    A plan is made before the model is built. Until `for_model` was called, `lower` hands its
    elements on as they are: plugins look at plans without a model.
    """

    @abstractmethod
    def for_model(self, model: Any) -> Stage | None:
        """Return the stage that computes with this model; None if it can do nothing for it.

        Core calls this once for each fit, after `wrap_model` and before the plan is lowered.
        """

    def on_batches(self, dataset: Any) -> Any:
        """Return a data set of batches with what the stage computes of each: that of `lower`.

        The certificate trains on batches that were read before this stage. A stage that keeps what
        it computes has a method of its own.
        """
        return self.lower(dataset)

    def release(self, model: Any) -> None:
        """Undo what `for_model` changed in the model; nothing, unless a stage changes it."""


@attrs.frozen
class Count:
    """The number of `elements` after a stage, of `examples` before batching, and of the examples
    `inside` batches; None if unknown.

    Once the data are `shared` among workers, `examples` and `batch_size` are those of all workers
    together, and the others those of this worker.
    """

    elements: int | None = None
    examples: int | None = None
    inside: int | None = None
    batched: bool = False
    batch_size: int | None = None
    shared: bool = False

    def with_elements(self, elements: int | None) -> Count:
        """Return the count with another number of elements, None if unknown.

        The number of examples inside batches is then unknown.
        """
        if self.batched:
            return attrs.evolve(self, elements=elements, inside=None)
        # the elements of the other workers are unknown
        return attrs.evolve(self, elements=elements, examples=None if self.shared else elements)


def counts(stages: Sequence[Stage]) -> list[Count]:
    """Return the count after each of these stages, the source first."""
    behind = accumulate(stages, lambda count, stage: stage.count_after(count), initial=Count())
    return list(behind)[1:]


def examples_begin(stages: Sequence[Stage]) -> int:
    """Return the index of the first stage whose input are the training examples: after the last
    stage that makes new elements before batching."""
    batched = [count.batched for count in counts(stages)]
    begin = 1
    for index, stage in enumerate(stages[1:], start=1):
        if not batched[index - 1] and all(batched[index:]):
            break  # from here on there are batches only
        if stage.yields == "new":
            begin = index + 1
    return begin


def changes(before: Sequence[Stage], after: Sequence[Stage]) -> tuple[str, ...]:
    """Return how the stages `after` differ from those `before`, a phrase for each stage."""
    lost = [stage for stage in before if stage not in after]
    gained = [stage for stage in after if stage not in before]
    phrases = []
    for stage in gained:
        twin = next((other for other in lost if type(other) is type(stage)), None)
        if twin is not None:
            lost.remove(twin)
            phrases.append(f"{twin.describe()} -> {stage.describe()}")
        else:
            previous = after[after.index(stage) - 1]
            phrases.append(f"{stage.describe()}, after {previous.kind}")
    phrases.extend(f"without {stage.describe()}" for stage in lost)
    kept_before = [stage for stage in before if stage in after]
    kept_after = [stage for stage in after if stage in before]
    if kept_before != kept_after:
        phrases.append("order: " + ", ".join(stage.kind for stage in after))
    return tuple(phrases)
