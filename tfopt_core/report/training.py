"""Render what `tfopt train` prints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from tfopt_core.hooks import Effect
from tfopt_core.records.dry_build import Prepared
from tfopt_core.records.fit import NAME as DATA_LOSS
from tfopt_core.records.fit import OWN_LOOP, differs_from_loss
from tfopt_core.records.results import RunResult
from tfopt_core.report.found_tables import render_tables
from tfopt_core.report.style.console import plain
from tfopt_core.report.style.layout import Items, grid, paragraph, words
from tfopt_core.report.style.units import metric_text, seconds_text

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
    run: RunResult, prepared: Prepared, saved_to: Path | None, *, resumed: bool = False
) -> RenderableType:
    """Return how long the training took, and what each plugin of the stack did.

    :param resumed: whether the seconds exclude epochs before a checkpoint.
    """
    if run.status == "served":
        return Text("served the chief until the training had ended")
    notes = [paragraph(f"note: {note}", "yellow") for note in run.notes]
    if not run.ok:
        failed = paragraph(f"the training failed: {run.error or 'no cause was given'}", "red")
        return Group(failed, *notes)
    fit = run.fit
    epochs = "1 epoch" if fit.epochs == 1 else f"{fit.epochs} epochs"
    trained = f"resumed, trained to the end of {epochs}" if resumed else f"trained {epochs}"
    took = f"{trained} in {seconds_text(run.wall_seconds or 0.0)}"
    if fit.step_seconds:
        took += f", {seconds_text(fit.step_seconds)} a step"
    lines = [Text(took)]
    if fit.stop_reason:
        lines.append(Text(f"stopped early: {plain(fit.stop_reason)}"))
    parts: list[RenderableType] = [*lines, *render_effects(run.effects, prepared)]
    if saved_to is not None:
        parts.append(Text(f"saved: {plain(str(saved_to))}"))
    return Group(*parts, *notes)


def render_script(run: RunResult, saved_to: Path | None) -> RenderableType:
    """Return the fits, plugins and notes of a script that ran with a stack."""
    lines: list[RenderableType] = []
    for fit in run.fits:
        epochs = "1 epoch" if fit.epochs == 1 else f"{fit.epochs} epochs"
        length = f"{fit.steps:,} updates" if fit.name == OWN_LOOP else epochs
        took = f"{plain(fit.name)}: {length} in {seconds_text(fit.wall_seconds or 0.0)}"
        if fit.step_seconds:
            took += f", {seconds_text(fit.step_seconds)} a step"
        lines.append(Text(took))
    rows = [
        (
            words("✓", "green") if effect.applied else words("-", "yellow"),
            words(name),
            paragraph(f"{'applied' if effect.applied else 'not applied'}: {effect.detail}"),
        )
        for name, effect in run.effects.items()
    ]
    if rows:
        lines.append(grid(rows))
    lines += [paragraph(f"note: {note}", "yellow") for note in run.notes]
    if not run.fits and run.exit_status is None:
        lines.append(paragraph(run.error or "the script gave no sign of its end", "red"))
    if saved_to is not None and run.fits:
        lines.append(Text(f"saved: {plain(str(saved_to))}"))
    return Group(*lines)


def render_resume_point(point: ResumePoint) -> RenderableType:
    """Return which checkpoint a training resumes from, with warnings."""
    lines = [
        Text(f"checkpoint {plain(name)} is damaged and was passed over", "yellow")
        for name in point.damaged
    ]
    if point.moved:
        lines.append(
            Text(
                f"resumes elsewhere: {plain('; '.join(point.moved))}; losses may differ in "
                "rounding",
                "yellow",
            )
        )
    if point.start is None:
        lines.append(Text(f"writes checkpoints to {plain(str(point.folder))}"))
    elif point.finished:
        epochs = "1 epoch" if point.epochs == 1 else f"{point.epochs} epochs"
        lines.append(Text(f"the training is finished: {epochs}"))
    else:
        lines.append(Text(f"resumes after epoch {point.epochs}, from {plain(point.start)}"))
    return Group(*lines)


def render_last_checkpoint(point: ResumePoint) -> RenderableType:
    """Return where an interrupted training resumes."""
    if point.start is None:
        return Text("no epoch was finished, so there is no checkpoint to resume from")
    return Text(f"--resume continues after epoch {point.epochs}, from {plain(point.start)}")


def render_effects(effects: Mapping[str, Effect], prepared: Prepared) -> tuple[RenderableType, ...]:
    """Return a line for each plugin, in recipe order: whether it took effect, and how."""
    rows = []
    for plugin in prepared.plugins:
        effect = effects[plugin.name]
        mark = words("✓", "green") if effect.applied else words("-", "yellow")
        status = "applied" if effect.applied else "not applied"
        rows.append((mark, words(plugin.name), paragraph(f"{status}: {effect.detail}")))
    tables = [table for name in effects for table in render_tables(effects[name])]
    return (grid(rows), *tables) if rows else ()
