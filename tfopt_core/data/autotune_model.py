"""Read from a live tf.data iterator which values AUTOTUNE has chosen.

`fit` keeps an epoch's iterator to itself, but passes it to the train function, which notes it.
`tf.data.experimental.get_model_proto` is public; the names of stages and parameters in its answer
come from tf.data's own code, and only this module depends on them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary, ref

import attrs

# Units of the parameters: calls or readers at once, elements ahead.
_UNITS = {"parallelism": "at once", "buffer_size": "ahead"}
# tf.data's names of stages: "ParallelMapV2", "Prefetch", "ParallelInterleaveV4", "MapAndBatch".
_STAGE = re.compile(r"(?:Parallel)?(?P<words>[A-Za-z]+?)(?:V\d+)?")
# Stages that open data sets of their own while they run.
_OPENS = re.compile("Interleave|FlatMap")


@attrs.frozen
class Tuned:
    """One value that AUTOTUNE sets: its stage, its parameter and the last value."""

    stage: str
    parameter: str
    value: int

    def describe(self) -> str:
        """Return the value in words: `map 2 at once`, `prefetch 8 ahead`."""
        return f"{self.stage} {self.value} {_UNITS.get(self.parameter, self.parameter)}"


@attrs.define
class Tuning:
    """What AUTOTUNE had chosen for a training's data when it was last read.

    `values` are None where nothing was read; `why_not` then says why, or is empty if nothing tried.
    """

    values: tuple[Tuned, ...] | None = None
    why_not: str = ""
    _iterator: Callable[[], Any] = attrs.field(default=lambda: None, repr=False)

    def describe(self) -> str:
        """Return `AUTOTUNE ended with map 2 at once, prefetch 8 ahead`; "" if nothing was read."""
        if self.values is None:
            return f"what AUTOTUNE chose is unknown: {self.why_not}" if self.why_not else ""
        if not self.values:
            return "AUTOTUNE had nothing to set"
        return "AUTOTUNE ended with " + ", ".join(value.describe() for value in self.values)


_BY_MODEL: WeakKeyDictionary[Any, Tuning] = WeakKeyDictionary()


def noting(model: Any, train_function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the train function, which now notes the iterator that it is called with.

    The note does not keep the iterator alive, since destroying it is part of an epoch's time. A
    function that already notes is returned unchanged.
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

    Call it while `fit` still holds the iterator: in `on_epoch_end` or `on_train_end`.
    """
    tuning = _BY_MODEL.get(model)
    if tuning is None:
        return  # `noting` was not called for this model
    iterator = tuning._iterator()
    if iterator is None:
        tuning.why_not = "the iterator was gone before it was read"
        return
    try:
        tuning.values = tuned(iterator)
    except ValueError as error:
        tuning.values, tuning.why_not = None, str(error)


def tuning_of(model: Any) -> Tuning:
    """Return what was last read for this model, for `report_effect`."""
    return _BY_MODEL.get(model) or Tuning()


def tuned(iterator: Any) -> tuple[Tuned, ...]:
    """Return the values that AUTOTUNE is setting, in the order in which elements pass the stages.

    The stages are those that really run: tf.data's graph optimizer may have fused some or added a
    prefetch. Empty if every value is fixed. Takes less than a millisecond and leaves the iterator
    unchanged.

    :param iterator: of a `tf.data.Dataset`, not yet destroyed.
    :raises ValueError: if tuning is off, or the iterator is not of a single data set (those of
        tf.distribute are not).
    """
    import tensorflow as tf

    try:
        model = tf.data.experimental.get_model_proto(iterator)
    except tf.errors.NotFoundError as error:
        raise ValueError("tf.data does not tune this data set") from error
    except ValueError as error:
        raise ValueError(f"a {type(iterator).__name__} cannot be asked what was tuned") from error
    return tuple(
        Tuned(_word(node.name), parameter.name, round(parameter.state_value))
        for node in _from_the_source(model)
        for parameter in node.parameters
        if parameter.tunable
    )


def _from_the_source(model: Any, number: int | None = None) -> Iterator[Any]:
    """Yield the nodes of the pipeline from its source to its output, where the model begins."""
    node = model.nodes.get(model.output if number is None else number)
    if node is None:
        return
    inputs = list(node.inputs)
    if _OPENS.search(node.name):
        inputs = inputs[:1]  # the others are data sets that it has opened for single elements
    for other in inputs:
        yield from _from_the_source(model, other)
    yield node


def _word(name: str) -> str:
    match = _STAGE.fullmatch(name)
    words = match["words"] if match else name
    return "-".join(re.findall(r"[A-Z][a-z]*|[a-z]+", words)).lower()
