"""Stages that share the data out among workers that train one model together.

Behind them a plan goes on counting the examples and the batch sizes of all workers together.
Each has the `index` of this worker among `count`; None stands for all of them: so a plan is
looked at where no worker is known, and it yields what one process would train on.
"""

from __future__ import annotations

from typing import ClassVar

import attrs

from tfopt_core.data.stages.base import Stage


def rows_of(rows: int, count: int, index: int) -> tuple[int, int]:
    """Begin and end of the worker's rows of a batch; all parts together are the batch, in order."""
    return rows * index // count, rows * (index + 1) // count


@attrs.frozen(kw_only=True, eq=False)
class Part(Stage):
    """A worker's part of what passes; see the module."""

    count: int
    index: int | None

    @property
    def whose(self) -> str:
        """`1 of 2 workers`."""
        return f"{'one' if self.index is None else self.index + 1} of {self.count} workers"


@attrs.frozen(kw_only=True, eq=False)
class PartOfBatch(Part):
    """The worker's rows of each batch; none of them where the batch has too few."""

    kind: ClassVar[str] = "part_of_batch"

    def describe(self) -> str:
        return f"part of each batch: {self.whose}"


@attrs.frozen(kw_only=True, eq=False)
class PartOfExamples(Part):
    """Of every `of` examples in a row those that are the worker's rows of the batch that they
    will be put into, so that nothing is computed from the others."""

    kind: ClassVar[str] = "part_of_examples"
    of: int
    drop_remainder: bool = False

    def describe(self) -> str:
        return f"part of every {self.of:,} examples: {self.whose}"

    def left_of(self, elements: int) -> int:
        """How many of so many examples are the worker's."""
        whole, rest = divmod(elements, self.of)
        rest = 0 if self.drop_remainder else rest
        if self.index is None:
            return whole * self.of + rest
        begin, end = rows_of(self.of, self.count, self.index)
        last_begin, last_end = rows_of(rest, self.count, self.index)
        return whole * (end - begin) + last_end - last_begin


@attrs.frozen(kw_only=True, eq=False)
class PartOfSource(Part):
    """Every `count`-th element of the source, beginning with that at `index`."""

    kind: ClassVar[str] = "part_of_source"

    def describe(self) -> str:
        return f"part of the source: {self.whose}"

    def left_of(self, elements: int) -> int:
        """How many of so many elements are the worker's."""
        if self.index is None:
            return elements
        return max(0, -((self.index - elements) // self.count))


@attrs.frozen(kw_only=True, eq=False)
class EvenSteps(Stage):
    """So many `batches`, as every worker makes them: where there are fewer, empty ones follow."""

    kind: ClassVar[str] = "even_steps"
    batches: int

    def describe(self) -> str:
        return f"even steps: {self.batches:,} on every worker"
