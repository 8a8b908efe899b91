"""A data set that other processes compute: what may cross to them, and the way back."""

from __future__ import annotations

import functools
import re
import socket
import threading
from collections.abc import Iterator
from typing import Any, Literal

from tfopt_core.plugins import PluginRefused
from tfopt_core.toolkit import describe, tf

PLUGIN = "data-service"
CONNECT_SECONDS = 3.0
REGISTER_SECONDS = 20.0
# How often the training asks for finished tasks. TensorFlow's own choice is once a second, which
# each epoch would wait for.
REFRESH_MILLISECONDS = 20

ADDRESS = re.compile(r"grpc://(?P<host>[^/:\s]+):(?P<port>\d{1,5})")

# They run in the Python of the process that made them.
_PYTHON = frozenset(["EagerPyFunc", "PyFunc", "PyFuncStateless"])
# They change a variable, of which each worker would begin each epoch with the same copy.
_CHANGING = re.compile(
    r"Assign.*VariableOp|Resource.*(Scatter|Apply).*|RngReadAndSkip|RngSkip|Stateful(Standard"
    r"Normal|Uniform|TruncatedNormal|Random).*"
)
# What means the same for a part of the elements as for all, so that several workers may share
# them out. A take, for one, would be taken by each worker.
_DIVISIBLE = re.compile(
    r"(TensorSlice|Range|TFRecord|TextLine|FixedLengthRecord|Map|ParallelMap|Filter|ParallelFilter"
    r"|FlatMap|Interleave|ParallelInterleave|Shuffle|ShuffleAndRepeat|Repeat|Batch|ParallelBatch"
    r"|Prefetch|Options|AssertCardinality|Model|OptimizeDataset|Unbatch)Dataset(V\d+)?"
)


def graph_of(dataset: Any) -> Any:
    """The `GraphDef` of a data set.

    :raises PluginRefused: if it holds more than a graph may.
    """
    ignore = 1  # that functions may have state is looked at here, more closely
    try:
        serialized = tf.raw_ops.DatasetToGraphV2(
            input_dataset=tf.data.experimental.to_variant(dataset), external_state_policy=ignore
        ).numpy()
        return tf.compat.v1.GraphDef.FromString(serialized)
    except Exception as error:
        raise PluginRefused(
            f"the pipeline cannot be sent to another process: {describe(error)}", PLUGIN
        ) from error


def why_not_sent(graph: Any, *, divided: bool) -> str:
    """Why a pipeline cannot be computed elsewhere, "" if it can.

    :param divided: whether several workers share its elements out.
    """
    ops = set(_ops(graph))
    python = sorted(ops & _PYTHON)
    if python:
        return (
            f"the pipeline calls Python ({', '.join(python)}: a generator, py_function or "
            "numpy_function), which no other process can; use TensorFlow's own operations"
        )
    changing = sorted(op for op in ops if _CHANGING.fullmatch(op))
    if changing:
        return (
            f"the pipeline changes variables ({', '.join(changing)}), as Keras' random layers do; "
            "each worker would begin every epoch with the same copies of them, so every epoch "
            "would be alike; draw in a function instead, by tf.random operations"
        )
    if any(_keeps_first_order(node, graph) for node in graph.node):
        return (
            "a shuffle within a source (a zip, a concatenation, or data that tfopt does not look "
            "into) is to give each epoch another order, and a worker would begin its seed anew for "
            "each epoch; shuffle behind it"
        )
    if divided:
        stages = {node.op for node in graph.node if "Dataset" in node.op}
        whole = sorted(stage for stage in stages if not _DIVISIBLE.fullmatch(stage))
        if whole:
            return (
                f"a stage counts or pairs elements ({', '.join(whole)}), and each of several "
                "workers would do that with its own part; set workers = 1"
            )
    return ""


def reads_from_service(dataset: Any) -> bool:
    """Whether a lowered data set reads from a data service."""
    return any(op.startswith("DataServiceDataset") for op in _ops(graph_of(dataset)))


