"""The program that forks `tfopt` commands for the tests: it has imported TensorFlow once.

    python -P command_server.py CONTROL [MODULE ...]

A command that it forks is a process as any other, with arguments, folder, environment, streams and
children of its own; so are the processes that the command starts. What both save is the imports:
those of TensorFlow alone take 3 s of a core. Requests come on CONTROL as packets of JSON with
descriptors: three streams, a socket on which the command's pid and its exit status are told, and
those that the command is passed. A request may also be for a Python program, and for the program
that `tfopt_core` starts between itself and a run, where a test calls `tfopt_core` itself.
"""

import contextlib
import fcntl
import gc
import importlib
import io
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from tfopt_core.workers.interrupts import HoldInterrupt

PACKET_BYTES = 1 << 18
MOST_DESCRIPTORS = 16
# Above all that a program is passed.
SPARE_DESCRIPTORS = 500
# What Python, TensorFlow or Keras read while they start: no fork takes another value for them.
READ_AT_START = ("PYTHON", "LANG", "LC_", "LD_", "KERAS_", "TF_ENABLE_", "TF_USE_LEGACY", "TF2_")
# What tfopt starts that imports TensorFlow: those that serve a channel, and what forks such.
CHILD = "tfopt_core.workers.child"
FORK_SERVER = "tfopt_core.workers.fork_server"
# What benchmarks start that imports it.
COMMAND, PEERS = "tfopt_core", "peers."

real_popen, real_posix_spawn = subprocess.Popen, os.posix_spawn
import_path = list(sys.path)


