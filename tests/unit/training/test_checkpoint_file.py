"""Files of checkpoints: what is written is read, and whatever is damaged is known as such."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tfopt_core.files import write_whole
from tfopt_core.training.checkpoints.folder import (
    Checkpoint,
    DamagedCheckpoint,
    encoded,
    read_file,
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
