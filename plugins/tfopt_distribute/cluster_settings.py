"""What the settings of strategies over several processes have in common."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import field, validators

from tfopt_distribute.resolvers import CLUSTER_KINDS
from tfopt_distribute.roles import is_address

# Every plugin that builds a strategy; a training has one.
OWNERS = ("mirrored", "multi-worker", "one-device", "parameter-server", "tpu")


def others(name: str) -> tuple[str, ...]:
    """The strategies that cannot stand beside this one."""
    return tuple(owner for owner in OWNERS if owner != name)


def cluster_setting() -> Any:
    """Return the setting that says what describes the cluster."""
    return field(
        default="auto",
        validator=validators.in_(CLUSTER_KINDS),
        metadata={
            "help": "What describes the cluster: TF_CONFIG, the variables of a Slurm step, or the "
            "addresses below; auto takes the first of these that is there."
        },
    )


def addresses_setting(whose: str) -> Any:
    """Return the setting for the addresses of all processes, none of them twice.

    :param whose: how the list is described, `The workers, ["host:port", ...], the chief first`.
    """
    return field(
        default=(),
        converter=tuple,
        validator=_check_addresses,
        metadata={
            "help": f"{whose}; TFOPT_ADDRESS_INDEX tells each its place, where its host does not."
        },
    )


def slurm_port_setting() -> Any:
    """Return the setting for the ports of a Slurm job."""
    return field(
        default=8888,
        validator=[validators.ge(1), validators.lt(2**16)],
        metadata={
            "help": "The first port that processes listen on under Slurm; one more for each of a "
            "node."
        },
    )


def join_seconds_setting() -> Any:
    """Return the setting for how long processes wait for each other."""
    return field(
        default=300.0,
        validator=validators.gt(0),
        metadata={"help": "How many seconds a process waits for the others to start."},
    )


def _check_addresses(_: Any, attribute: Any, value: Sequence[str]) -> None:
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