def registered(dataset: Any, address: str, limit_seconds: float = REGISTER_SECONDS) -> Any:
    """The id under which a service knows this data set.

    :raises PluginRefused: if there is none, or none that answers in time.
    """
    check_reachable(address)
    result: list[Any] = []

    def register() -> None:
        try:
            service = tf.data.experimental.service
            result.append(service.register_dataset(address, dataset, compression=None))
        except Exception as error:
            result.append(error)

    # TensorFlow itself would go on trying for ever
    thread = threading.Thread(target=register, daemon=True)
    thread.start()
    thread.join(limit_seconds)
    if not result:
        raise PluginRefused(
            f'"{address}" took a connection but gave no answer within {limit_seconds:.0f} s; is it '
            "the dispatcher of a tf.data service?",
            PLUGIN,
        )
    if isinstance(result[0], Exception):
        raise PluginRefused(f'"{address}" {describe(result[0])}', PLUGIN) from result[0]
    return result[0]


def check_reachable(address: str) -> None:
    """:raises PluginRefused: if nothing listens at the address."""
    match = ADDRESS.fullmatch(address)
    assert match is not None
    try:
        place = match["host"], int(match["port"])
        socket.create_connection(place, CONNECT_SECONDS).close()
    except OSError as error:
        raise PluginRefused(
            f'no data service answers at "{address}" ({(error.strerror or str(error)).lower()}); '
            "start it, or leave address out for one of tfopt's own",
            PLUGIN,
        ) from error


def received(dataset: Any, address: str, sharding: Literal["dynamic", "off"]) -> Any:
    """The elements of a data set as a service computes them.

    The way of `tf.data.experimental.service.distribute`, by the same operations, but told to look
    for finished tasks often.

    :raises PluginRefused: see `registered`.
    """
    from tensorflow.core.protobuf import data_service_pb2

    identity = registered(dataset, address)
    spec = dataset.element_spec
    leaves = tf.nest.flatten(spec)
    if not all(isinstance(leaf, tf.TensorSpec) for leaf in leaves):
        service = tf.data.experimental.service
        policy = getattr(service.ShardingPolicy, sharding.upper())
        return service.from_dataset_id(policy, address, identity, spec)
    mode = data_service_pb2.ProcessingModeDef
    variant = tf.raw_ops.DataServiceDatasetV4(
        dataset_id=identity,
        processing_mode=mode(sharding_policy=sharding.upper()).SerializeToString(),
        address=address.removeprefix("grpc://"),
        protocol="grpc",
        job_name="",
        consumer_index=-1,
        num_consumers=-1,
        max_outstanding_requests=tf.data.AUTOTUNE,
        iteration_counter=tf.raw_ops.DummyIterationCounter(),
        output_types=[leaf.dtype for leaf in leaves],
        output_shapes=[leaf.shape for leaf in leaves],
        uncompress=False,
        uncompress_fn=_nothing(),
        task_refresh_interval_hint_ms=REFRESH_MILLISECONDS,
    )
    return tf.data.experimental.from_variant(variant, spec)


@functools.cache
def _nothing() -> Any:
    """A function for where the operation wants one, kept alive for as long as data sets may be."""

    @tf.function(input_signature=[tf.TensorSpec((), tf.variant)])  # type: ignore[untyped-decorator]
    def nothing(element: Any) -> Any:
        return tf.zeros(())

    return nothing.get_concrete_function()


def _keeps_first_order(node: Any, graph: Any) -> bool:
    """Whether it is a shuffle that reshuffles, from a seed: a worker builds it for each epoch."""
    if not node.op.startswith("Shuffle") or "reshuffle_each_iteration" not in node.attr:
        return False
    seeds = node.input[2:4]  # behind the data and the size of the buffer
    return node.attr["reshuffle_each_iteration"].b and any(
        other.name in seeds and any(_values(other)) for other in graph.node
    )


def _values(node: Any) -> Any:
    return tf.make_ndarray(node.attr["value"].tensor).flat if node.op == "Const" else (1,)


def _ops(graph: Any) -> Iterator[str]:
    for node in graph.node:
        yield node.op
    for function in graph.library.function:
        for node in function.node_def:
            yield node.op
