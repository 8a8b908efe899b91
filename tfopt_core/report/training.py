"""Render what `tfopt train` and `tfopt launch` print."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from tfopt_core.hooks.values import Effect
from tfopt_core.report.results.sections import effect_tables
from tfopt_core.report.style.console import plain
from tfopt_core.report.style.layout import (
    Fact,
    Facts,
    Items,
    Page,
    TablePart,
    last_lines,
    listed,
    paragraph,
    section,
    words,
)
from tfopt_core.report.style.units import NOTHING, counted, metric_text, seconds_text
from tfopt_core.statistics.runs import FitResult, RunResult
from tfopt_core.training.messages import NAME as DATA_LOSS
from tfopt_core.training.messages import OWN_LOOP, EpochDone, differs_from_loss
from tfopt_core.workers.local_cluster import Role, RoleEnd
from tfopt_core.workers.task import OthersServed

if TYPE_CHECKING:
    from tfopt_core.training.job import ResumePoint


def epoch_line(epoch: int, epochs: int, metrics: Mapping[str, float]) -> Items:
    """Return `epoch 2/5  loss 0.3120  val_accuracy 0.8940`; a data loss equal to the loss is
    hidden."""
    hidden = () if differs_from_loss(metrics) else (DATA_LOSS,)
    shown = {name: value for name, value in metrics.items() if name not in hidden}
    figures = (f"{name} {metric_text(value)}" for name, value in shown.items())
    return Items((f"epoch {epoch}/{epochs}", *figures), "  ")


def render_training(
    run: RunResult, saved_to: Path | None, *, resumed: bool = False
) -> RenderableType:
    """Return how long the training took, and what each plugin of the stack did.

    :param resumed: whether the seconds exclude epochs before a checkpoint.
    """
    if run.status == "served":
        return Text("served the chief until the training had ended")
    if not run.ok:
        failed = paragraph(f"the training failed: {run.error or 'no cause was given'}", "red")
        return Group(failed, *_notes(run))
    fit = run.fit
    how = "resumed, trained to the end of" if resumed else "trained"
    parts: list[RenderableType] = [_took(f"{how} {counted(fit.epochs, 'epoch')}", run, fit)]
    if fit.stop_reason:
        parts.append(Text(f"stopped early: {plain(fit.stop_reason)}"))
    parts += render_effects(run.effects)
    if saved_to is not None:
        parts.append(Text(f"saved: {plain(str(saved_to))}"))
    return Group(*parts, *_notes(run))


def render_script(run: RunResult, saved_to: Path | None) -> RenderableType:
    """Return the fits, plugins and notes of a script that ran with a stack."""
    lines: list[RenderableType] = []
    for fit in run.fits:
        own = fit.name == OWN_LOOP
        length = f"{fit.steps:,} updates" if own else counted(fit.epochs, "epoch")
        lines.append(_took(f"{plain(fit.name)}: {length}", fit, fit))
    lines += (*(render_effects(run.effects) if run.fits else ()), *_notes(run))
    if not run.fits and run.exit_status is None:
        lines.append(paragraph(run.error or "the script gave no sign of its end", "red"))
    if saved_to is not None and run.fits:
        lines.append(Text(f"saved: {plain(str(saved_to))}"))
    return Group(*lines)


def _took(what: str, whole: RunResult | FitResult, fit: FitResult) -> Text:
    step = f", {seconds_text(fit.step_seconds)} a step" if fit.step_seconds else ""
    return Text(f"{what} in {seconds_text(whole.wall_seconds or 0.0)}{step}")


def _notes(run: RunResult) -> Iterator[Text]:
    return (paragraph(f"note: {note}", "yellow") for note in run.notes)


def render_effects(effects: Mapping[str, Effect]) -> Iterator[RenderableType]:
    """Yield a line for each plugin, in this order: whether it took effect, and how; and their
    tables."""
    if not effects:
        yield Text("without plugins: the stack is empty")
        return
    rows = (
        Fact(name, f"{'applied' if effect.applied else 'not applied'}: {effect.detail}",
             mark="✓" if effect.applied else "-")
        for name, effect in effects.items()
    )  # fmt: skip
    yield Facts(rows, ("plugin", "effect"))
    yield from (table for effect in effects.values() for table in effect_tables(effect))


def render_resume_point(point: ResumePoint) -> RenderableType:
    """Return which checkpoint a training resumes from, with warnings."""
    lines = [
        Text(f"checkpoint {plain(name)} is damaged and was passed over", "yellow")
        for name in point.damaged
    ]
    if point.moved:
        moved = plain("; ".join(point.moved))
        differ = "losses may differ in rounding"
        lines.append(Text(f"resumes elsewhere: {moved}; {differ}", "yellow"))
    if point.start is None:
        lines.append(Text(f"writes checkpoints to {plain(str(point.folder))}"))
    elif point.finished:
        lines.append(Text(f"the training is finished: {counted(point.epochs, 'epoch')}"))
    else:
        lines.append(Text(f"resumes after epoch {point.epochs}, from {plain(point.start)}"))
    return Group(*lines)


def render_last_checkpoint(point: ResumePoint) -> RenderableType:
    """Return where an interrupted training resumes."""
    if point.start is None:
        return Text("no epoch was finished, so there is no checkpoint to resume from")
    return Text(f"--resume continues after epoch {point.epochs}, from {plain(point.start)}")


def render_roles(roles: Sequence[Role]) -> RenderableType:
    """Return `on this machine: worker 0 (127.0.0.1:2222), worker 1 (127.0.0.1:2223)`."""
    listed = ", ".join(f"{role.name} ({role.address})" for role in roles)
    return words(f"on this machine: {listed}")


def epoch_of_role(role: Role, message: EpochDone) -> RenderableType:
    """Return the line of a role for an epoch: `worker 1: epoch 1  loss 0.5100`."""
    line = f"{role.name}: epoch {message.epoch + 1}"
    loss = message.metrics.get("loss")
    return words(line if loss is None else f"{line}  loss {metric_text(loss)}", "dim")


def render_ends(ends: Sequence[RoleEnd], tail: str | None) -> RenderableType:
    """Return how each role ended, the causes of failures, and the first one's last output."""
    rows = []
    for end in sorted(ends, key=lambda end: (end.role.job, end.role.index)):
        loss = end.metrics.get("loss")
        shown = NOTHING if loss is None else metric_text(loss)
        rows.append((end.role.name, end.role.address, _status(end), shown))
    table = TablePart(("role", "address", "status", "loss"), (tuple(rows),), text_columns=3)
    failed = [end for end in ends if end.failed]
    parts: list[RenderableType] = ["", table, listed("Causes", (end.cause for end in failed))]
    if failed:
        parts.append(section(f"Last words of {failed[0].role.name}", last_lines(tail)))
    return Page(tuple(parts))


def _status(end: RoleEnd) -> str:
    if end.failed:
        return "failed"
    if end.called_off:
        return "ended with the chief" if end.role.serves else "ended with the others"
    return "served" if isinstance(end.outcome.message, OthersServed) else "trained"
