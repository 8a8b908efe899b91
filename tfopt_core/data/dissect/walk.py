"""Examine a data set without taking it apart, and rebuild what has no public interface."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import attrs

from tfopt_core.data.functions import function_name, place_of
from tfopt_core.lazy import tf
from tfopt_core.private_api import why_without

# Serializing copies what the sources hold: about 6 s for 400 MB here.
_MOST_BYTES = 16 * 2**20
Reads = Literal["none", "first", "every"]
# When the reshuffling shuffles of a data set draw their seeds: most do when an iterator over the
# whole is made. Some stages make the iterators over their inputs only while they are read (each
# pass of a repeat, a shuffle, the further parts of a concatenation): shuffles before them draw
# then. A cache keeps the order of the pass that filled it.
_READ_LATER = ("_RepeatDataset", "_ShuffleDataset")
# A cache before one of these may never be read to its end, and so never be filled.
_CUTTING = ("_TakeDataset", "_TakeWhileDataset", "_ZipDataset")


class NotUnderstood(Exception):
    """A data set is of an unknown kind; it stays in one piece."""


def require(feature: str) -> None:
    """Check that the installed TensorFlow has what this feature needs.

    :raises NotUnderstood: if it does not.
    """
    missing = why_without(feature)
    if missing:
        raise NotUnderstood(missing)


def known_cardinality(dataset: Any) -> int | None:
    """Return the number of elements, None if tf.data does not know it or it is infinite."""
    count = int(dataset.cardinality())
    return count if count >= 0 else None


def datasets(dataset: Any) -> Iterator[Any]:
    """Yield a data set and all that it is made from, each once, the last stage first."""
    left, seen = [dataset], set()
    while left:
        current = left.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        if not why_without("data-sets"):
            left.extend(reversed(getattr(current, "_inputs", tuple)()))


def graphs(dataset: Any) -> Iterator[Any]:
    """Yield the graphs of all functions that a data set calls."""
    for current in datasets(dataset):
        for function in current._functions():
            yield function.function.graph


def class_name(dataset: Any) -> str:
    """Return the class name of a data set of TensorFlow, "" for a class of another library."""
    kind = type(dataset)
    return kind.__name__ if kind.__module__.startswith("tensorflow.python.data.") else ""


def stage_names(dataset: Any) -> Iterator[str]:
    """Return the class names of a data set and of all its inputs, the last stage first."""
    return (type(current).__name__.strip("_") for current in datasets(dataset))


def is_batched(dataset: Any) -> bool:
    """Return whether the stages of the data set yield batches."""
    for current in datasets(dataset):
        name = type(current).__name__
        if "Unbatch" in name:
            return False
        if "Batch" in name or ("GroupByWindow" in name and _batches_inside(current)):
            return True
    return False


def _batches_inside(dataset: Any) -> bool:
    """Return whether a function of the data set makes batches, as batching by length does."""
    functions = (function.function for function in dataset._functions())
    return any("Batch" in op.type for each in functions for op in each.graph.get_operations())


def has_stage(dataset: Any, word: str) -> bool:
    """Return whether a stage of the lowered data set has this word in its class name."""
    return any(word in name for name in stage_names(dataset))


class TracedFunction:
    """Calls the traced graph of a function that was given to `map`, `filter`, `interleave`...

    It takes and returns the same elements, and works in a new stage. The Python code is not run
    again, so its side effects while tracing do not happen twice; variables and tables are the same
    ones. `place` is where the function was written, "" if that is unknown.
    """

    # marks a function that autograph leaves alone
    autograph_info__: ClassVar[dict[str, Any]] = {}

    def __init__(
        self, concrete: Any, input_spec: Any, output_spec: Any, name: str, place: str = ""
    ) -> None:
        self.concrete, self.input_spec, self.output_spec = concrete, input_spec, output_spec
        self.__qualname__ = self.__name__ = name
        self.place = place

    @classmethod
    def of(cls, structured: Any) -> TracedFunction:
        """Return that of a stage of tf.data.

        :raises NotUnderstood: for functions of TensorFlow 1.
        """
        concrete, original = structured.function, getattr(structured, "_func", None)
        if not hasattr(concrete, "graph"):
            raise NotUnderstood("a function of TensorFlow 1")
        return cls(
            concrete, structured._input_structure, structured.output_structure,
            _name(original, concrete), place_of(original),
        )  # fmt: skip

    def __call__(self, *arguments: Any) -> Any:
        from tensorflow.python.data.util import structure

        # tf.data calls a function with the parts of a tuple as its arguments
        element = arguments if type(self.input_spec) is tuple else arguments[0]
        given = structure.to_tensor_list(self.input_spec, element)
        # tf.data leaves out a map that returns its arguments; through a call it does not see that,
        # and a parallel one, which reads ahead, would draw other orders of a shuffle before it
        passed_on = _passed_on(self.concrete.graph)
        results = self.concrete(*given) if passed_on is None else [given[i] for i in passed_on]
        return structure.from_compatible_tensor_list(self.output_spec, list(results))

    def __repr__(self) -> str:
        return f"<the traced function {self.__name__}>"


def _passed_on(graph: Any) -> list[int] | None:
    """Return which argument each result of a traced function is; None if one is computed."""
    arguments = {id(tensor): index for index, tensor in enumerate(graph.inputs)}
    found = []
    for tensor in graph.outputs:
        while tensor.op.type == "Identity":
            tensor = tensor.op.inputs[0]
        if id(tensor) not in arguments:
            return None
        found.append(arguments[id(tensor)])
    # one without results, or with effects of its own, is called
    changes = any(
        op.op_def.is_stateful and op.type != "Placeholder" for op in graph.get_operations()
    )
    return None if changes or len(graph.captures) else found


def _name(original: Any, concrete: Any) -> str:
    if original is not None:
        while isinstance(original, functools.partial):
            original = original.func
        return function_name(original)
    traced = concrete.name.decode() if isinstance(concrete.name, bytes) else str(concrete.name)
    return re.sub(r"^__inference_(Dataset_[a-z]+_)?|_\d+$", "", traced) or "function"


def last_step(dataset: Any) -> tuple[Any, dict[str, Any]]:
    """Return the node of a data set's last step in its serialized graph, and all nodes by name.

    :raises NotUnderstood: if it is too large to serialize.
    """
    held = sum(
        tensor.shape.num_elements() * tensor.dtype.size
        for part in datasets(dataset)
        for tensor in getattr(part, "_tensors", ())
    )
    if held > _MOST_BYTES:
        raise NotUnderstood(f"it holds {held} bytes")
    policy = tf.data.experimental.ExternalStatePolicy.IGNORE
    serialized = dataset._as_serialized_graph(external_state_policy=policy).numpy()
    nodes = {node.name: node for node in tf.compat.v1.GraphDef.FromString(serialized).node}
    result = next(node for node in nodes.values() if node.op == "_Retval")
    return nodes[result.input[0].partition(":")[0]], nodes


def shuffled(dataset: Any, buffer_size: int, seeds: tuple[int, int], reshuffle: bool) -> Any:
    """Return the data set shuffled by a pair of seeds of tf.data, so that the orders of all epochs
    are those of the shuffle from which the pair was read.

    `Dataset.shuffle` takes one seed and makes the pair from that and the global seed.
    """
    from tensorflow.python.data.ops import dataset_ops, shuffle_op

    kind = shuffle_op._ShuffleDataset
    result = kind.__new__(kind)
    result._input_dataset = dataset
    result._buffer_size = tf.constant(buffer_size, tf.int64)
    result._seed, result._seed2 = (tf.constant(seed, tf.int64) for seed in seeds)
    result._reshuffle_each_iteration = reshuffle
    result._name = None
    variant = tf.raw_ops.ShuffleDatasetV3(
        input_dataset=dataset._variant_tensor,
        buffer_size=result._buffer_size,
        seed=result._seed,
        seed2=result._seed2,
        seed_generator=tf.raw_ops.DummySeedGenerator(),
        reshuffle_each_iteration=reshuffle,
        **result._common_args,
    )
    dataset_ops.UnaryUnchangedStructureDataset.__init__(result, dataset, variant)
    return result


@attrs.frozen
class _SeedDraws:
    """How shuffles draw: in `each` pass; `later` than at the start; or into a `filled` cache."""

    each: bool = False
    later: bool = False
    filled: bool = False


def passes_to_read(dataset: Any) -> Reads:
    """Return which earlier passes to read, so that the next one comes in its own order.

    For the others it is enough to make the iterators. Unknown data sets, and those that functions
    of a data set make, are not examined.
    """
    if why_without("shuffle-orders"):
        return "every"  # this is right for every data set
    drawn = _drawn(dataset)
    if drawn.later:
        return "every"
    return "first" if drawn.filled else "none"


def reshuffling(dataset: Any) -> Iterator[Any]:
    """Yield the reshuffling shuffles of a data set, the last one first."""
    if why_without("shuffle-orders"):
        return
    for one in datasets(dataset):
        if class_name(one) == "_ShuffleDataset" and one._reshuffle_each_iteration:
            yield one


def caches(dataset: Any) -> Iterator[Any]:
    """Yield the caches of a data set, which fix what was drawn before them, the last one first."""
    return (one for one in datasets(dataset) if class_name(one) == "CacheDataset")


def made_of(dataset: Any) -> tuple[list[int], int]:
    """Return the ids of the data sets that a data set begins with, and how many of its stages call
    functions."""
    parts = list(datasets(dataset))
    begins = [id(one) for one in parts if not getattr(one, "_inputs", tuple)()]
    return begins, sum(bool(one._functions()) for one in parts)


def seeds_of(shuffle: Any) -> tuple[int, int]:
    """Return what tf.data made of the global seed and that of a shuffle."""
    return int(shuffle._seed), int(shuffle._seed2)


def _drawn(dataset: Any) -> _SeedDraws:
    inputs = [_drawn(part) for part in getattr(dataset, "_inputs", tuple)()]
    each, later, filled = (
        any(getattr(part, field) for part in inputs) for field in ("each", "later", "filled")
    )
    name = class_name(dataset)
    if name in _READ_LATER:
        later = later or each
    if name == "_ConcatenateDataset":
        later = later or any(part.each for part in inputs[1:])
    if name in _CUTTING:
        later = later or filled
    if name == "_ShuffleDataset":
        each = each or bool(dataset._reshuffle_each_iteration)
    if name == "CacheDataset" and (each or later):
        return _SeedDraws(filled=True)
    return _SeedDraws(each, later, filled)
