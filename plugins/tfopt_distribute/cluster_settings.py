"""What the settings of strategies over several processes have in common."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tfopt_distribute.roles import is_address

# Every plugin that builds a strategy; a training has one.
OWNERS = ("mirrored", "multi-worker", "one-device", "parameter-server", "tpu")
CLUSTER_HELP = (
    "What describes the cluster: TF_CONFIG, the variables of a Slurm step, or the addresses below; "
    "auto takes the first of these that is there."
)
JOIN_HELP = "How many seconds a process waits for the others to start."
SLURM_PORT_HELP = (
    "The first port that processes listen on under Slurm; one more for each of a node."
)


def others(name: str) -> tuple[str, ...]:
    """The strategies that cannot stand beside this one."""
    return tuple(owner for owner in OWNERS if owner != name)


def check_addresses(_: Any, attribute: Any, value: Sequence[str]) -> None:
    """An attrs validator: addresses `host:port`, no two alike."""
    for address in value:
        if not is_address(address):
            raise ValueError(f'{attribute.name}: "{address}" is not of the form "host:port"')
    if len(set(value)) < len(value):
        raise ValueError(f"{attribute.name}: an address stands there twice")


def announced_workers(environment: Mapping[str, str], addresses: Sequence[str], asked: int) -> int:
    """How many workers there will be, as far as that is told before the cluster is joined.

    A wrong TF_CONFIG is left to whoever joins.
    """
    try:
        cluster = json.loads(environment.get("TF_CONFIG", "{}"))["cluster"]
        told = len(cluster.get("chief", ())) + len(cluster.get("worker", ()))
        return max(told, 1)
    except (AttributeError, KeyError, TypeError, ValueError):
        pass
    tasks = environment.get("SLURM_STEP_NUM_TASKS", "")
    if tasks.isdecimal() and int(tasks):
        return int(tasks)
    return len(addresses) or asked
