"""A call of `fit` in a script, which can be made with some of its arguments changed.

The names and defaults are those of `keras.Model.fit` (Keras 3.15).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from operator import index
from typing import Any

import attrs

from tfopt_core.lazy import keras, tf
from tfopt_core.scripts.limits import CutShort

# What `fit` takes for arrays where it is given none.
KERAS_BATCH_SIZE = 32


@attrs.define(eq=False)
class FitCall:
    """A call of `fit`.

    :param model: the `keras.Model` that is trained.
    :param fit: Keras' own `fit`, which takes the model first.
    :param arguments: all arguments by name, defaults included.
    :param number: the number of the call in the script, from 1.
    :param cut: the limits that cut it short, None for none.
    :param shortened: whether `short` has left out batches.
    :param readers: those of data that can be read only once, by split, each made on its first call.
    """

    model: Any
    fit: Callable[..., Any]
    arguments: Mapping[str, Any]
    number: int
    cut: CutShort | None = None
    shortened: bool = False
    readers: dict[str, Any] = attrs.field(factory=dict)

    @classmethod
    def of(
        cls, model: Any, fit: Callable[..., Any], given: Sequence[Any], named: Mapping[str, Any],
        number: int,
    ) -> FitCall:  # fmt: skip
        """Return the call `model.fit(*given, **named)`.

        :raises TypeError: for arguments that `fit` does not take, as the call itself would.
        """
        bound = inspect.signature(fit).bind(model, *given, **named)
        bound.apply_defaults()
        arguments = dict(list(bound.arguments.items())[1:])
        return cls(model, fit, arguments, number)

    @property
    def initial_epoch(self) -> int:
        """The first epoch, counted from 0; Keras reads `BackupAndRestore` later."""
        return index(self.arguments["initial_epoch"] or 0)

    @property
    def last_epoch(self) -> int:
        """The last epoch, counted from 1; Keras calls it `epochs`."""
        epochs = index(self.arguments["epochs"])
        if self.cut is None or self.cut.epochs is None:
            return epochs
        return min(epochs, self.initial_epoch + self.cut.epochs)

    @property
    def epochs(self) -> int:
        """The number of epochs to train, unless a callback stops the fit."""
        return max(0, self.last_epoch - self.initial_epoch)

    def validates_after(self, epoch: int) -> bool:
        """Return whether the script validates after this epoch, counted from 0."""
        if "validation" not in self.splits:
            return False
        frequency = self.arguments["validation_freq"]
        if isinstance(frequency, int):
            return (epoch + 1) % frequency == 0
        return epoch + 1 in frequency

    @property
    def steps_per_epoch(self) -> int | None:
        """The steps of an epoch; None for a whole pass over the data."""
        steps = self.arguments["steps_per_epoch"]
        if self.cut is not None and self.cut.steps is not None:
            return self.cut.steps if steps is None else min(index(steps), self.cut.steps)
        return None if steps is None else index(steps)

    @property
    def callbacks(self) -> tuple[Any, ...]:
        """The script's own callbacks."""
        given = self.arguments["callbacks"]
        if given is None:
            return ()
        listed = getattr(given, "callbacks", given)
        return tuple(listed) if isinstance(listed, list | tuple) else (listed,)

    @functools.cached_property
    def splits(self) -> dict[str, tuple[Any, Any, Any]]:
        """The data of each split, as (x, y, sample_weight).

        `validation_split` takes the last examples of arrays, as Keras does.
        """
        from keras.src.trainers.data_adapters import array_slicing, data_adapter_utils

        given = self.arguments
        train = (given["x"], given["y"], given["sample_weight"])
        validation = given["validation_data"]
        if given["validation_split"] and validation is None:
            train, validation = array_slicing.train_validation_split(
                train, validation_split=given["validation_split"]
            )
        if validation is None:
            return {"train": train}
        unpacked = data_adapter_utils.unpack_x_y_sample_weight(validation)
        return {"train": train, "validation": unpacked}

    def short(self, epochs: int, batches: int | None) -> FitCall:
        """Return the call with few epochs of at most so many batches, each with its validation.

        Arrays are cut themselves. An epoch of data that Python yields, or whose steps are given,
        has fewer steps. A `tf.data.Dataset` stays: its plan can be cut where it begins.

        :param batches: None for all.
        """
        from keras.src.trainers.data_adapters.array_data_adapter import can_convert_arrays

        planned = CutShort() if self.cut is None else self.cut
        cut = attrs.evolve(planned, epochs=min(epochs, self.epochs))
        arguments = {**self.arguments, "validation_freq": 1}
        if batches is None:
            return attrs.evolve(self, arguments=arguments, cut=cut)
        steps, size = self.steps_per_epoch, self.arguments["batch_size"] or KERAS_BATCH_SIZE
        train = own = self.splits["train"]
        if steps is not None:
            cut = attrs.evolve(cut, steps=min(steps, batches))
        elif can_convert_arrays(own):
            train = _first_batches(own, batches, size)
        elif not isinstance(own[0], tf.data.Dataset):
            cut = attrs.evolve(cut, steps=batches)
        validation, given = self.splits.get("validation"), arguments["validation_data"]
        if validation is not None and can_convert_arrays(validation):
            if arguments["validation_steps"] is None:
                size = arguments["validation_batch_size"] or size
                validation = _first_batches(validation, batches, size)
            given = validation
        if can_convert_arrays(own):
            arguments |= dict(zip(("x", "y", "sample_weight"), train, strict=True))
            arguments |= {"validation_data": given, "validation_split": 0.0}
        shortened = train is not own or cut.steps not in (None, steps)
        return attrs.evolve(self, arguments=arguments, cut=cut, shortened=shortened)

    def make(self, callbacks: Sequence[Any], replaced: Mapping[str, Any], **changed: Any) -> Any:
        """Call `fit`.

        :param callbacks: the script's callbacks, followed by others.
        :param replaced: data sets by split, in place of the script's own data.
        :param changed: further arguments.
        :returns: the `keras.callbacks.History`.
        """
        listed = getattr(self.arguments["callbacks"], "callbacks", [])
        own = list(listed)
        arguments = {**self.arguments, "callbacks": self._callbacks(callbacks)}
        arguments["epochs"] = self.last_epoch
        arguments["steps_per_epoch"] = self.steps_per_epoch
        if arguments["steps_per_epoch"] is not None and self.cut is not None:
            # Keras would derive another batch size from the number of steps
            arguments["batch_size"] = arguments["batch_size"] or self._own_batch_size()
        if replaced:
            arguments.update(self._with_data(replaced))
        try:
            return self.fit(self.model, **{**arguments, **changed})
        finally:
            listed[:] = own  # the script may pass its `CallbackList` to another fit

    def validate_again(self, replaced: Mapping[str, Any]) -> dict[str, float] | None:
        """Validate once more, as the call does. Return the metrics; None, without validating,
        for data that can be read only once.

        :param replaced: as `make` takes it.
        """
        x, y, weight = self.splits.get("validation", (None, None, None))
        if "validation" in replaced:
            x, y, weight = replaced["validation"], None, None
        if x is None or hasattr(x, "__next__"):
            return None
        given = self.arguments
        metrics: dict[str, float] = self.model.evaluate(
            x, y, sample_weight=weight, steps=given["validation_steps"], verbose=0,
            batch_size=given["validation_batch_size"] or given["batch_size"], return_dict=True,
        )  # fmt: skip
        return metrics

    def _with_data(self, replaced: Mapping[str, Any]) -> dict[str, Any]:
        changed: dict[str, Any] = {"validation_split": 0.0}
        if "train" in replaced:
            # a data set holds its targets and weights, and is batched and shuffled
            changed |= {"x": replaced["train"], "y": None, "sample_weight": None}
            changed["shuffle"] = False
            size = self.arguments["batch_size"]
            changed["validation_batch_size"] = self.arguments["validation_batch_size"] or size
            changed["batch_size"] = None
        elif self.arguments["validation_split"]:
            x, y, weight = self.splits["train"]
            changed |= {"x": x, "y": y, "sample_weight": weight}
        if "validation" in replaced:
            changed["validation_data"] = replaced["validation"]
        elif "validation" in self.splits:
            x, y, weight = self.splits["validation"]
            whole = y is None and weight is None  # a data set; or inputs alone
            changed["validation_data"] = x if whole else (x, y, weight)
        return changed

    def _callbacks(self, callbacks: Sequence[Any]) -> Any:
        """Return the callbacks as Keras takes them; a `CallbackList` is extended."""
        given = self.arguments["callbacks"]
        if not isinstance(given, keras.callbacks.CallbackList):
            return list(callbacks)
        for callback in callbacks:
            if callback not in given.callbacks:
                callback.set_model(self.model)
                given.callbacks.append(callback)
        return given

    def _own_batch_size(self) -> int | None:
        """Return the batch size that Keras uses for arrays if the script sets none."""
        from keras.src.trainers.data_adapters import array_data_adapter

        train = self.splits["train"]
        if not array_data_adapter.can_convert_arrays(train):
            return None
        steps = self.arguments["steps_per_epoch"]
        return -(-len(_first_leaf(train)) // index(steps)) if steps else KERAS_BATCH_SIZE


def _first_batches(parts: Any, batches: int, batch_size: int) -> Any:
    """Return the first batches of (x, y, sample_weight), of arrays of any kind; the last of them is
    as small as that of all."""
    from keras.src.trainers.data_adapters.array_slicing import train_validation_split

    known = int(_first_leaf(parts).shape[0])
    if known <= batches * batch_size:
        return parts
    left = -known % batch_size
    count = batches * batch_size - left
    # Keras takes the floor of what the share leaves
    return train_validation_split(parts, validation_split=1 - (count + 0.5) / known)[0]


def _first_leaf(parts: Any) -> Any:
    return next(leaf for leaf in keras.tree.flatten(parts) if leaf is not None)


def lengthen(
    history: Any,
    call: FitCall,
    *,
    stopped: bool,
    validate: Callable[[], Mapping[str, float] | None] = lambda: None,
) -> int:
    """Extend the history of a fit that tfopt has cut short. Return the number of epochs added.

    A script that plots its metrics over the planned epochs, or continues after `history.epoch[-1]`,
    then works as after a whole fit. The last value of each metric is repeated. A fit that trained
    to its end, or was ended by a callback, keeps its history.

    :param history: the `keras.callbacks.History` that the call has returned.
    :param stopped: whether the fit was stopped before its last epoch.
    :param validate: makes one validation, for a fit that was cut before its first one. Returns the
        metrics; None if the data cannot be read again.
    """
    epochs: list[int] = getattr(history, "epoch", None) or []
    # whether the fit trained as far as a limit on its epochs or steps allows
    limited = bool(epochs) and call.cut is not None and epochs[-1] + 1 >= call.last_epoch
    if not epochs or not (stopped or limited):
        return 0
    planned = index(call.arguments["epochs"])
    missing = range(epochs[-1] + 1, planned)
    validations = sum(call.validates_after(epoch) for epoch in missing)
    for name, values in history.history.items():
        values.extend(values[-1:] * (validations if name.startswith("val_") else len(missing)))
    if validations and not any(name.startswith("val_") for name in history.history):
        for name, value in (validate() or {}).items():
            history.history[f"val_{name}"] = [value] * validations
    epochs.extend(missing)
    # not in place: Keras hands all callbacks the same dictionary
    history.params = {**history.params, "epochs": planned}
    if call.cut is not None and call.cut.planned_steps is not None:
        history.params["steps"] = call.cut.planned_steps
    return len(missing)
