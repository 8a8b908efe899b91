"""A cache of the train functions that a model's fits reuse, as Keras reuses its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs


@attrs.define(eq=False)
class FunctionCache:
    """The train function that the fits of a model share until it is compiled anew.

    A script that calls `fit` again and again would otherwise trace each time.

    :param function: what trained, and `key` what it was made for.
    :param on_trace: called while the step is traced; each fit sets its own.
    """

    function: Any = None
    key: tuple[Any, ...] = ()
    on_trace: Callable[[], None] = lambda: None
    on_traced: Callable[[], None] = lambda: None

    def fit_is_over(self) -> None:
        """Hold on to nothing of a fit but the function: its data may be large."""
        self.on_trace = self.on_traced = lambda: None

    def forget(self) -> None:
        """Have the next fit make its own."""
        self.function, self.key = None, ()
