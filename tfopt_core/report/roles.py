"""Render what `tfopt launch` prints about the processes of a cluster."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tfopt_core.records.messages import EpochDone, OthersServed
from tfopt_core.report.style import units
from tfopt_core.report.style.console import plain_lines
from tfopt_core.report.style.layout import Page, bullets, indented, section, words
from tfopt_core.workers.clusters.local import RoleEnd
from tfopt_core.workers.clusters.roles import Role

TAIL_LINES = 10


def render_roles(roles: Sequence[Role]) -> RenderableType:
    """Return `on this machine: worker 0 (127.0.0.1:2222), worker 1 (127.0.0.1:2223)`."""
    listed = ", ".join(f"{role.name} ({role.address})" for role in roles)
    return words(f"on this machine: {listed}")


def epoch_of_role(role: Role, message: EpochDone) -> RenderableType:
    """Return the line of a role for an epoch: `worker 1: epoch 1  loss 0.5100`."""
    line = f"{role.name}: epoch {message.epoch + 1}"
    loss = message.metrics.get("loss")
    return words(line if loss is None else f"{line}  loss {units.metric_text(loss)}", "dim")


def render_ends(ends: Sequence[RoleEnd], tail: str | None) -> RenderableType:
    """Return how each role ended, the causes of failures, and the first one's last output."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    for name in ("role", "address", "status"):
        table.add_column(name, overflow="fold")
    table.add_column("loss", justify="right")
    for end in sorted(ends, key=lambda end: (end.role.job, end.role.index)):
        loss = end.metrics.get("loss")
        table.add_row(
            words(end.role.name), words(end.role.address), words(_status(end)),
            units.NOTHING if loss is None else units.metric_text(loss),
        )  # fmt: skip
    failed = [end for end in ends if end.failed]
    parts: list[RenderableType] = ["", table]
    if failed:
        parts.append(section("Causes", bullets(end.cause for end in failed)))
        lines = [line for line in plain_lines(tail or "") if line][-TAIL_LINES:]
        if lines:
            output = Text("\n".join(lines), style="dim", overflow="fold")
            parts.append(section(f"Last words of {failed[0].role.name}", indented(output, 0)))
    return Page((Group(*parts),))


def _status(end: RoleEnd) -> str:
    if end.failed:
        return "failed"
    if end.called_off:
        return "ended with the chief" if end.role.serves else "ended with the others"
    return "served" if isinstance(end.outcome.message, OthersServed) else "trained"
