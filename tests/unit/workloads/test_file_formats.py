"""Lengths of the arrays in `.npz` and IDX files, and damaged IDX files."""

import gzip

import numpy as np
import pytest
from tfopt_workloads import bundled
from tfopt_workloads.idx import FILES, idx_length, read_idx


def write_idx(path, array):
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    path.write_bytes(gzip.compress(bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()))


@pytest.fixture
def originals(tmp_path):
    """40 training and 40 validation images of 2x2; half of the latter occur in training."""
    train = np.arange(160, dtype="uint8").reshape(40, 2, 2)
    arrays = {
        "train_images": train,
        "train_labels": np.arange(40, dtype="uint8") % 10,
        "validation_images": np.concatenate([train[:20], train[:20] + np.uint8(90)]),
        "validation_labels": np.arange(40, dtype="uint8") % 10,
    }
    for name, array in arrays.items():
        write_idx(tmp_path / FILES[name], array)
    return tmp_path


def test_lengths_are_read_without_unpacking(originals, tmp_path):
    np.savez_compressed(tmp_path / "x.npz", a=np.zeros((7, 2)), b=np.zeros(3))
    assert bundled.lengths(tmp_path / "x.npz") == {"a": 7, "b": 3}
    assert idx_length(originals / FILES["train_images"]) == 40


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"plain",
        gzip.compress(b"\0\0\x08", mtime=0),
        gzip.compress(bytes([0, 0, 8, 1, 0, 0, 0, 9, 1]), mtime=0),
        gzip.compress(bytes([0, 0, 8, 3, 0, 0, 0, 9, 1]), mtime=0),
        gzip.compress(bytes([0, 0, 8, 1, 0, 0, 0, 1, 1]), mtime=0)[:-9],
    ],
)
def test_damaged_idx_files_are_refused(tmp_path, content):
    (tmp_path / "x.gz").write_bytes(content)
    with pytest.raises((ValueError, OSError), match=r".+"):
        read_idx(tmp_path / "x.gz")
