"""Name the process that makes a trial of a shared search, and say whether it is gone."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import attrs

# The begin of a process moves with the system's clock.
CLOCK_SECONDS = 5.0


@attrs.frozen(kw_only=True)
class Claimant:
    """A process of a search, as the claim of a trial names it.

    :param place: tells machines and containers apart, whose process numbers mean nothing to one
        another.
    :param begun: when the process began, since numbers are used again.
    :param stack: the plugins that it searches the settings of.
    """

    search: str
    machine: str
    place: str
    pid: int
    begun: float
    stack: tuple[str, ...] = ()

    @classmethod
    def of_this_process(cls, search: str, stack: Sequence[str]) -> Self:
        """Return the claimant that this process is in a search."""
        import psutil

        pid = os.getpid()
        return cls(
            search=search, machine=platform.node() or "unnamed", place=_place(), pid=pid,
            begun=psutil.Process(pid).create_time(), stack=tuple(stack),
        )  # fmt: skip

    def claim(self, kind: str) -> dict[str, Any]:
        """Return the claim of a trial as plain data."""
        return {**attrs.asdict(self), "stack": list(self.stack), "kind": kind}

    def name_of(self, claim: Mapping[str, Any]) -> str:
        """Return the machine of a claim in words; "" for a claim of this search."""
        if claim.get("search") == self.search:
            return ""
        if not claim.get("machine"):
            return "an unnamed process"
        here = self.shares_machine(claim)
        name = f"this machine ({claim.get('search')})" if here else str(claim["machine"])
        stack = [str(one) for one in claim.get("stack") or ()]
        if stack != list(self.stack):
            name += f", with {', '.join(stack) or 'no plugins'}"
        return name

    def shares_machine(self, claim: Mapping[str, Any]) -> bool:
        """Return whether a claim was made on this machine."""
        return claim.get("place") == self.place

    def is_gone(self, claim: Mapping[str, Any]) -> bool:
        """Return whether the process of a claim has ended; False if that is not known here."""
        if not self.shares_machine(claim):
            return False
        import psutil

        try:
            begun: float = psutil.Process(claim["pid"]).create_time()
            return abs(begun - float(claim["begun"])) > CLOCK_SECONDS
        except psutil.NoSuchProcess:
            return True
        except (psutil.Error, TypeError, ValueError, KeyError):
            return False


def _place() -> str:
    """Return what all processes with the same process numbers share: a boot and a namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        # on a system without them no process is known to be gone, and its trial goes silent
        return f"{platform.node()} {os.getpid()}"