def start_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what of an environment counts while a process starts."""
    found = {name: environment[name] for name in environment if name.startswith(READ_AT_START)}
    return {"KERAS_BACKEND": "tensorflow", **found}


def serve(control: socket.socket, modules: Sequence[str]) -> None:
    """Fork a command for each request, until the other end is closed."""
    from tfopt_core.workers.fork_server import PRELOADED

    always = ("tfopt_core.commands.main", "rich.table", "tomlkit", *PRELOADED, "scipy.stats")
    for name in (*always, *modules):
        importlib.import_module(name)
    runpy.run_path(os.path.join(os.path.dirname(__file__), "hasty.py"))
    gc.freeze()  # a search for cycles would copy all of it in each fork
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait for commands
    control.send(b"ready")
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, PACKET_BYTES, MOST_DESCRIPTORS)
        if not data:
            return
        if _fork() == 0:
            control.close()
            _wait_for_command(json.loads(data), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _wait_for_command(request: dict[str, Any], descriptors: Sequence[int]) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    told, *given = descriptors
    pid = _fork()
    if pid == 0:
        os.close(told)
        _take(given, [0, 1, 2, *request["passed"]])
        os.chdir(request["folder"])
        _become(request)
    for descriptor in given:
        os.close(descriptor)
    with socket.socket(fileno=told) as status:
        with contextlib.suppress(BrokenPipeError):
            status.send(str(pid).encode())
        _, code = os.waitpid(pid, 0)
        with contextlib.suppress(BrokenPipeError):
            status.send(str(os.waitstatus_to_exitcode(code)).encode())
    os._exit(0)


def _take(given: Sequence[int], numbers: Sequence[int]) -> None:
    """Give the descriptors the numbers that the program knows them by."""
    spare = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, SPARE_DESCRIPTORS) for descriptor in given]
    for descriptor in given:
        os.close(descriptor)
    for descriptor, number in zip(spare, numbers, strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)


def _become(request: dict[str, Any]) -> NoReturn:
    """Be the program that a request names: "tfopt", "reaper", or what `python WORDS` starts."""
    words = request["words"]
    sys.path[:0] = import_path[:0] = request["import_path"]
    if request["session"]:
        os.setsid()
        if os.isatty(0):  # the terminal of the new session, so that its Ctrl-C is a signal
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    if words[0] == "reaper":
        _close_all_but({0, 1, 2, *request["passed"]})
        program = _reap
    else:
        subprocess.Popen = _popen  # type: ignore[assignment, misc]
        program = _command if words[0] == "tfopt" else _execute
    _run(lambda: program(words), words, request["environment"], request["before"])


def _command(words: Sequence[str]) -> int:
    from tfopt_core.commands.main import run

    return int(run(list(words[1:])))


def _execute(words: Sequence[str]) -> int:
    """Do what `python WORDS` does: with a script, `-c CODE` or `-m MODULE`. Return 0."""
    main = types.ModuleType("__main__")
    match words:
        case ["-c", code, *rest]:
            sys.argv, sys.modules["__main__"] = ["-c", *rest], main
            sys.path[:] = ["", *import_path]
            exec(compile(code, "<string>", "exec"), vars(main))
        case ["-m", module, *rest]:
            sys.argv = [module, *rest]
            sys.path[:] = [os.getcwd(), *import_path]
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case [path, *_]:
            sys.path[:] = [os.path.dirname(os.path.abspath(path)), *import_path]
            runpy.run_path(path, run_name="__main__")
    return 0


def _run(
    program: Callable[[], int],
    words: Sequence[str],
    environment: Mapping[str, str],
    before: str | None = None,
) -> NoReturn:
    """Run a program in this process, as if it had been started with these words; and end.

    :param before: Python code that is executed first.
    """
    code = 1
    try:
        os.environ.clear()
        os.environ.update(environment)
        time.tzset()
        sys.argv = list(words)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
        sys.stdout = sys.__stdout__ = _text_file(1, line_buffering=os.isatty(1))
        sys.stderr = sys.__stderr__ = _text_file(2, line_buffering=True)
        if before is not None:
            runpy.run_path(before)
        try:
            code = program()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
            if isinstance(end.code, str):
                print(end.code, file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
    finally:
        os._exit(code)


def _text_file(descriptor: int, *, line_buffering: bool) -> io.TextIOWrapper:
    errors = "backslashreplace" if descriptor == 2 else sys.stdout.errors
    return io.TextIOWrapper(
        open(descriptor, "wb", closefd=False),
        encoding=sys.stdout.encoding, errors=errors, line_buffering=line_buffering,
    )  # fmt: skip


def _fork() -> int:
    with warnings.catch_warnings():
        # Python warns of threads (those of BLAS), which handle forks themselves
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


# What a command starts


def _shares_no_lock(command: Sequence[str]) -> bool:
    """Whether it is a program of `tfopt_core.workers`, which neither prints nor imports first."""
    words = [str(word) for word in command]
    return FORK_SERVER in words or any(word.endswith("workers/reaper.py") for word in words)


def _program_of(command: Sequence[str]) -> Callable[[], int] | None:
    """What tfopt starts as a Python of its own and may be forked; None for anything else."""
    words = [str(word) for word in command]
    if words[0] != sys.executable:
        return None
    for number, word in enumerate(words):
        if word.endswith("tfopt_core/workers/reaper.py"):
            return lambda: _reap(words[number:])
    if words[1:2] == ["-c"]:  # of a benchmark, which calls `tfopt_core` in it
        return lambda: _execute(words[1:])
    if "-m" not in words:
        return None
    number = words.index("-m")
    mounts = words[4] if words[3:] and words[3].endswith("/overlay_mount.py") else None
    module, arguments = words[number + 1], words[number + 2 :]
    own = [] if "-P" in words[:number] else [os.getcwd()]

    def as_a_program() -> int:
        if mounts is not None:  # a fork has one thread, as a program that begins
            overlay_mount = importlib.import_module("tfopt_core.scripts.folders.overlay_mount")
            overlay_mount.mount_overlays(**json.loads(mounts))
        given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        added = [path for path in given if path and path not in import_path]
        sys.path[:] = [*own, *added, *import_path]
        if module == CHILD:
            return int(importlib.import_module(module).main(int(arguments[0])))
        if module == FORK_SERVER:
            serve_forks = importlib.import_module(module).serve
            control = socket.socket(fileno=int(arguments[0]))
            return int(serve_forks(control, arguments[1:]))
        if module == COMMAND:
            return _command([module, *arguments])
        sys.argv = [module, *arguments]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        return 0

    known = module in (CHILD, FORK_SERVER, COMMAND) or module.startswith(PEERS)
    return as_a_program if known else None


def _may_be_forked(environment: Mapping[str, str], *, takes_locks: bool = True) -> bool:
    # whatever another thread holds a lock of would be locked for ever in a fork
    alone = not takes_locks or threading.active_count() == 1
    context = sys.modules["tensorflow.python.eager.context"]._context
    unused = context is None or not context._initialized  # a fork of what computes hangs
    return alone and unused and _beside_path(environment) == _beside_path(os.environ)


def _beside_path(environment: Mapping[str, str]) -> dict[str, str]:
    """What counts while a process starts, but for the import path: a fork takes that too."""
    variables = start_variables(environment)
    return {name: variables[name] for name in variables if name != "PYTHONPATH"}


def _popen(command: Sequence[str], **options: Any) -> Any:
    """Fork what may be forked, and otherwise do what `subprocess.Popen` does."""
    program = None if isinstance(command, str) else _program_of(command)
    environment = options.get("env") or dict(os.environ)
    # those of threads that wait for other runs, or show on a terminal how far they are
    takes_locks = not _shares_no_lock(command)
    if program is None or not _may_be_forked(environment, takes_locks=takes_locks):
        return real_popen(command, **options)
    kept = {0, 1, 2, *options.get("pass_fds", ())}

    def instead_of_its_program() -> NoReturn:
        if ours != signal.SIG_IGN:  # as in a program that begins
            signal.signal(signal.SIGINT, signal.default_int_handler)
        gc.enable()  # which `subprocess` has put off
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # as Python does when it starts
            signal.signal(number, signal.SIG_IGN)
        _close_all_but(kept)  # `subprocess` waits for the end of a pipe of its own
        _run(program, [str(word) for word in command], environment)

    sys.stdout.flush()
    sys.stderr.flush()
    ours = signal.getsignal(signal.SIGINT)
    # Python drops a Ctrl-C in what it calls around a fork, with the lock of `logging` still held
    with HoldInterrupt(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # as in `_fork`
        return real_popen(command, **options, preexec_fn=instead_of_its_program)


def _reap(words: Sequence[str]) -> int:
    """tfopt's program between a command and a run, which starts the run's own program."""
    os.posix_spawn = _posix_spawn
    return int(importlib.import_module("tfopt_core.workers.reaper").main(list(words[1:])))


def _posix_spawn(
    path: str, command: Sequence[str], environment: Mapping[str, str], **options: Any
) -> int:
    program = _program_of(command)
    if program is None or not _may_be_forked(environment):
        return real_posix_spawn(path, command, environment, **options)
    pid = _fork()
    if pid == 0:
        os.posix_spawn = real_posix_spawn
        if options.get("setsid"):
            os.setsid()
        _close_all_but({fd for fd in _open_descriptors() if os.get_inheritable(fd)})
        _run(program, command, dict(environment))
    return pid


def _open_descriptors() -> list[int]:
    found = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            os.fstat(int(name))
            found.append(int(name))
    return found


def _close_all_but(kept: set[int]) -> None:
    for descriptor in set(_open_descriptors()) - kept:
        with contextlib.suppress(OSError):
            os.close(descriptor)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
