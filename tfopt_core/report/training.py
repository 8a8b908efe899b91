"""What `tfopt train` prints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from tfopt_core.measure.prepared import Prepared
from tfopt_core.report.console import plain
from tfopt_core.report.units import metric_text, seconds_text
from tfopt_core.store.results import RunResult


def epoch_line(epoch: int, epochs: int, metrics: Mapping[str, float]) -> Text:
    """`epoch 2/5  loss 0.3120  val_accuracy 0.8940`, without a data loss that equals the loss."""
    shown = {
        name: value
        for name, value in metrics.items()
        if not name.endswith("data_loss") or value != metrics[name.replace("data_loss", "loss")]
    }
    words = [f"{plain(name)} {metric_text(value)}" for name, value in shown.items()]
    return Text(f"epoch {epoch}/{epochs}  " + "  ".join(words))


def render_training(run: RunResult, prepared: Prepared, saved_to: Path | None) -> RenderableType:
    """How long the training took, and what each plugin of the stack did."""
    if not run.ok:
        return Text(f"the training failed: {plain(run.error or 'no cause was given')}", "red")
    fit = run.fit
    epochs = "1 epoch" if fit.epochs == 1 else f"{fit.epochs} epochs"
    took = f"trained {epochs} in {seconds_text(run.wall_seconds or 0.0)}"
    if fit.step_seconds:
        took += f", {seconds_text(fit.step_seconds)} a step"
    lines = [Text(took)]
    if fit.stop_reason:
        lines.append(Text(f"stopped early: {plain(fit.stop_reason)}"))
    for plugin in prepared.plugins:
        effect = run.effects[plugin.name]
        mark = "applied" if effect.applied else "not applied"
        lines.append(Text(f"{plain(plugin.name)}: {mark}: {plain(effect.detail)}"))
    if saved_to is not None:
        lines.append(Text(f"saved: {saved_to}"))
    return Group(*lines)
