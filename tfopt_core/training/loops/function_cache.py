"""A cache of the train functions that a model's fits reuse, as Keras reuses its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs


@attrs.define(eq=False)
class FunctionCache:
    """The train function that a model's fits share until the model is compiled anew.

    Without it a script that calls `fit` repeatedly would trace each time.

    :param function: the train function.
    :param key: the settings that it was made for.
    :param on_trace: called while the step is traced, with the shapes of the batch; each fit sets
        its own.
    """

    function: Any = None
    key: tuple[Any, ...] = ()
    on_trace: Callable[[str], None] = lambda shapes: None
    on_traced: Callable[[], None] = lambda: None

    def fit_is_over(self) -> None:
        """Drop the callables of a fit, which may hold large data, and keep the function."""
        self.on_trace, self.on_traced = lambda shapes: None, lambda: None

    def forget(self) -> None:
        """Have the next fit make its own."""
        self.function, self.key = None, ()
