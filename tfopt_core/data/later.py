"""`Later`: a data set that is built on its first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs


@attrs.define(eq=False)
class Later:
    """A data set that is made once, on the first call."""

    make: Callable[[], Any]
    _made: Any = None

    @property
    def is_made(self) -> bool:
        """Whether the data set was made."""
        return self._made is not None

    def __call__(self) -> Any:
        if self._made is None:
            self._made = self.make()
        return self._made


def now(dataset: Any) -> Any:
    """Return the data set, making it if it is a `Later`."""
    return dataset() if isinstance(dataset, Later) else dataset
