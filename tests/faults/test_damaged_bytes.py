"""Flipped bytes and cut ends of the files that tfopt keeps: an error or the data, and no write."""

from __future__ import annotations

import random

import pytest
from support.in_process import tfopt_here
from support.stored_measurements import FIRST, FIRST_RESULTS, SECOND_RESULTS, keep

from tfopt_core.store.database import Store, store_path

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
