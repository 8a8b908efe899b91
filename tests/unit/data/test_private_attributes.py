"""What is read of TensorFlow's private parts is still there, and means what it should.

A failure here after an update of TensorFlow costs speed, not correctness: data sets stay in one
piece then. Mend `tfopt_core/data/dissect`.
"""

from __future__ import annotations

import importlib
import pkgutil

import pytest
from support.lazy_modules import tf

from tfopt_core.data import DataPlan
from tfopt_core.data.dissect import steps, walk
from tfopt_core.data.dissect.apart import _REPEATING, _SOURCES
from tfopt_core.data.dissect.walk import last_step

pytestmark = pytest.mark.tensorflow


def test_every_class_that_is_known_by_name_exists():
    from tensorflow.python.data import ops
    from tensorflow.python.data.experimental import ops as experimental

    modules = [
        importlib.import_module(f"{folder.__name__}.{module.name}")
        for folder in (ops, experimental)
        for module in pkgutil.iter_modules(folder.__path__)
    ]
    names = {name for module in modules for name in vars(module)}
    known = {*_SOURCES, *steps._STEPS, *steps._READERS, *_REPEATING}
    assert known <= names


def test_a_function_is_its_graph_and_its_specs():
    data = tf.data.Dataset.range(3).map(lambda x: {"a": (x, x + 1)})
    structured = data._map_func
    assert structured._input_structure == tf.TensorSpec((), tf.int64)
    assert structured.output_structure == data.element_spec
    assert [float(tensor) for tensor in structured.function(tf.constant(2, tf.int64))] == [2, 3]
    assert structured._func(4) == {"a": (4, 5)}
    assert b"lambda" in structured.function.name
    assert structured.function.graph.as_graph_def().node
    assert data._functions() == [structured]


def test_numbers_are_tensors_and_words_are_words():
    data = tf.data.Dataset.range(2, 9, 3)
    assert [int(number) for number in (data._start, data._stop, data._step)] == [2, 9, 3]
    assert int(data.take(2)._count) == 2
    assert int(data.repeat()._count) == -1
    assert int(data.prefetch(tf.data.AUTOTUNE)._buffer_size) == tf.data.AUTOTUNE
    assert int(data.interleave(lambda x: data)._cycle_length) == tf.data.AUTOTUNE
    assert data.cache()._filename.numpy() == b""
    assert data.map(lambda x: x, num_parallel_calls=2)._deterministic == "default"
    assert data.batch(2, num_parallel_calls=2, deterministic=True)._deterministic == "true"
    assert data.map(lambda x: x)._preserve_cardinality
    assert data.map(lambda x: x, synchronous=True)._force_synchronous
    parallel = data.map(lambda x: x, num_parallel_calls=2, use_unbounded_threadpool=True)
    assert parallel._use_unbounded_threadpool
    padded = data.padded_batch(2)
    assert padded._padded_shapes.numpy().tolist() == []
    assert int(padded._padding_values) == 0


def test_a_seed_is_a_pair_that_is_zero_without_any():
    tf.random.set_seed(3)
    shuffle = tf.data.Dataset.range(3).shuffle(3, seed=4)
    assert (int(shuffle._seed), int(shuffle._seed2)) == (3, 4)
    assert set(shuffle._common_args) == {"metadata", "output_shapes", "output_types"}


def test_only_the_graph_knows_the_order_of_a_parallel_interleave():
    data = tf.data.Dataset.range(3)
    for deterministic, word in ((True, b"true"), (False, b"false"), (None, b"default")):
        mixed = data.interleave(lambda x: data, num_parallel_calls=2, deterministic=deterministic)
        step, _ = last_step(mixed)
        assert step.op == "ParallelInterleaveDatasetV4"
        assert step.attr["deterministic"].s == word
        assert not hasattr(mixed, "_deterministic")  # or it should be read from there


def test_unbatch_first_brings_its_input_into_another_form():
    unbatched = tf.data.Dataset.range(4).batch(2).unbatch()
    assert type(unbatched._input_dataset).__name__ == "_RestructuredDataset"
    normalized = unbatched._input_dataset._input_dataset
    assert "normalize_to_dense" in normalized._map_func._func.__qualname__


def test_readers_are_made_of_their_files_and_a_function_that_reads_one(tmp_path):
    for reader in (tf.data.TextLineDataset, tf.data.TFRecordDataset):
        made = reader([str(tmp_path)])._impl
        assert type(made).__name__ == "_FlatMapDataset"
        assert type(made._input_dataset).__name__ == "_TensorSliceDataset"


def test_a_data_set_that_holds_much_is_not_serialized(monkeypatch):
    data = tf.data.Dataset.from_tensor_slices(tf.zeros((9, 9)))
    mixed = data.interleave(lambda x: tf.data.Dataset.range(2), num_parallel_calls=2)
    assert DataPlan.from_dataset(mixed).source.origin == "arrays"
    monkeypatch.setattr(walk, "_MOST_BYTES", 100)
    assert DataPlan.from_dataset(mixed).source.origin == "dataset"
