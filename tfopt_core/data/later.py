"""A data set that is made only once it is needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs


@attrs.define(eq=False)
class Later:
    """Stands for a data set among those that a plan was made from; made once."""

    make: Callable[[], Any]
    _made: Any = None

    @property
    def is_made(self) -> bool:
        """Whether somebody needed it."""
        return self._made is not None

    def __call__(self) -> Any:
        if self._made is None:
            self._made = self.make()
        return self._made


def now(dataset: Any) -> Any:
    """The data set itself."""
    return dataset() if isinstance(dataset, Later) else dataset
