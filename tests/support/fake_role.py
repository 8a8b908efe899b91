"""Stands in for the process of a role: speaks the protocol, and does what SCENARIO says of it.

SCENARIO is JSON: by role ("worker-1") a list of [verb, argument].
"""

import json
import os
import signal
import socket
import sys
import time

from tfopt_core.hooks.context import Cluster
from tfopt_core.training.messages import (
    ClusterJoined,
    ClusterJoining,
    EpochDone,
    FitOutcome,
    RunReport,
)
from tfopt_core.workers.task import Failure, OthersServed, encode, receive_task

FIT = FitOutcome(
    wall_seconds=1.0, setup_seconds=0.0, blocks=(), validation_seconds=(),
    epoch_end_seconds=(1.0,), cut_short=False, planned_epochs=1,
    steps_per_epoch=1, epochs=1, steps=1, batch_size=1, trainable_parameters=1, jit_compile=False,
    history={"loss": (0.5,)},
)  # fmt: skip
RUN = RunReport(wall_seconds=1.0, peak_rss_bytes=1, cpu_seconds=0.0, fits=(FIT,))


def main(channel: socket.socket) -> None:
    task = receive_task(channel)
    config = json.loads(os.environ["TF_CONFIG"])
    job, index = config["task"]["type"], config["task"]["index"]
    listening = []

    def send(message):
        channel.sendall(encode(message))

    (task.job.folder / "left-behind").touch()
    print(f"{job} {index} says", "save" if task.save_to else "nothing", flush=True)
    steps = json.loads(os.environ["SCENARIO"])[f"{job}-{index}"]
    for verb, argument in steps:
        if verb == "epoch":
            send(EpochDone(0, {"loss": argument}))
        elif verb == "sleep":
            time.sleep(argument)
        elif verb == "join":
            address = config["cluster"][job][index]
            host, _, port = address.partition(":")
            listening.append(socket.create_server((host, int(port))))
            cluster = Cluster(addresses=config["cluster"], job=job, index=index)
            send(ClusterJoining(cluster, argument))
        elif verb == "deaf":  # as native code that holds Python's lock
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})
            time.sleep(600)
        elif verb == "joined":
            send(ClusterJoined())
        elif verb == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif verb == "error":
            send(Failure(error="E", message=argument, exit_code=3))
        elif verb == "served":
            send(OthersServed())
        elif verb == "result":
            send(RUN)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
