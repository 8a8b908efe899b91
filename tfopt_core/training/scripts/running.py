"""Run a script as Python does: as `__main__`, with its own arguments and exit status."""

from __future__ import annotations

import importlib
import importlib.util
import io
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, TracebackType
from typing import NoReturn

import attrs

from tfopt_core.errors import describe


@attrs.frozen(kw_only=True)
class ScriptEnd:
    """How a script ended.

    :param status: its exit status, as under Python.
    :param error: the exception that it raised, with the line; None if it raised none.
    :param exited: its call of `sys.exit`, such as `sys.exit(3)`; None if there was none.
    :param raised: the exception itself.
    :param read_input: whether it read standard input, which is empty.
    """

    status: int
    error: str | None = None
    exited: str | None = None
    raised: BaseException | None = None
    read_input: bool = False


def run_script(path: Path, arguments: Sequence[str], module: str | None = None) -> ScriptEnd:
    """Run the script, and the threads that it starts, to the end.

    A process that it forks ends with the script, as it does without tfopt, and never returns.

    :param module: its name if it is started by `python -m`, in the working directory.
    :raises KeyboardInterrupt: as the script does.
    """
    owner = os.getpid()
    stdin = _EmptyInput()
    sys.stdin = io.TextIOWrapper(io.BufferedReader(stdin))
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.parent) if module is None else os.getcwd())
    main = ModuleType("__main__")
    main.__file__ = str(path)
    sys.modules["__main__"] = main
    try:
        if module is not None:
            _describe_module(main, module, path)
        code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
        exec(code, vars(main))
        end = ScriptEnd(status=0)
    except KeyboardInterrupt:
        raise
    except SystemExit as error:
        end = _exited(error)
    except BaseException as error:
        end = _raised(error, path)
    if os.getpid() != owner:
        _end_fork(end.status)
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.current_thread():
            thread.join()
    return attrs.evolve(end, read_input=stdin.was_read)


def _describe_module(main: ModuleType, name: str, path: Path) -> None:
    """Import the packages of a module, and set what it reads of itself, as `python -m` does."""
    if path.name == "__main__.py" and name.rpartition(".")[2] != "__main__":
        name += ".__main__"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    if spec.parent:
        importlib.import_module(spec.parent)
    main.__spec__, main.__loader__, main.__package__ = spec, spec.loader, spec.parent


def _exited(error: SystemExit) -> ScriptEnd:
    code = error.code
    if code is None or isinstance(code, int):
        status = (code or 0) & 0xFF
        return ScriptEnd(status=status, exited=f"sys.exit({'' if code is None else code})")
    print(code, file=sys.stderr)
    return ScriptEnd(status=1, exited=f"sys.exit({str(code)[:80]!r})")


def _raised(error: BaseException, path: Path) -> ScriptEnd:
    own = _own_frames(error.__traceback__, path)
    sys.excepthook(type(error), error.with_traceback(own), own)
    sys.stderr.flush()
    return ScriptEnd(status=1, error=f"{_place(error, own)}{describe(error)}", raised=error)


def _own_frames(trace: TracebackType | None, path: Path) -> TracebackType | None:
    """Return the traceback from the script's first frame on."""
    step = trace
    while step is not None and step.tb_frame.f_code.co_filename != str(path):
        step = step.tb_next
    return step


def _place(error: BaseException, trace: TracebackType | None) -> str:
    """Return the innermost line of the script itself: `train.py:12: `."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{Path(error.filename).name}:{error.lineno}: "
    place, step = "", trace
    while step is not None:
        file = Path(step.tb_frame.f_code.co_filename)
        if trace is not None and file == Path(trace.tb_frame.f_code.co_filename):
            place = f"{file.name}:{step.tb_lineno}: "
        step = step.tb_next
    return place


def _end_fork(status: int) -> NoReturn:
    """End a process that the script forked: a copy of tfopt, which must not report for it."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)


class _EmptyInput(io.RawIOBase):
    """Empty standard input that notes whether it was read."""

    was_read = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        self.was_read = True
        return 0
