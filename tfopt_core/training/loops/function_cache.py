"""A cache of the train functions that a model's fits reuse, as Keras reuses its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from tfopt_core.training.loops.graph_steps import TracedSteps


@attrs.define(eq=False)
class FunctionCache:
    """The train function that a model's fits share until the model is compiled or traced anew.

    Without it a script that calls `fit` repeatedly would trace each time.

    :param function: the train function.
    :param key: the settings that it was made for.
    :param traced: the steps that loops other than Keras' own call.
    :param left: what the last fit left as `model.train_function`; None before the first one. If
        the model has another one, the script has reset it, to have its step traced anew.
    :param on_trace: called while the step is traced, with the shapes of the batch; each fit sets
        its own.
    """

    function: Any = None
    key: tuple[Any, ...] = ()
    traced: TracedSteps | None = None
    left: Any = None
    on_trace: Callable[[str], None] = lambda shapes: None
    on_traced: Callable[[], None] = lambda: None

    @property
    def is_empty(self) -> bool:
        """Whether the next fit traces its step."""
        return self.function is None and self.traced is None

    def steps_of(self, model: Any) -> TracedSteps:
        """Return the steps that the loops of this model call."""
        if self.traced is None:
            self.traced = TracedSteps(model)
        return self.traced

    def fit_is_over(self) -> None:
        """Drop the callables of a fit, which may hold large data, and keep the function."""
        self.on_trace, self.on_traced = lambda shapes: None, lambda: None

    def forget(self) -> None:
        """Have the next fit make its own."""
        self.function, self.key, self.traced, self.left = None, (), None, None
