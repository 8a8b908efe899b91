"""What the distributed loop needs to know of the data, and the private names that it relies on."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from support.lazy_modules import keras

from tfopt_core.data import DataPlan, Shuffle
from tfopt_core.data.stages import UNKNOWN_COUNT_BUFFER
from tfopt_core.errors import WorkloadError
from tfopt_core.hooks.context import Cluster
from tfopt_core.training.distributed.cluster import callbacks_of
from tfopt_core.training.distributed.coordinated import Coordinated, with_known_buffers
from tfopt_core.training.distributed.distribution import Synchronous
from tfopt_core.training.distributed.synchronous import fills_last_batch


def plan(count: int) -> DataPlan:
    return DataPlan.from_arrays((np.zeros((count, 2)),))


@pytest.mark.parametrize(
    ("count", "drop", "fills"), [(32, False, True), (33, False, False), (33, True, True)]
)
def test_a_last_batch_is_full_where_the_batches_divide_the_examples(count, drop, fills):
    assert fills_last_batch(plan(count).batch(16, drop_remainder=drop)) is fills


def test_a_last_batch_of_unknown_size_may_be_smaller():
    assert not fills_last_batch(plan(32).filter(lambda x: True).batch(16))


def test_every_shuffle_has_a_size_before_it_is_built_in_a_graph():
    known = with_known_buffers(plan(32).shuffle().batch(4).shuffle(3))

    sizes = [stage.buffer_size for stage in known.stages if isinstance(stage, Shuffle)]
    assert sizes == [32, 3]


def test_a_shuffle_of_unknown_length_gets_the_usual_buffer():
    known = with_known_buffers(plan(32).filter(lambda x: True).shuffle())

    at = known.find(Shuffle)
    assert at is not None
    assert known.stages[at].buffer_size == UNKNOWN_COUNT_BUFFER


@pytest.mark.tensorflow
@pytest.mark.parametrize("kind", [Synchronous, Coordinated])
def test_a_model_whose_data_are_refused_keeps_its_strategy(kind):
    model, strategy = keras.Sequential(), object()
    model._distribute_strategy = strategy
    distribution = kind(SimpleNamespace(model=model, run=SimpleNamespace(datasets={"train": []})))

    with pytest.raises(WorkloadError, match="no strategy can share out"):
        distribution.install()
    distribution.uninstall()

    assert vars(model)["_distribute_strategy"] is strategy


WORKERS = {"worker": ("a:1", "b:2")}


@pytest.mark.tensorflow
def test_only_the_chief_has_callbacks_that_write(tmp_path):
    stops = keras.callbacks.EarlyStopping()
    callbacks = [
        keras.callbacks.ModelCheckpoint(tmp_path / "model.keras"),
        keras.callbacks.CSVLogger(tmp_path / "log.csv"),
        stops,
    ]
    chief, worker = (Cluster(addresses=WORKERS, job="worker", index=i) for i in (0, 1))

    assert callbacks_of(callbacks, None) == callbacks_of(callbacks, chief) == callbacks
    assert callbacks_of(callbacks, worker) == [stops]


@pytest.mark.tensorflow
def test_a_callback_that_backs_up_from_every_worker_is_refused(tmp_path):
    backup = keras.callbacks.BackupAndRestore(tmp_path)
    chief = Cluster(addresses=WORKERS, job="worker", index=0)

    assert callbacks_of([backup], None) == [backup]
    with pytest.raises(WorkloadError, match="--resume"):
        callbacks_of([backup], chief)
