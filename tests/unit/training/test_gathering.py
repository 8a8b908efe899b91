"""Each worker's own values, kept by the chief and given back."""

from __future__ import annotations

import numpy as np
import pytest

from tfopt_core.errors import InputError
from tfopt_core.training.distributed import cluster
from tfopt_core.training.distributed.cluster import of_every_worker, of_this_worker


class Workers:
    """Three workers that say the same things one after another; `rank` is the one that asks."""

    def __init__(self, monkeypatch, *own: dict) -> None:
        self.own = own
        monkeypatch.setattr(cluster, "exchanged", self.exchanged)
        monkeypatch.setattr(cluster, "gathered", self.gathered)

    def exchanged(self, strategy, document):
        said = []
        for arrays in self.own:
            self.document = None
            said.append({name: str(array.tobytes()) for name, array in arrays.items()})
        return said

    def gathered(self, strategy, row):
        differing = [
            name for name in self.own[0]
            if len({arrays[name].tobytes() for arrays in self.own}) > 1
        ]  # fmt: skip
        rows = []
        for arrays in self.own:
            data = b"".join(arrays[name].tobytes() for name in differing)
            rows.append(np.frombuffer(data, np.uint8).astype(np.int32))
        return np.stack(rows)


def worker(average: float) -> dict:
    return {
        "model/0/0": np.arange(6, dtype=np.float32).reshape(2, 3),
        "model/1/0": np.full((2,), average, np.float64),
        "model/2/0": np.array(int(average), np.uint16),
    }


def test_each_worker_gets_its_own_values_back_and_shared_ones_are_kept_once(monkeypatch):
    workers = [worker(1.5), worker(2.5), worker(3.5)]
    Workers(monkeypatch, *workers)

    kept = of_every_worker(None, workers[0])

    assert "worker 1/model/0/0" not in kept
    for rank, own in enumerate(workers):
        back = of_this_worker(kept, rank)
        for name, array in own.items():
            np.testing.assert_array_equal(back[name], array)
            assert back[name].dtype == array.dtype


def test_workers_with_the_same_values_keep_them_once(monkeypatch):
    Workers(monkeypatch, worker(1.0), worker(1.0))

    assert set(of_every_worker(None, worker(1.0))) == set(worker(1.0))


def test_a_worker_that_was_not_there_is_told_so(monkeypatch):
    Workers(monkeypatch, worker(1.0), worker(2.0))
    kept = of_every_worker(None, worker(1.0))

    with pytest.raises(InputError, match="nothing of a worker 2"):
        of_this_worker(kept, 2)
