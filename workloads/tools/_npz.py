"""Write compressed npz files whose bytes depend on their contents alone."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

# `np.savez_compressed` stamps each member with the time; this is the earliest that zip knows
_STAMP = (1980, 1, 1, 0, 0, 0)


def write_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write the arrays in their order; the same arrays and the same zlib give the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            member = zipfile.ZipInfo(f"{name}.npy", _STAMP)
            member.compress_type = zipfile.ZIP_DEFLATED
            member.external_attr = 0o644 << 16
            member.create_system = 3  # the system that writes would be noted otherwise
            buffer = io.BytesIO()
            np.save(buffer, np.ascontiguousarray(array), allow_pickle=False)
            archive.writestr(member, buffer.getvalue(), compresslevel=9)


def contents_sha256(arrays: Mapping[str, np.ndarray]) -> str:
    """A digest of names, types, shapes and values: the same whatever zlib compressed them."""
    digest = hashlib.sha256()
    for name, array in arrays.items():
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def report(path: Path, arrays: Mapping[str, np.ndarray]) -> str:
    """What was written, a line each: the arrays, the file and both digests."""
    lines = [f"{name}: {array.dtype} {array.shape}" for name, array in arrays.items()]
    lines.append(f"{path}: {path.stat().st_size:,} bytes")
    lines.append(f"SHA-256 of the file:     {hashlib.sha256(path.read_bytes()).hexdigest()}")
    lines.append(f"SHA-256 of the contents: {contents_sha256(arrays)}")
    return "\n".join(lines)
