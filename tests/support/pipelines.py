"""Random pipelines: a source and steps that fit what it yields."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from support.lazy_modules import tf
from tfopt_core import DataPlan

# What an element is, so that steps can be chosen that take it.
NUMBER, VECTOR, RECORD, RAGGED, SPARSE, TEXT = (
    "number", "vector", "record", "ragged", "sparse", "text",
)  # fmt: skip
Step = Callable[[Any], Any]


def write_files(folder: Path) -> None:
    """Text lines and records to read."""
    for name, lines in (("a", ["10", "7"]), ("b", ["3", "4", "12"])):
        (folder / f"{name}.txt").write_text("\n".join(lines))
        with tf.io.TFRecordWriter(str(folder / f"{name}.tfrecord")) as writer:
            for line in lines:
                writer.write(line.encode())


@st.composite
def pipelines(draw: Any, folder: Path) -> tuple[Any, bool]:
    """A data set, and whether it can come apart whole."""
    kind, dataset, whole = draw(_sources(folder))
    for _ in range(draw(st.integers(1, 4))):
        kind, dataset = draw(_stepped(kind, dataset))
    if draw(st.booleans()):
        dataset = draw(_ended(kind, dataset))
    if draw(st.integers(0, 3)) == 0:
        dataset = dataset.prefetch(draw(st.sampled_from([1, tf.data.AUTOTUNE])))
    return dataset, whole


@st.composite
def _sources(draw: Any, folder: Path) -> tuple[str, Any, bool]:
    made = tf.data.Dataset
    count = draw(st.integers(0, 7))
    numbers = made.range(count)
    files = sorted(str(path) for path in folder.glob("*.txt"))
    records = sorted(str(path) for path in folder.glob("*.tfrecord"))
    rows = tf.RaggedTensor.from_row_lengths(tf.range(count * 3), [1, 2] * count)
    ragged = tf.RaggedTensor.from_row_lengths(rows, [2] * count)
    sparse = tf.sparse.from_dense(tf.reshape(tf.range(count * 3), (count, 3)))
    generator = made.from_generator(
        lambda: iter(range(count)), output_signature=tf.TensorSpec((), tf.int64)
    )
    record = made.from_tensor_slices({"x": tf.zeros((count, 3)), "y": tf.range(count)})
    reads = draw(st.sampled_from([None, tf.data.AUTOTUNE]))
    choices = [
        (NUMBER, numbers, True),
        (NUMBER, made.from_tensors(tf.constant(4, tf.int64)), True),
        (NUMBER, numbers.concatenate(made.range(3).map(_plus_one)), True),
        (RECORD, record, True),
        (RECORD, made.zip({"x": numbers.map(_as_row), "y": numbers.map(_plus_one)}), True),
        # TensorFlow cannot write a graph down that holds an empty tensor of two ragged dimensions
        (RAGGED, made.from_tensor_slices(ragged), count > 0),
        # what is decoded from no sparse tensor at all has no shape
        (SPARSE, made.from_tensor_slices(sparse), count > 0),
        (TEXT, tf.data.TextLineDataset(files, num_parallel_reads=reads), True),
        (TEXT, tf.data.TFRecordDataset(records), True),
        (NUMBER, generator, False),
    ]
    return draw(st.sampled_from(choices))


@st.composite
def _stepped(draw: Any, kind: str, dataset: Any) -> tuple[str, Any]:
    """One more step, and what an element is behind it."""
    count = draw(st.integers(1, 4))
    seed = draw(st.integers(0, 99))
    parallel = draw(st.sampled_from([None, 2, tf.data.AUTOTUNE]))
    options = tf.data.Options()
    options.autotune.enabled = False
    anything: list[tuple[str, Step]] = [
        (kind, lambda d: d.shuffle(count, seed=seed)),
        (kind, lambda d: d.shuffle(count, seed=seed, reshuffle_each_iteration=False)),
        (kind, lambda d: d.take(count)),
        (kind, lambda d: d.skip(count)),
        (kind, lambda d: d.repeat(2)),
        (kind, lambda d: d.shard(2, seed % 2)),
        (kind, lambda d: d.cache()),
        (kind, lambda d: d.prefetch(1)),
        (kind, lambda d: d.with_options(options)),
        (kind, lambda d: d.enumerate().map(_second, num_parallel_calls=parallel)),
        (kind, lambda d: d.enumerate().take_while(_below_four).map(_second)),
        (kind, lambda d: d.flat_map(_once)),
        (kind, lambda d: d.interleave(
            _twice, cycle_length=count + 1, block_length=2, num_parallel_calls=parallel)),
        (kind, lambda d: d.map(_nested).flat_map(_nested_again)),
    ]  # fmt: skip
    of_kind: dict[str, list[tuple[str, Step]]] = {
        NUMBER: [
            (NUMBER, lambda d: d.map(_plus_one, num_parallel_calls=parallel)),
            (NUMBER, lambda d: d.filter(_is_even)),
            (NUMBER, lambda d: d.batch(count, drop_remainder=seed % 2 == 0).unbatch()),
            (VECTOR, lambda d: d.window(count, shift=1).flat_map(_whole)),
            (NUMBER, lambda d: tf.data.Dataset.zip(d, d.map(_plus_one)).map(_second)),
            (VECTOR, lambda d: d.map(_as_vector, num_parallel_calls=parallel)),
            (RECORD, lambda d: d.map(_as_record)),
            (RAGGED, lambda d: d.map(_as_vector).map(_as_ragged)),
        ],
        TEXT: [(NUMBER, lambda d: d.map(tf.strings.to_number).map(_as_number))],
        RECORD: [(RECORD, lambda d: d.map(_next_record))],
        RAGGED: [(VECTOR, lambda d: d.map(_dense))],
        SPARSE: [(SPARSE, lambda d: d.batch(count).unbatch())],
    }
    new, step = draw(st.sampled_from(anything + of_kind.get(kind, []) * 3))
    return new, step(dataset)


@st.composite
def _ended(draw: Any, kind: str, dataset: Any) -> Any:
    """The data set, batched as its kind allows."""
    count, drop = draw(st.integers(1, 4)), draw(st.booleans())
    if kind == VECTOR:
        if draw(st.booleans()):
            return dataset.ragged_batch(count, drop_remainder=drop)
        return dataset.padded_batch(count, drop_remainder=drop, padding_values=None)
    return dataset.batch(count, drop_remainder=drop)


def _plus_one(x: Any) -> Any:
    return x + 1


def _is_even(x: Any) -> Any:
    return x % 2 == 0


def _second(index: Any, element: Any) -> Any:
    return element


def _below_four(index: Any, element: Any) -> Any:
    return index < 4


def _whole(window: Any) -> Any:
    return window.batch(3)


def _as_row(x: Any) -> Any:
    return tf.fill([3], tf.cast(x, tf.float32))


def _as_vector(x: Any) -> Any:
    return tf.fill([x % 3 + 1], x)


def _as_ragged(x: Any) -> Any:
    return tf.RaggedTensor.from_row_lengths(x, [tf.size(x, tf.int64)])


def _as_record(x: Any) -> Any:
    return {"x": _as_row(x), "y": x}


def _next_record(record: Any) -> Any:
    return {"x": record["x"] + 1, "y": record["y"]}


def _dense(x: Any) -> Any:
    return tf.reshape(x.flat_values, [-1])


def _as_number(x: Any) -> Any:
    return tf.cast(x, tf.int64)


def _once(*element: Any) -> Any:
    return _twice(*element).take(1)


def _twice(*element: Any) -> Any:
    return tf.data.Dataset.from_tensors(element[0]).repeat(2)


def _nested(element: Any) -> Any:
    return tf.data.Dataset.from_tensors(element).map(lambda x: x)


def _nested_again(dataset: Any) -> Any:
    return dataset.flat_map(_once)


def kinds(plan: DataPlan) -> list[str]:
    """The stages of a plan, by what they are."""
    return [stage.kind for stage in plan.stages]


def assert_left_alone(plan: DataPlan, rewrite: Any, reason: str) -> None:
    """The rewrite has not changed the plan, and says why."""
    assert rewrite.plan is plan
    assert reason in rewrite.reason
