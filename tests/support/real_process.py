"""Helpers of the integration and fault tests: real `tfopt` processes, projects, distributions."""

# forks of command_server.py have another `subprocess.Popen`, which takes no parameter
from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import psutil

from support import forked_command

# The script of the environment that the tests run in, not one from the PATH.
TFOPT = Path(sys.executable).with_name("tfopt")
# Generous: the machine may be busy. A command that takes longer hangs.
TIME_LIMIT_SECONDS = 240.0
POLL_SECONDS = 0.02
# What would change how tfopt prints, or what it refuses; and what differs from test to test, for
# which tfopt would start a fork server anew.
UNWANTED = (
    "COLUMNS", "FORCE_COLOR", "KERAS_BACKEND", "NO_COLOR", "PYTEST_CURRENT_TEST", "PYTHONPATH",
    "TF_CPP_MIN_LOG_LEVEL", "TF_USE_LEGACY_KERAS",
)  # fmt: skip


@attrs.frozen
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


def environment(**changes: str | Path) -> dict[str, str]:
    """The tests' own environment without what would disturb, and with these changes."""
    kept = {name: value for name, value in os.environ.items() if name not in UNWANTED}
    return {**kept, **{name: str(value) for name, value in changes.items()}}


def in_full(arguments: Sequence[str | Path]) -> list[str]:
    """The words of a command that prints all of a measurement, which most tests look at."""
    words = [str(argument) for argument in arguments]
    return [words[0], "--verbose", *words[1:]] if words[0] in ("apply", "report") else words


def tfopt(
    *arguments: str | Path,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    before: Path | None = None,
    site: Path | None = None,
) -> Done:
    """Run `tfopt` to its end in a process that is forked from one with TensorFlow imported.

    So are the processes that it starts. Where the environment changes how Python, TensorFlow or
    Keras start, in a new one.

    :param before: further Python code that its process executes first.
    :param site: a folder of further distributions on the import path.
    """
    env = dict(env or environment())
    if not forked_command.can_be_forked(env):
        return tfopt_anew(*arguments, cwd=cwd, env=env)
    return _ended(["tfopt", *in_full(arguments)], cwd, env, before, site)


def python(*words: str | Path, cwd: Path) -> Done:
    """Run what `python WORDS` runs to its end, forked from a process with TensorFlow imported.

    The programs of tfopt that it starts are forked too. For what is not about its imports.
    """
    return _ended([str(word) for word in words], cwd, environment())


def _ended(
    words: list[str],
    folder: Path,
    env: Mapping[str, str],
    before: Path | None = None,
    site: Path | None = None,
) -> Done:
    """Start a program, its output in files, and wait for its end."""
    with (
        open(os.devnull) as null,
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
    ):
        streams = [file.fileno() for file in (null, out, err)]
        process = forked_command.start(words, folder, env, streams, before=before, site=site)
        try:
            code = process.wait(TIME_LIMIT_SECONDS)
        finally:
            process.kill()
        for file in (out, err):
            file.seek(0)
        return Done(code, out.read(), err.read())


