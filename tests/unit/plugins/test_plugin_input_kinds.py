"""Every plugin of the input, on every kind of data: right, or left alone; never an exception."""

from collections import Counter

import numpy as np
import pytest
from support.cases import mostly_thorough
from support.lazy_modules import tf
from support.small_workloads import pydataset
from tfopt_data.augment import Augment, with_augmentation
from tfopt_data.batch import Batch
from tfopt_data.cache import Cache
from tfopt_data.interleave import Interleave
from tfopt_data.parallel_map import ParallelMap
from tfopt_data.prefetch import Prefetch
from tfopt_data.prefetch_to_device import PrefetchToDevice
from tfopt_data.shard import Shard
from tfopt_data.shuffle import Shuffle
from tfopt_data.vectorize_map import VectorizeMap

from tfopt_core import DataPlan
from tfopt_core.data.lower import lower
from tfopt_core.testing import make_run
from tfopt_core.training.replay.data import example_digests

X = np.arange(14, dtype="float32").reshape(7, 2)
Y = np.arange(7)

PLUGINS = {
    "cache in memory": lambda: Cache(storage="memory"),
    "cache on disk": lambda: Cache(storage="disk"),
    "cache in part": lambda: Cache(storage="partial", splits=("train",)),
    "parallel-map": lambda: ParallelMap(calls=2),
    "vectorize-map": VectorizeMap,
    "prefetch": Prefetch,
    "prefetch-to-device": lambda: PrefetchToDevice(device="/cpu:0"),
    "shuffle": Shuffle,
    "interleave": lambda: Interleave(cycle_length=2),
    "shard": lambda: Shard(count=1, index=0),
    "batch": lambda: Batch(last="keep"),
}


def ragged():
    rows = tf.ragged.constant([[1.0], [2.0, 3.0], [], [4.0]])
    return (
        tf.data.Dataset.from_tensor_slices(rows).map(lambda row: row * 2).shuffle(2).ragged_batch(3)
    )


def sparse():
    rows = tf.sparse.from_dense(np.eye(4, dtype="float32"))
    return tf.data.Dataset.from_tensor_slices(rows).map(lambda row: row * 2.0).batch(3)


def empty():
    return tf.data.Dataset.from_tensor_slices(X).take(0).map(lambda x: x * 2).batch(2)


def generated():
    def read():
        yield from X

    spec = tf.TensorSpec([2], tf.float32)
    return tf.data.Dataset.from_generator(read, output_signature=spec).map(lambda x: x + 1).batch(3)


def windows():
    return tf.data.Dataset.range(7).window(3).flat_map(lambda w: w.batch(3)).padded_batch(2)


def texts():
    return tf.data.Dataset.from_tensor_slices(["a b", "c", ""]).map(tf.strings.upper).batch(2)


def pairs():
    return DataPlan.from_arrays(X, Y)


DATA = {
    "one batch": lambda: pairs().map(lambda x, y: (x / 2, y)).batch(7),
    "last partial batch": lambda: pairs().shuffle(seed=1).map(lambda x, y: (x / 2, y)).batch(3),
    "sample weights": lambda: DataPlan.from_arrays(X, Y, X[:, 0]).map(lambda *e: e).batch(3),
    "dict inputs": lambda: DataPlan.from_arrays({"a": X, "b": Y}).map(lambda e: dict(e)).batch(3),
    "shapes that differ": lambda: DataPlan.from_dataset(ragged()),
    "sparse": lambda: DataPlan.from_dataset(sparse()),
    "empty": lambda: DataPlan.from_dataset(empty()),
    "generator": lambda: DataPlan.from_dataset(generated()),
    "windows": lambda: DataPlan.from_dataset(windows()),
    "texts": lambda: DataPlan.from_dataset(texts()),
}

KEPT = [kind for kind in DATA if kind not in ("sparse", "texts", "windows")]


@pytest.mark.parametrize("data", mostly_thorough(DATA, KEPT))
def test_every_plugin_keeps_the_examples_of(data, tmp_path):
    plan = DATA[data]()
    wanted = counted(plan)
    for name, make in PLUGINS.items():
        run = make_run(folder=tmp_path / name)
        made = make().build_dataset(run, "train", plan)
        assert counted(made) == wanted, name


def counted(plan):
    """The examples of two epochs, each as often as it comes."""
    data = lower(plan)
    return Counter(digest for _ in range(2) for batch in data for digest in example_digests(batch))


def test_pydataset_is_left_to_keras_by_every_plugin(tmp_path):
    plan = DataPlan.from_pydataset(pydataset(X, X))
    for name, make in PLUGINS.items():
        made = make().build_dataset(make_run(folder=tmp_path / name), "train", plan)
        assert made is plan, name
    assert "PyDataset" in with_augmentation(plan, lambda *element: element).reason


@pytest.mark.parametrize("plugin", [Augment(layers=[{"layer": "RandomFlip"}]), Batch(last="drop")])
def test_what_changes_the_training_leaves_the_validation_data(plugin):
    plan = pairs().batch(4)
    assert plugin.build_dataset(make_run(), "validation", plan) is plan
