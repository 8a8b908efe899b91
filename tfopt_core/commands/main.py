"""The program `tfopt`: its commands, and the handling of errors."""

from __future__ import annotations

import contextlib
import errno
import io
import itertools
import os
import re
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

import rich_click as click

from tfopt_core.commands.apply import apply
from tfopt_core.commands.machine import doctor, selftest
from tfopt_core.commands.plugins import plugins
from tfopt_core.commands.preview import diagnose, export, init, plan
from tfopt_core.commands.recipes import PROGRAM, completion, recipes, schema, skill
from tfopt_core.commands.results import compare, report, runs
from tfopt_core.commands.train import launch, train
from tfopt_core.commands.tune import tune
from tfopt_core.errors import StoreError, TfoptError
from tfopt_core.report.style.console import PALETTE, plain
from tfopt_core.version import __version__

INTERNAL_ERROR, INTERRUPTED = 70, 130
# So much is shown of a name that fills the screen.
SHOWN_SIGNS = 60
_ENDLESS = re.compile(r"\S{300,}")
HELP_STYLES = {
    **dict.fromkeys(("style_option", "style_argument", "style_command"), f"bold {PALETTE['cyan']}"),
    "style_switch": f"bold {PALETTE['green']}",
    "style_metavar": PALETTE["yellow"],
    "style_metavar_append": f"dim {PALETTE['yellow']}",
    "style_usage": "bold",
    "style_helptext": "",
}


@click.rich_config(help_config=HELP_STYLES)
@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "--version", "-V", message="tfopt %(version)s")
def cli() -> None:
    """Combine optimizations of TensorFlow training, and measure what they gain on this machine.

    A recipe names a workload and the plugins to stack. `tfopt apply quickstart` trains a small
    model without and with a stack, repeatedly, and says what was gained and how sure that is.
    """


for command in (
    apply, train, tune, launch, plan, diagnose, export, runs, report, compare, plugins, recipes,
    init, schema, doctor, selftest, completion, skill,
):  # fmt: skip
    cli.add_command(command)


def main() -> NoReturn:
    """Run the program `tfopt`."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code.

    0: done. 1: a requirement was not met. 2: bad input. 3: runs failed, or results cannot be
    written or read. 70: a bug in tfopt. 130: interrupted.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # one that lacks a sign writes an escape
            stream.reconfigure(errors="backslashreplace")
    debug = "--debug" in itertools.takewhile(lambda argument: argument != "--", arguments)
    try:
        status = cli.main(list(arguments), prog_name=PROGRAM, standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except TfoptError as error:
        return _expected(error, debug=debug)
    except (KeyboardInterrupt, click.Abort):
        _say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        _discard_output()  # the reader has gone
        return 0
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            _discard_output()
            place = f'"{error.filename}"' if error.filename else "a file or standard output"
            full = StoreError(f"{place} cannot be written: {error.strerror}; make room there")
            return _expected(full, debug=debug)
        traceback.print_exc()
        _say("this is a bug in tfopt; please report it with the lines above")
        return INTERNAL_ERROR
    return status if isinstance(status, int) else 0


def _discard_output() -> None:
    """Print what can be printed; have the interpreter not report the rest when it exits."""
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    with contextlib.suppress(OSError):  # it may be no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _expected(error: TfoptError, *, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    for line in str(error).splitlines():
        _say(line)
    return error.exit_code


def _say(text: str) -> None:
    shown = _ENDLESS.sub(lambda word: f"{word[0][:SHOWN_SIGNS]}...", plain(text))
    print(f"error: {shown}" if text != "interrupted" else text, file=sys.stderr)
