"""What tf.data's AUTOTUNE chose, read from an iterator while it lives.

`fit` keeps the iterator of an epoch to itself, but hands it to the train function: that is where
it is seen. `tf.data.experimental.get_model_proto` is public; the names of stages and parameters in
its answer are those of tf.data's own code, and are known in this module only.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary, ref

import attrs

# How many calls or readers run at once, and how many elements are held ready.
_UNITS = {"parallelism": "at once", "buffer_size": "ahead"}
# tf.data's names of stages: "ParallelMapV2", "Prefetch", "ParallelInterleaveV4", "MapAndBatch".
_STAGE = re.compile(r"(?:Parallel)?(?P<words>[A-Za-z]+?)(?:V\d+)?")
# Stages that open data sets of their own while they run.
_OPENS = re.compile("Interleave|FlatMap")


@attrs.frozen
class Tuned:
    """One value that AUTOTUNE sets: of which stage, what, and how much in the end."""

    stage: str
    parameter: str
    value: int

    def describe(self) -> str:
        """In words: `map 2 at once`, `prefetch 8 ahead`."""
        return f"{self.stage} {self.value} {_UNITS.get(self.parameter, self.parameter)}"


@attrs.define
class Tuning:
    """What AUTOTUNE had chosen for the data of a training when this was last read.

    `values` are None where nothing was read; then `why_not` says why, "" where nobody asked.
    """

    values: tuple[Tuned, ...] | None = None
    why_not: str = ""
    _iterator: Callable[[], Any] = attrs.field(default=lambda: None, repr=False)

    def describe(self) -> str:
        """In words: `AUTOTUNE ended with map 2 at once, prefetch 8 ahead`; "" where unread."""
        if self.values is None:
            return f"what AUTOTUNE chose is unknown: {self.why_not}" if self.why_not else ""
        if not self.values:
            return "AUTOTUNE had nothing to set"
        return "AUTOTUNE ended with " + ", ".join(value.describe() for value in self.values)


_BY_MODEL: WeakKeyDictionary[Any, Tuning] = WeakKeyDictionary()


def noting(model: Any, train_function: Callable[..., Any]) -> Callable[..., Any]:
    """The same train function, which notes what iterator it is called with.

    The note does not keep the iterator alive: when one is destroyed is part of what an epoch
    takes. A function that notes already is returned as it is.
    """
    if getattr(train_function, "notes_iterators", False):
        return train_function
    tuning = _BY_MODEL.setdefault(model, Tuning())

    @functools.wraps(train_function)
    def function(iterator: Any) -> Any:
        tuning._iterator = ref(iterator)
        return train_function(iterator)

    function.notes_iterators = True  # type: ignore[attr-defined]
    return function


def read_tuning(model: Any) -> None:
    """Read what AUTOTUNE chose for the data that the model was last trained on.

    To be called while `fit` still has the iterator: in `on_epoch_end` or `on_train_end`.
    """
    tuning = _BY_MODEL.get(model)
    if tuning is None:
        return  # it was not asked to be noted
    iterator = tuning._iterator()
    if iterator is None:
        tuning.why_not = "the iterator was gone before it was read"
        return
    try:
        tuning.values = tuned(iterator)
    except ValueError as error:
        tuning.values, tuning.why_not = None, str(error)


def tuning_of(model: Any) -> Tuning:
    """What was last read for this model; for `report_effect`."""
    return _BY_MODEL.get(model) or Tuning()


def tuned(iterator: Any) -> tuple[Tuned, ...]:
    """The values that AUTOTUNE is setting, in the order in which elements pass the stages.

    tf.data's graph optimizer may have put stages together or added a prefetch of its own; the
    stages are those that really run. Empty where everything has a fixed value. Takes less than a
    millisecond; the iterator goes on as if it had not been asked.

    :param iterator: of a `tf.data.Dataset`, not yet destroyed.
    :raises ValueError: saying why it does not tell: tuning is off, or it is no plain iterator of
        one data set (tf.distribute has others).
    """
    import tensorflow as tf

    try:
        model = tf.data.experimental.get_model_proto(iterator)
    except tf.errors.NotFoundError as error:
        raise ValueError("tf.data does not tune this data set") from error
    except ValueError as error:
        raise ValueError(f"a {type(iterator).__name__} does not tell what was tuned") from error
    return tuple(
        Tuned(_word(node.name), parameter.name, round(parameter.state_value))
        for node in _from_the_source(model)
        for parameter in node.parameters
        if parameter.tunable
    )


def _from_the_source(model: Any, number: int | None = None) -> Iterator[Any]:
    """The nodes of the pipeline, each behind those that it reads from; the model begins with its
    output."""
    node = model.nodes.get(model.output if number is None else number)
    if node is None:
        return
    inputs = list(node.inputs)
    if _OPENS.search(node.name):
        inputs = inputs[:1]  # the others are what it has opened for elements, and come and go
    for other in inputs:
        yield from _from_the_source(model, other)
    yield node


def _word(name: str) -> str:
    match = _STAGE.fullmatch(name)
    words = match["words"] if match else name
    return "-".join(re.findall(r"[A-Z][a-z]*|[a-z]+", words)).lower()
