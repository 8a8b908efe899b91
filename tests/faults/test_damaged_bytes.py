"""Flipped bytes and cut ends of the files that tfopt keeps: an error or the data, and no write."""

from __future__ import annotations

import hashlib
import random

import numpy as np
import pytest
from support.in_process import tfopt_here
from support.stored_measurements import FIRST, FIRST_RESULTS, SECOND_RESULTS, keep

from tfopt_core.files import Disk
from tfopt_core.store.database import Store, store_path
from tfopt_core.training.checkpoints.folder import (
    Checkpoint,
    DamagedCheckpoint,
    read_file,
    write_file,
)

DAMAGES = 40
COMMANDS = (["runs"], ["report", FIRST], ["compare", "aa01", "bb02"])


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of a results' file with two measurements."""
    path = store_path(tmp_path_factory.mktemp("whole"))
    with Store(path) as store:
        for results in (FIRST_RESULTS, SECOND_RESULTS):
            keep(store, results)
    return path.read_bytes()


def flipped(data: bytes, chance: random.Random) -> bytes:
    damaged = bytearray(data)
    for _ in range(chance.choice([1, 8, 200])):
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
    return bytes(damaged)


def cut(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(1, len(data))]


@pytest.mark.promise(13, injected="bits of the file flipped, its end cut off, at drawn places")
@pytest.mark.parametrize("damage", [flipped, cut])
def test_a_damaged_file_is_read_or_refused_and_never_written(whole, tmp_path, damage):
    chance = random.Random(7)
    path = store_path(tmp_path)
    path.parent.mkdir()
    for number in range(DAMAGES):
        data = damage(whole, chance)
        path.write_bytes(data)
        words = COMMANDS[number % len(COMMANDS)]
        done = tfopt_here(*words, cwd=tmp_path)
        assert done.code in (0, 2, 3), (number, words, done.err)
        assert "Traceback" not in done.err, (number, words)
        for line in done.err.splitlines():
            assert line.startswith("error: "), (number, words, line)
        assert path.read_bytes() == data, (number, words)


@pytest.mark.promise(41, injected="bits of a checkpoint flipped, its end cut off, at drawn places")
def test_a_damaged_checkpoint_is_known_as_such(tmp_path):
    path, chance = tmp_path / "c.tfopt", random.Random(8)
    arrays = {"a": np.arange(500.0), "b": np.ones((3, 4), "int32")}
    write_file(path, tmp_path / "c.tmp", Checkpoint({"epochs": 3}, arrays), Disk())
    data = path.read_bytes()
    assert read_file(path).values == {"epochs": 3}
    for _ in range(DAMAGES):
        for damage in (flipped, cut):
            damaged = damage(data, chance)
            if hashlib.sha256(damaged).digest() == hashlib.sha256(data).digest():
                continue  # a bit that was flipped twice
            path.write_bytes(damaged)
            with pytest.raises(DamagedCheckpoint):
                read_file(path)