def tfopt_anew(*arguments: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> Done:
    """Run `tfopt` to its end in a new process with its output piped, as a user starts it."""
    return run([TFOPT, *in_full(arguments)], cwd=cwd, env=env)


def run(command: list[Any], *, cwd: Path, env: Mapping[str, str] | None = None) -> Done:
    """Run a command with its output piped, to its end."""
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=dict(env or environment()),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIME_LIMIT_SECONDS,
        check=False,
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


@contextlib.contextmanager
def started(
    *arguments: str | Path,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    anew: bool = False,
    terminal: int | None = None,
    site: Path | None = None,
    **options: Any,
) -> Iterator[subprocess.Popen[str]]:
    """`tfopt` under way, its output in cwd/stdout.txt and cwd/stderr.txt; killed at the end.

    :param anew: start a new process, as a user does; otherwise it is forked as `tfopt` above,
        unless there are options of `subprocess.Popen`.
    :param terminal: the descriptor of a terminal, that of a session of its own: its input and
        errors.
    :param site: a folder of further distributions, if it is forked.
    """
    env = dict(env or environment())
    with (
        (cwd / "stdout.txt").open("w") as out,
        (cwd / "stderr.txt").open("w") as err,
        open(os.devnull) as null,
    ):
        if anew or options or not forked_command.can_be_forked(env):
            streams = {"stdin": null, "stdout": out, "stderr": err, **options}
            process: Any = subprocess.Popen(
                [str(TFOPT), *in_full(arguments)], cwd=cwd, env=env, text=True, **streams
            )
        else:
            descriptors = [file.fileno() for file in (null, out, err)]
            if terminal is not None:
                descriptors = [terminal, out.fileno(), terminal]
            process = forked_command.start(
                ["tfopt", *in_full(arguments)], cwd, env, descriptors, session=terminal is not None,
                site=site,
            )  # fmt: skip
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def descendants(process: subprocess.Popen[Any]) -> list[psutil.Process]:
    """The processes that it started, and theirs."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(process.pid).children(recursive=True)
    return []


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that still run; one that is dead and not waited for counts as gone."""
    found = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def wait_until(what: str, condition: Callable[[], Any], seconds: float = TIME_LIMIT_SECONDS) -> Any:
    """Poll until the condition is truthy; its value. Fails with `what` after the deadline."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:.0f} s in vain for: {what}")
        time.sleep(POLL_SECONDS)
    return value


def stored_runs(project: Path) -> list[dict[str, Any]]:
    """The runs in a project's database, read while another process may write."""
    path = project / ".tfopt" / "runs.sqlite"
    if not path.exists():
        return []
    with contextlib.closing(sqlite3.connect(path, timeout=30)) as connection:
        try:
            rows = connection.execute("SELECT data FROM run ORDER BY rowid").fetchall()
        except sqlite3.OperationalError:  # the tables are about to be made
            return []
    return [json.loads(row[0]) for row in rows]


def make_project(folder: Path, recipe: str, **modules: str) -> Path:
    """A folder that is a project of its own, with recipe.toml and Python files."""
    folder.mkdir(parents=True, exist_ok=True)
    # the mark of a project: without it results would go where a parent folder has one
    (folder / "pyproject.toml").touch()
    (folder / "recipe.toml").write_text(textwrap.dedent(recipe).lstrip("\n"), encoding="utf-8")
    for name, code in modules.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(code), encoding="utf-8")
    return folder


def make_distribution(
    site: Path, name: str, plugins: Mapping[str, str], version: str = "1.0", **modules: str
) -> Path:
    """An installed distribution in a folder for PYTHONPATH.

    :param plugins: entry points, from a plugin's name to "module:Class".
    :param modules: the code of its modules.
    """
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    points = [f"{plugin} = {place}" for plugin, place in plugins.items()]
    (info / "entry_points.txt").write_text("\n".join(["[tfopt.plugins]", *points, ""]))
    for module, code in modules.items():
        (site / f"{module}.py").write_text(textwrap.dedent(code), encoding="utf-8")
    return site


# A workload of 40 examples that trains in a moment, without validation, which would trace another
# function in each process; `says` is code that its build runs first.
TINY = """
    import keras
    import numpy as np
    from tfopt_core import Workload

    def build(**options):
        {says}
        x = np.arange(80, dtype="float32").reshape(40, 2) / 80
        def build_model():
            return keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
        return Workload(
            train=(x, x[:, :1]), build_model=build_model, optimizer="sgd", loss="mse",
            baseline="a line through points",
        )
"""
TINY_RECIPE = """
    name = "tiny"
    [workload]
    factory = "tiny.py:build"
    epochs = 2
    batch_size = 16
    [[plugins]]
    use = "{plugin}"
    [measure]
    pairs = {pairs}
    attribution = "off"
"""


def tiny_project(
    folder: Path, *, plugin: str = "prefetch", says: str = "pass", pairs: int = 4
) -> Path:
    """A project that trains the tiny workload with one plugin."""
    return make_project(
        folder, TINY_RECIPE.format(plugin=plugin, pairs=pairs), tiny=TINY.format(says=says)
    )
