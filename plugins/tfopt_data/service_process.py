"""One process of a data service: a worker of tf.data, and in the first one the dispatcher too.

    python -m tfopt_data.service_process PARENT first PORT
    python -m tfopt_data.service_process PARENT worker

It says in one line of JSON on standard output where its dispatcher or worker serves, or why it
cannot. A `worker` is told the dispatcher's address in a line on its standard input. It ends when
its standard input ends, or when PARENT is not its parent any more: however that ended.
"""

from __future__ import annotations

import json
import os
import queue
import select
import signal
import sys
import threading
from typing import Any

# How long an orphan lives at most, where something else holds its standard input open.
POLL_SECONDS = 0.5
# How often a worker tells the dispatcher that it is there, and asks for tasks.
HEARTBEAT_MILLISECONDS = 100
# `fit` opens an iterator that it does not read at the end of each epoch; its job is to go soon.
UNUSED_JOB_MILLISECONDS = 5_000


def main(arguments: list[str]) -> int:
    """Serve until the parent is gone; the exit code if that cannot begin."""
    parent, role, *port = arguments
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C ends
    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_listen, args=(int(parent), lines), daemon=True).start()
    try:
        serving = _first(int(port[0])) if role == "first" else _worker(lines.get())
    except Exception as error:
        _say(error=" ".join(str(error).split()) or type(error).__name__)
        return 1
    threading.Event().wait()
    del serving  # it serves for as long as it is held
    return 0


def _first(port: int) -> tuple[Any, Any]:
    import tensorflow as tf

    service = tf.data.experimental.service
    dispatcher = service.DispatchServer(
        service.DispatcherConfig(
            port=port,
            job_gc_check_interval_ms=UNUSED_JOB_MILLISECONDS,
            job_gc_timeout_ms=UNUSED_JOB_MILLISECONDS,
        )
    )
    _say(target=dispatcher.target)
    return dispatcher, _worker(dispatcher.target)


def _worker(target: str) -> Any:
    import tensorflow as tf

    service = tf.data.experimental.service
    worker = service.WorkerServer(
        service.WorkerConfig(
            dispatcher_address=target.strip().removeprefix("grpc://"),
            heartbeat_interval_ms=HEARTBEAT_MILLISECONDS,
        )
    )
    _say(ready=os.getpid())  # it has registered: its start waits for that
    return worker


def _say(**told: Any) -> None:
    print(json.dumps(told), flush=True)


def _listen(parent: int, lines: queue.Queue[str]) -> None:
    """Pass on what the parent says, until it is gone."""
    while os.getppid() == parent:
        if select.select([0], [], [], POLL_SECONDS)[0]:
            data = os.read(0, 4096)  # a line is far shorter than what a pipe takes at once
            if not data:
                break
            lines.put(data.decode())
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
