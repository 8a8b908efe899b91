"""The program of a run's process: reads one task, carries it out, says one last word."""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import functools
import gc
import json
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import attrs

from tfopt_core.errors import TfoptError
from tfopt_core.measure.channel import receive_task
from tfopt_core.measure.installed_libraries import pin_libraries
from tfopt_core.measure.parent_death import die_with_parent
from tfopt_core.measure.supervise import DUMP_SIGNAL
from tfopt_core.measure.task import Task, error_message
from tfopt_core.measure.usage import cpu_seconds, peak_device_bytes, peak_rss_bytes

if TYPE_CHECKING:
    from tfopt_core.training.distributed.joined import Joined

Send = Callable[[dict[str, Any]], None]

# A workload may write to low descriptors by mistake (it closed and reused one, say): the channel
# stands well above them.
CHANNEL_DESCRIPTOR = 200


def main(descriptor: int) -> int:
    """Serve the process that holds the other end of this socket."""
    # closed on exec: what the workload starts must not speak for us
    private = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, CHANNEL_DESCRIPTOR)
    os.close(descriptor)
    channel = socket.socket(fileno=private)
    faulthandler.enable()
    faulthandler.register(DUMP_SIGNAL, all_threads=True)  # where it hangs, when it is ended for it
    lock = threading.Lock()

    def send(message: dict[str, Any]) -> None:
        data = json.dumps(message).encode() + b"\n"
        with lock:
            channel.sendall(data)

    pin_libraries()
    try:
        task = receive_task(channel)
    except EOFError:
        return 1
    except (Exception, SystemExit) as error:  # unpickling imports the plugins
        send(error_message(error))
        return 1
    threading.Thread(target=_die_with_parent, args=(channel,), daemon=True).start()
    if task.kind == "run" and task.job.runtime.builds_strategy_first:
        die_with_parent()  # that thread cannot, while TensorFlow waits for the other processes
    try:
        send(carry_out(task, send))
    except KeyboardInterrupt:
        return 130
    except (Exception, SystemExit) as error:
        # an expected error says itself what is wrong and where
        if task.debug or not isinstance(error, TfoptError):
            traceback.print_exc()
        send(error_message(error))
    if task.kind != "run" or task.measured:
        # Python's last search for cycles takes a second once Keras is imported. Whatever is not
        # in a cycle still ends in order; a training of the user's own ends as ever.
        gc.freeze()
    return 0


def carry_out(task: Task, send: Send) -> dict[str, Any]:
    """Do what the task says; the final message."""
    if task.job.recipe.workload.script is not None:
        from tfopt_core.measure.script.carry_out import carry_out as carry_out_script

        return carry_out_script(task, send)
    from tfopt_core.training.runtime import start_tensorflow

    first = task.kind == "run" and task.job.runtime.builds_strategy_first
    start_tensorflow(task.job.runtime, debug=task.debug, devices=not first)
    send({"type": "started"})
    if task.kind == "prepare":
        from tfopt_core.measure.prepare import prepare

        return {"type": "prepared", "prepared": prepare(task)}
    if task.kind == "replay":
        from cattrs import unstructure

        from tfopt_core.training.replay import replay

        assert task.replay_folder is not None
        return {"type": "replayed", "replayed": unstructure(replay(task.job, task.replay_folder))}
    if task.kind == "diagnose":
        from tfopt_core.measure.diagnose import diagnose

        return {"type": "diagnosed", "diagnosed": diagnose(task, send)}
    if not first:
        return {"type": "result", "run": run(task, send)}
    from tfopt_core.measure.cluster_start import join_cluster
    from tfopt_core.training.distributed.ending import ending_together

    there = join_cluster(task, send)
    if there is None:
        return {"type": "served"}
    task, joined = there
    with ending_together(joined.cluster):
        return {"type": "result", "run": run(task, send, joined)}


def run(task: Task, send: Send, joined: Joined | None = None) -> dict[str, Any]:
    """Train once; the run's figures as plain data.

    :param joined: a strategy that had to be built first.
    """
    from tfopt_core.measure.cluster_start import check_built
    from tfopt_core.measure.cutting import cut_rule
    from tfopt_core.measure.explore import Explorer
    from tfopt_core.measure.summarize import told_fit
    from tfopt_core.training.build import build, load
    from tfopt_core.training.fit import train
    from tfopt_core.training.keeper import Keeper

    workload = load(task.job)
    # whatever a training needs is part of its time: one over several processes has to join them
    joining = 0 if joined is None else joined.nanoseconds
    started = perf_counter_ns() - joining
    built = build(task.job, workload, joined=joined)
    if joined is not None:
        check_built(built)
    known = None if joined is not None else cut_rule(task.longest_seconds, built.run)
    adapt = functools.partial(Explorer, seed=task.job.seed) if task.adapt else None
    chief = built.run.cluster is None or built.run.cluster.is_chief
    keeper = None if task.keeping is None else Keeper(task.keeping, send, writes=chief)
    outcome = train(built, started, send, known, adapt, keeper)
    if joined is not None and joined.cluster is not None:
        outcome = attrs.evolve(outcome, cluster_seconds=joining / 1e9)
    effects = built.stack.report_effects(built.run, built.model)
    peak_rss, peak_device = peak_rss_bytes(), peak_device_bytes()
    if task.save_to is not None and (built.run.cluster is None or built.run.cluster.is_chief):
        built.stack.unwrap(built.model).save(task.save_to)
    return {
        "wall_seconds": outcome.wall_seconds,
        "peak_rss_bytes": peak_rss,
        "peak_device_bytes": peak_device,
        "cpu_seconds": cpu_seconds(),
        "effects": {
            name: {"applied": effect.applied, "detail": effect.detail}
            for name, effect in effects.items()
        },
        "outcomes": [told_fit(outcome)],
    }


def _die_with_parent(channel: socket.socket) -> None:
    """The parent sends nothing more: the end of the stream is the end of the parent."""
    with contextlib.suppress(OSError):
        while channel.recv(1):
            pass
    os.killpg(os.getpgid(0), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
