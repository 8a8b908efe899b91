"""Run a script as Python does: as `__main__`, with its own arguments and exit status.

If it did not train by `fit`, explain why, and what to do about it. No TensorFlow.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import io
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, TracebackType
from typing import NoReturn

import attrs

from tfopt_core.errors import TfoptError, message_of

# What tfopt offers for a training that does not call `fit`.
IN_PYTHON = (
    "tfopt_core.optimize(dataset, recipe) rewrites its data, and tfopt_core.stacked(recipe) sets "
    "precision and strategy around it"
)
# How such a training is measured.
AS_OWN_LOOP = (
    'to measure the loop as a whole, add loop = "own" to [workload]; tfopt apply SCRIPT does so'
)
BOTH = (
    "the script trains in a loop of its own and by fit() too, and its loop alone is measured: take "
    'loop = "own" out of [workload] to measure its calls of fit, or the calls out of the script'
)
NO_OPTIMIZER = (
    "the script computes gradients (tf.GradientTape) and never calls an optimizer of Keras, whose "
    "updates tfopt counts as the steps of a loop of the script's own; update the weights by "
    "optimizer.apply(gradients, variables)"
)


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


def run_script(
    path: Path, arguments: Sequence[str], module: str | None = None, *, debug: bool = False
) -> ScriptEnd:
    """Run the script, and the threads that it starts, to the end.

    A process that it forks ends with the script, as it does without tfopt, and never returns.

    :param module: its name if it is started by `python -m`, in the working directory.
    :param debug: whether to print the traceback of tfopt's own expected errors too.
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
        end = _raised(error, path, debug)
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


def _raised(error: BaseException, path: Path, debug: bool) -> ScriptEnd:
    own = _own_frames(error.__traceback__, path)
    if debug or not isinstance(error, TfoptError):  # which says itself what is wrong
        sys.excepthook(type(error), error.with_traceback(own), own)
        sys.stderr.flush()
    return ScriptEnd(status=1, error=f"{_place(error, own)}{message_of(error)}", raised=error)


def _own_frames(trace: TracebackType | None, path: Path) -> TracebackType | None:
    """Return the traceback from the script's first frame on, without tfopt's frames between its
    own. An error that tfopt raises itself keeps them all."""
    steps: list[TracebackType] = []
    while trace is not None:
        if steps or trace.tb_frame.f_code.co_filename == str(path):
            steps.append(trace)
        trace = trace.tb_next
    if not steps or _is_ours(steps[-1]):
        return steps[0] if steps else None
    own = None
    for step in reversed(steps):
        if not _is_ours(step):
            own = TracebackType(own, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return own


def _is_ours(step: TracebackType) -> bool:
    return str(step.tb_frame.f_globals.get("__name__", "")).startswith("tfopt_core.")


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


def place_now() -> str:
    """Return the innermost line of the script that is being carried out, `train.py:12: `; "" where
    none is: `__main__` is then tfopt's own."""
    main, frame = vars(sys.modules["__main__"]), inspect.currentframe()
    while frame is not None and frame.f_globals is not main:
        frame = frame.f_back
    if frame is None or str(main.get("__package__")).startswith("tfopt_core"):
        return ""
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}: "


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


def why_nothing_trained(
    end: ScriptEnd, *, fits: int = 0, updates: int = 0, batches_alone: int = 0, tapes: int = 0
) -> str:
    """Return why there was no call of `fit`, in one sentence.

    :param fits: calls of Keras' `fit`.
    :param updates: updates of variables by an optimizer outside of them.
    :param batches_alone: calls of `train_on_batch` outside of them.
    :param tapes: gradient tapes that were entered outside of them, as far as that was watched.
    """
    if end.read_input and end.error is not None and "EOFError" in end.error:
        return (
            f"{end.error}; the script reads standard input, which is empty in runs: take what "
            'it reads from its arguments (args = ["..."])'
        )
    if isinstance(end.raised, ModuleNotFoundError):
        return (
            f"{end.error}; install what it needs where tfopt is installed (pip of {sys.executable})"
        )
    if end.error is not None:
        if fits:
            return f"the script failed in or after fit {fits}: {end.error}"
        return f"the script failed before it called fit(): {end.error}"
    if fits:
        return "the script's calls of fit() had no data and trained nothing"
    if end.exited is not None:
        return f"the script ended by {end.exited} before it called fit()"
    if batches_alone:
        return (
            f"the script trains by train_on_batch ({batches_alone:,} calls) in a loop of its "
            f"own and never calls fit(); {AS_OWN_LOOP}; {IN_PYTHON}"
        )
    if updates:
        return (
            "the script trains in a loop of its own (optimizer.apply_gradients) and never calls "
            f"fit(); {AS_OWN_LOOP}; {IN_PYTHON}"
        )
    if tapes:
        return NO_OPTIMIZER
    if "tf_keras" in sys.modules:
        return (
            "the script trains with legacy Keras (tf_keras), which has its own fit(); port it to "
            f"Keras 3, or: {IN_PYTHON}"
        )
    if "keras" not in sys.modules:
        return "the script never imports Keras, so there is no training to look at"
    return "the script never calls fit(), so there is no training to look at"
