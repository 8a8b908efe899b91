"""What `tfopt train` prints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from tfopt_core.hooks import Effect
from tfopt_core.records.data_loss import NAME as DATA_LOSS
from tfopt_core.records.data_loss import differs_from_loss
from tfopt_core.records.dry_build import Prepared
from tfopt_core.records.in_run import Adapted
from tfopt_core.records.results import RunResult
from tfopt_core.records.resume_point import ResumePoint
from tfopt_core.report.style.console import plain
from tfopt_core.report.style.layout import grid, paragraph, words
from tfopt_core.report.style.units import metric_text, seconds_text


def epoch_line(epoch: int, epochs: int, metrics: Mapping[str, float]) -> Text:
    """`epoch 2/5  loss 0.3120  val_accuracy 0.8940`, without a data loss that equals the loss."""
    hidden = {
        f"{prefix}{DATA_LOSS}" for prefix in ("", "val_") if not differs_from_loss(metrics, prefix)
    }
    shown = {name: value for name, value in metrics.items() if name not in hidden}
    figures = [f"{plain(name)} {metric_text(value)}" for name, value in shown.items()]
    return Text(f"epoch {epoch}/{epochs}  " + "  ".join(figures))


def render_adapted(adapted: Adapted) -> RenderableType:
    """Which loops a training compared, with what result, and which one it keeps."""
    said = [*(contrast.statement for contrast in adapted.contrasts), *adapted.left_out]
    if adapted.reason not in said:
        said.append(f"kept: {adapted.kept} ({adapted.reason})")
    if adapted.steps:
        steps = f"{adapted.steps:,}"
        if adapted.total_steps is not None:
            steps += f" of {adapted.total_steps:,}"
        took = seconds_text(adapted.seconds)
        said.append(f"comparing took {took} of training and {steps} steps, first calls included")
    heads = ["loop", *[""] * (len(said) - 1)]
    return grid([(words(head), paragraph(line)) for head, line in zip(heads, said, strict=True)])


def render_training(
    run: RunResult, prepared: Prepared, saved_to: Path | None, *, went_on: bool = False
) -> RenderableType:
    """How long the training took, and what each plugin of the stack did.

    :param went_on: whether it began from a checkpoint, so that the seconds are not those of all.
    """
    if run.status == "served":
        return Text("served the chief until the training had ended")
    notes = [paragraph(f"note: {note}", "yellow") for note in run.notes]
    if not run.ok:
        failed = paragraph(f"the training failed: {run.error or 'no cause was given'}", "red")
        return Group(failed, *notes)
    fit = run.fit
    epochs = "1 epoch" if fit.epochs == 1 else f"{fit.epochs} epochs"
    trained = f"went on to the end of {epochs}" if went_on else f"trained {epochs}"
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
    """What became of a script that ran with a stack: its fits, the plugins, and what is to be said
    of it. What went wrong in it, it has said itself."""
    lines: list[RenderableType] = []
    for fit in run.fits:
        epochs = "1 epoch" if fit.epochs == 1 else f"{fit.epochs} epochs"
        took = f"{plain(fit.name)}: {epochs} in {seconds_text(fit.wall_seconds or 0.0)}"
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


def render_kept(point: ResumePoint) -> RenderableType:
    """From which checkpoint a training goes on, and what is to be said of it."""
    lines = [
        Text(f"checkpoint {plain(name)} is damaged and was passed over", "yellow")
        for name in point.damaged
    ]
    if point.moved:
        lines.append(
            Text(
                f"goes on elsewhere: {plain('; '.join(point.moved))}; losses may differ in "
                "rounding",
                "yellow",
            )
        )
    if point.start is None:
        lines.append(Text(f"keeps checkpoints in {plain(str(point.folder))}"))
    elif point.finished:
        epochs = "1 epoch" if point.epochs == 1 else f"{point.epochs} epochs"
        lines.append(Text(f"the training is finished: {epochs}"))
    else:
        steps = f" and {point.steps:,} steps" if point.steps else ""
        lines.append(Text(f"goes on after epoch {point.epochs}{steps}, from {plain(point.start)}"))
    return Group(*lines)


def render_effects(effects: Mapping[str, Effect], prepared: Prepared) -> tuple[RenderableType, ...]:
    """A line for each plugin, in recipe order: whether it took effect, and how."""
    rows = []
    for plugin in prepared.plugins:
        effect = effects[plugin.name]
        mark = words("✓", "green") if effect.applied else words("-", "yellow")
        status = "applied" if effect.applied else "not applied"
        rows.append((mark, words(plugin.name), paragraph(f"{status}: {effect.detail}")))
    return (grid(rows),) if rows else ()
