"""Libraries that write files past Python: they are asked by wrapping their entry points.

HDF5 (Keras' `.weights.h5` and `.h5`), TensorFlow's file functions, its records and its summaries.
Each library is wrapped once it has been imported, and nothing is imported for it.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

from tfopt_core.training.scripts.file_events import absolute, prepare
from tfopt_core.training.scripts.guard import OpenGuard
from tfopt_core.training.scripts.importing import WhenImported

_TENSORFLOW_FILES = "tensorflow.python.lib.io.file_io"
_TENSORFLOW_RECORDS = "tensorflow.python.lib.io.tf_record"
_TENSORFLOW_SUMMARIES = "tensorflow.python.ops.gen_summary_ops"
_HDF5 = "h5py._hl.files"

_FLAGS = {
    "w": os.O_RDWR | os.O_CREAT | os.O_TRUNC,
    "w-": os.O_RDWR | os.O_CREAT | os.O_EXCL,
    "x": os.O_RDWR | os.O_CREAT | os.O_EXCL,
    "a": os.O_RDWR | os.O_CREAT,
    "r+": os.O_RDWR,
}

Before = Callable[..., None]


class NativeWriters:
    """While this is entered, the writers of these libraries ask first."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __enter__(self) -> NativeWriters:
        self._stack.enter_context(
            WhenImported(
                {
                    _HDF5: self._hdf5,
                    _TENSORFLOW_FILES: self._tensorflow_files,
                    _TENSORFLOW_RECORDS: self._tensorflow_records,
                    _TENSORFLOW_SUMMARIES: self._tensorflow_summaries,
                }
            )
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _hdf5(self) -> None:
        self._before(getattr(sys.modules[_HDF5], "File", None), "__init__", _hdf5_file)

    def _tensorflow_files(self) -> None:
        native = getattr(sys.modules[_TENSORFLOW_FILES], "_pywrap_file_io", None)
        for name, before in _TENSORFLOW.items():
            self._before(native, name, before)

    def _tensorflow_records(self) -> None:
        writer = getattr(sys.modules[_TENSORFLOW_RECORDS], "TFRecordWriter", None)
        self._before(writer, "__init__", _record_writer)

    def _tensorflow_summaries(self) -> None:
        self._before(
            sys.modules[_TENSORFLOW_SUMMARIES], "create_summary_file_writer", _summary_writer
        )

    def _before(self, owner: Any, name: str, before: Before) -> None:
        """Call `before` with the arguments of each call; another version may lack the name."""
        function = getattr(owner, name, None)
        if function is None:
            return

        @functools.wraps(function)
        def asks_first(*args: Any, **kwargs: Any) -> Any:
            before(*args, **kwargs)
            return function(*args, **kwargs)

        setattr(owner, name, asks_first)
        self._stack.callback(setattr, owner, name, function)


def _with(path: Any, method: Callable[[OpenGuard, str], None]) -> None:
    if isinstance(path, str | bytes | os.PathLike):
        where = absolute(path)
        # TensorFlow reads "gs://bucket" itself
        if where is not None and "://" not in where:
            prepare(lambda guard: method(guard, where))


def _opening(path: Any, flags: int) -> None:
    _with(path, lambda guard, where: guard.opening(where, flags))


def _hdf5_file(_: Any, name: Any = None, mode: Any = "r", *args: Any, **kwargs: Any) -> None:
    if mode in _FLAGS:
        _opening(name, _FLAGS[mode])


def _writable_file(path: Any, mode: Any, *_: Any) -> None:
    text = os.fsdecode(mode).replace("b", "")
    _opening(path, _FLAGS["w" if text.startswith("w") else "a"])


def _record_writer(_: Any, path: Any = None, *args: Any, **kwargs: Any) -> None:
    _opening(path, _FLAGS["w"])


def _copy_file(_: Any, target: Any, *args: Any) -> None:
    _opening(target, _FLAGS["w"])


def _rename_file(source: Any, target: Any, *_: Any) -> None:
    other = absolute(target)
    if other is not None:
        _with(source, lambda guard, where: guard.renaming(where, other))


def _summary_writer(*args: Any, **kwargs: Any) -> None:
    folder = kwargs.get("logdir", args[1] if len(args) > 1 else None)
    with suppress(Exception):  # a symbolic tensor
        folder = folder.numpy()  # type: ignore[union-attr]
    _with(folder, OpenGuard.making_folder)


_TENSORFLOW: dict[str, Before] = {
    "CopyFile": _copy_file,
    "CreateDir": lambda path, *_: _with(path, OpenGuard.making_folder),
    "DeleteFile": lambda path, *_: _with(path, OpenGuard.removing),
    "DeleteRecursively": lambda path, *_: _with(path, OpenGuard.removing_through_links),
    "RecursivelyCreateDir": lambda path, *_: _with(path, OpenGuard.making_folder),
    "RenameFile": _rename_file,
    "WritableFile": _writable_file,
}
