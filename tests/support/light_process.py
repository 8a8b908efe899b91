"""Commands of which it counts what they import, each forked from one light process.

One process starts for all commands of a test session. It has imported the command line and all
plugins, which have to be light for whatever command; so a command takes what it does by itself.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HEAVY = ("tensorflow", "keras", "numpy", "scipy", "psutil")
SERVER = f"""
import json, os, sys
from importlib.metadata import entry_points
import rich.table, tomlkit
from tfopt_core.commands.main import run

for found in entry_points(group="tfopt.plugins"):
    if found.dist.name == "tfopt":
        found.load()

def run_command(arguments, folder, out, err, answer):
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY), number)
    os.chdir(folder)
    code = run(arguments)
    sys.stdout.flush()
    heavy = [name for name in {HEAVY!r} if name in sys.modules]
    with open(answer, "w") as file:
        json.dump([code, heavy], file)

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            run_command(**json.loads(line))
            status = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stderr.flush()
            os._exit(status)
    os.waitpid(child, 0)
    print("ended", flush=True)
"""


class LightProcesses:
    """Runs `tfopt` commands, each in a process that has imported nothing heavy.

    :param server: the process that forks them.
    """

    def __init__(self, server: subprocess.Popen[str]) -> None:
        self._server = server

    def run(self, *arguments: str, cwd: Path) -> tuple[int, list[str], str]:
        """Return the exit code, the heavy modules that were imported, and what was printed."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        with tempfile.TemporaryDirectory() as folder:
            out, err, answer = (Path(folder, name) for name in ("out", "err", "answer"))
            for path in (out, err, answer):
                path.touch()
            request = {
                "arguments": arguments, "folder": str(cwd), "out": str(out), "err": str(err),
                "answer": str(answer),
            }  # fmt: skip
            self._server.stdin.write(f"{json.dumps(request)}\n")
            self._server.stdin.flush()
            assert self._server.stdout.readline() == "ended\n"
            printed = out.read_text() + err.read_text()
            assert answer.read_text(), printed
            code, heavy = json.loads(answer.read_text())
            return code, heavy, printed


@contextmanager
def light_processes() -> Iterator[LightProcesses]:
    """Start the process that forks commands, and end it."""
    environment = {name: v for name, v in os.environ.items() if name != "KERAS_BACKEND"}
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], env=environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as server:  # fmt: skip
        try:
            yield LightProcesses(server)
        finally:
            server.stdin.close()
