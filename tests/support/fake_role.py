"""Stands in for the process of a role: speaks the protocol, and does what SCENARIO says of it.

SCENARIO is JSON: by role ("worker-1") a list of [verb, argument].
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time

from tfopt_core.workers.channel import receive_task

FIT = {
    "one_time_seconds": 0.0, "blocks": [], "steady": True, "step_seconds": 0.01,
    "examples_per_second": 1.0, "trainable_parameters": 1, "epochs": 1, "steps": 1,
    "epochs_to_target": None, "seconds_to_target": None, "jit_compile": False,
    "metrics": {"loss": 0.5}, "history": {"loss": [0.5]},
}  # fmt: skip
RUN = {
    "wall_seconds": 1.0, "peak_rss_bytes": 1, "peak_device_bytes": None, "cpu_seconds": 0.0,
    "effects": {}, "fits": [FIT],
}  # fmt: skip


def main(channel: socket.socket) -> None:
    task = receive_task(channel)
    config = json.loads(os.environ["TF_CONFIG"])
    job, index = config["task"]["type"], config["task"]["index"]
    listening = []

    def send(**message):
        channel.sendall(json.dumps(message).encode() + b"\n")

    (task.job.folder / "left-behind").touch()
    print(f"{job} {index} says", "save" if task.save_to else "nothing", flush=True)
    steps = json.loads(os.environ["SCENARIO"])[f"{job}-{index}"]
    for verb, argument in steps:
        if verb == "epoch":
            send(type="epoch", epoch=0, metrics={"loss": argument})
        elif verb == "sleep":
            time.sleep(argument)
        elif verb == "join":
            address = config["cluster"][job][index]
            host, _, port = address.partition(":")
            listening.append(socket.create_server((host, int(port))))
            cluster = {"addresses": config["cluster"], "job": job, "index": index}
            send(type="joining", cluster=cluster, seconds=argument)
        elif verb == "deaf":  # as native code that holds Python's lock
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})
            time.sleep(600)
        elif verb == "joined":
            send(type="joined")
        elif verb == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif verb == "error":
            send(type="error", error="E", message=argument, exit_code=3)
        elif verb == "served":
            send(type="served")
        elif verb == "result":
            send(type="result", run=RUN)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
