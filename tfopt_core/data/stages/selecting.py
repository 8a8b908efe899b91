"""Stages that choose and order elements, and compute nothing."""

from __future__ import annotations

from typing import ClassVar

import attrs

from tfopt_core.data.stages.base import Stage


@attrs.frozen(kw_only=True, eq=False)
class Shuffle(Stage):
    """Shuffles through a buffer; `buffer_size` None means all elements, where their number is
    known, and 10,000 else. A `seed` pair is what tf.data made of the global and the op's seed;
    (0, 0) stands for a new seed each time."""

    kind: ClassVar[str] = "shuffle"
    buffer_size: int | None = None
    seed: int | tuple[int, int] | None = None
    reshuffle: bool = True
    deterministic: bool | None = attrs.field(init=False)

    @deterministic.default
    def _is_deterministic(self) -> bool:
        return not self.reshuffle and self.seed not in (None, (0, 0))

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
class Take(Stage):
    """The first `count` elements; all where it is negative."""

    kind: ClassVar[str] = "take"
    count: int

    def describe(self) -> str:
        return f"take: {self.count:,}" if self.count >= 0 else "take: all"


@attrs.frozen(kw_only=True, eq=False)
class Skip(Stage):
    """All elements but the first `count`; none where it is negative."""

    kind: ClassVar[str] = "skip"
    count: int

    def describe(self) -> str:
        return f"skip: {self.count:,}" if self.count >= 0 else "skip: all"


@attrs.frozen(kw_only=True, eq=False)
class Shard(Stage):
    """Every `count`-th element, beginning with that at `index`."""

    kind: ClassVar[str] = "shard"
    count: int
    index: int

    def describe(self) -> str:
        return f"shard: {self.index + 1} of {self.count}"
