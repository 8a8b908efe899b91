"""The program of an export's process: a dry build, and what it builds written down."""

from __future__ import annotations

import json
import os
import socket
import sys
import traceback
from typing import Any

import attrs

from tfopt_core.errors import TfoptError
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.measure.channel import receive_task
from tfopt_core.measure.installed_libraries import pin_libraries
from tfopt_core.measure.parent_death import die_with_parent
from tfopt_core.measure.request import with_settings
from tfopt_core.measure.task import Task, error_message

PROGRAM = "program"


def main(descriptor: int) -> int:
    """Serve the process that holds the other end of this socket."""
    die_with_parent()
    channel = socket.socket(fileno=descriptor)
    os.set_inheritable(descriptor, False)
    pin_libraries()
    task = None

    def send(message: dict[str, Any]) -> None:
        channel.sendall(json.dumps(message).encode() + b"\n")

    try:
        task = receive_task(channel)
        if task.job.recipe.workload.script is not None:
            from tfopt_core.measure.export.script_child import exported_script

            message = exported_script(task, send)
        else:
            message = exported(task)
    except EOFError:
        return 1
    except (Exception, SystemExit) as error:
        # an expected error says itself what is wrong and where
        if not isinstance(error, TfoptError) or (task is not None and task.debug):
            traceback.print_exc()
        message = error_message(error)
    send(message)
    return 0


def exported(task: Task) -> dict[str, Any]:
    """What a preparation tells, and the program beside it."""
    from cattrs import unstructure

    from tfopt_core.measure.export.written import written
    from tfopt_core.measure.prepare import prepare
    from tfopt_core.training.build import load
    from tfopt_core.training.devices import as_tensorflow_sees
    from tfopt_core.training.runtime import start_tensorflow

    start_tensorflow(task.job.runtime, debug=task.debug)
    prepared = prepare(task)
    job = attrs.evolve(
        task.job,
        plugins=resolved(task, prepared),
        machine=as_tensorflow_sees(task.job.machine),
    )
    program = written(job, load(job))
    return {"type": "prepared", "prepared": {**prepared, PROGRAM: unstructure(program)}}


def resolved(task: Task, prepared: dict[str, Any]) -> tuple[StackedPlugin, ...]:
    """The task's plugins with the settings that a preparation has found."""
    return with_settings(task.job.plugins, [plan["settings"] for plan in prepared["plugins"]])


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
