"""Checkpoints: what is written is read; whatever fails, the newest valid one can be read."""

import errno

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from support.failing_disk import FailingDisk, Killed

from tfopt_core.errors import InputError, StoreError
from tfopt_core.files import write_whole
from tfopt_core.training.checkpoints.folder import (
    MARKER,
    Checkpoint,
    DamagedCheckpoint,
    Writer,
    encoded,
    make_ours,
    names_in,
    newest_in,
    read_file,
    writing_alone,
)

NUMBERS = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="<"),
    hnp.unsigned_integer_dtypes(endianness="<"),
    hnp.floating_dtypes(endianness="<", sizes=(16, 32, 64)),
)

ARRAYS = NUMBERS.flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0))
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def written(folder, checkpoint):
    path = folder / "c.tfopt"
    write_whole(path, encoded(checkpoint))
    return path


@given(
    values=st.dictionaries(st.text(), VALUES), arrays=st.dictionaries(st.text(), ARRAYS, max_size=4)
)
def test_what_is_written_is_read(tmp_path_factory, values, arrays):
    path = written(tmp_path_factory.mktemp("file"), Checkpoint(values, arrays))
    read = read_file(path)
    assert read.values == values
    assert list(read.arrays) == list(arrays)
    for name, array in arrays.items():
        assert read.arrays[name].dtype == array.dtype
        assert read.arrays[name].shape == array.shape
        assert read.arrays[name].tobytes() == array.tobytes()


def test_arrays_that_are_not_contiguous_keep_their_order(tmp_path):
    array = np.arange(24).reshape(4, 6)[::2, ::-1].T
    read = read_file(written(tmp_path, Checkpoint({}, {"a": array})))
    np.testing.assert_array_equal(read.arrays["a"], array)


def test_objects_are_refused_and_nothing_is_left(tmp_path):
    array = np.array([{"a": 1}], dtype=object)
    with pytest.raises(ValueError, match='"a" holds no numbers'):
        written(tmp_path, Checkpoint({}, {"a": array}))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.promise(41, injected="bits of a checkpoint flipped, its end cut off, everywhere")
def test_any_bit_that_is_another_and_any_end_that_is_missing_is_noticed(tmp_path):
    path = written(tmp_path, Checkpoint({"epochs": 3}, {"a": np.arange(5.0)}))
    whole = path.read_bytes()
    for place in range(len(whole)):
        flipped = whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :]
        for damaged in (flipped, whole[:place]):
            path.write_bytes(damaged)
            with pytest.raises(DamagedCheckpoint):
                read_file(path)


# The folder of checkpoints: whatever fails, the newest valid one can be read


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
