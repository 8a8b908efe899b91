"""One training over several calls of `fit`: what `rebuild_data()` needs.

Keras' `fit` holds on to its data set, so new data need a new call. Callbacks must not see it:
`on_train_begin` and `on_train_end` happen once, at the very start and end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfopt_core.errors import WorkloadError
from tfopt_core.private_api import why_without
from tfopt_core.training.build import Built


def segmented_callbacks(callbacks: Sequence[Any], model: Any, **params: Any) -> Any:
    """A `keras.callbacks.CallbackList` with a history, to be handed to each `fit` in turn.

    Its attribute `last` says whether the segment under way is the last one, once it ends.
    """
    import keras

    class SegmentedCallbacks(keras.callbacks.CallbackList):  # type: ignore[misc]
        def __init__(self) -> None:
            self.begun = False
            self.last = True
            super().__init__(list(callbacks), add_history=True, model=model, verbose=0, **params)

        def on_train_begin(self, logs: Any = None) -> None:
            if not self.begun:
                self.begun = True
                super().on_train_begin(logs)

        def on_train_end(self, logs: Any = None) -> None:
            if self.last:
                super().on_train_end(logs)

    return SegmentedCallbacks()


def begin_anew(built: Built) -> None:
    """Have the next call of `fit` begin with the epoch that it is given.

    Keras' BackupAndRestore sets another one, which was that of the first call.

    :raises WorkloadError: if there is such a callback and Keras does not let its epoch be unset.
    """
    import keras

    missing = why_without("fit-resumed")
    if not missing:
        built.model._initial_epoch = None
    elif any(
        isinstance(callback, keras.callbacks.BackupAndRestore)
        for callback in built.training.callbacks
    ):
        raise WorkloadError(missing)
