"""The folder of checkpoints: whatever fails, the newest valid one can be read."""

from __future__ import annotations

import errno

import numpy as np
import pytest
from support.failing_disk import FailingDisk, Killed

from tfopt_core.errors import InputError, StoreError
from tfopt_core.training.checkpoints.folder import (
    MARKER,
    Checkpoint,
    Writer,
    make_ours,
    names_in,
    newest_in,
    writing_alone,
)


def checkpoint(epochs):
    return Checkpoint({"epochs": epochs}, {"a": np.full(100, epochs), "b": np.ones((2, 3))})


def with_three(folder):
    """A folder in which three checkpoints were written, and its writer."""
    make_ours(folder)
    writer = Writer(folder)
    for epochs in (1, 2, 3):
        writer.write(checkpoint(epochs))
    return writer


def epochs_of(folder):
    newest = newest_in(folder)
    assert newest.start is not None
    return newest.epochs


def test_the_last_two_are_kept(tmp_path):
    with_three(tmp_path)
    assert names_in(tmp_path) == ["checkpoint-000003.tfopt", "checkpoint-000002.tfopt"]
    assert sorted(path.name for path in tmp_path.iterdir())[0] == MARKER


@pytest.mark.promise(
    12, injected="each operation of a checkpoint in turn fails, tears or is the last"
)
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), Killed()])
@pytest.mark.parametrize("torn", [False, True])
def test_whichever_operation_fails_a_valid_checkpoint_can_be_read(tmp_path, error, torn):
    at, completed, said = 0, False, []
    while not completed:
        at += 1
        folder = tmp_path / str(at)
        writer = with_three(folder)
        writer.disk = FailingDisk(at, error, torn=torn)
        try:
            writer.write(checkpoint(4))
            # (to remove the old one may fail: it is removed the next time)
            completed = writer.disk.count < at
        except (StoreError, Killed) as error_raised:
            said.append(str(error_raised))
        assert epochs_of(folder) in (3, 4)
        assert newest_in(folder).damaged == ()
        # and whoever comes next goes on from it, and cleans up
        again = Writer(folder, [newest_in(folder).start])
        again.write(checkpoint(5))
        assert epochs_of(folder) == 5
        assert len(names_in(folder)) == 2
    assert at > 10
    named = ['"checkpoint-000003.tfopt" stays the newest' in text for text in said]
    assert named == [isinstance(error, OSError)] * len(said)


def test_a_damaged_newest_is_passed_over_and_named(tmp_path):
    with_three(tmp_path)
    newest = tmp_path / "checkpoint-000003.tfopt"
    newest.write_bytes(newest.read_bytes()[:-1])
    found = newest_in(tmp_path)
    assert found.start == "checkpoint-000002.tfopt"
    assert found.damaged == ("checkpoint-000003.tfopt",)


def test_the_one_that_was_gone_on_from_outlives_a_damaged_newer_one(tmp_path):
    with_three(tmp_path)
    (tmp_path / "checkpoint-000003.tfopt").write_bytes(b"")
    Writer(tmp_path, [newest_in(tmp_path).start]).write(checkpoint(4))
    assert names_in(tmp_path) == ["checkpoint-000004.tfopt", "checkpoint-000002.tfopt"]


def test_with_all_of_them_damaged_there_is_none(tmp_path):
    with_three(tmp_path)
    for name in names_in(tmp_path):
        (tmp_path / name).write_bytes(b"junk")
    found = newest_in(tmp_path)
    assert found.start is None
    assert len(found.damaged) == 2


@pytest.mark.promise(29, injected="a folder for checkpoints with files of others")
def test_a_folder_of_others_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    (tmp_path / "checkpoint-000001.tfopt").write_text("mine too")
    with pytest.raises(InputError, match="is not empty and holds no checkpoints of tfopt"):
        make_ours(tmp_path)
    assert names_in(tmp_path) == []
    assert len(list(tmp_path.iterdir())) == 2


def test_two_do_not_write_at_the_same_time(tmp_path):
    refused = pytest.raises(InputError, match="another training")
    with writing_alone(tmp_path), refused, writing_alone(tmp_path, 0.0):
        pass
    with writing_alone(tmp_path, 0.0):
        pass
