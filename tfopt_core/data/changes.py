"""Describe how two pipelines differ. No TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence

from tfopt_core.data.stages import Stage


def changes(before: Sequence[Stage], after: Sequence[Stage]) -> tuple[str, ...]:
    """Return how the stages `after` differ from those `before`, a phrase for each stage."""
    lost = [stage for stage in before if stage not in after]
    gained = [stage for stage in after if stage not in before]
    phrases = []
    for stage in gained:
        twin = next((other for other in lost if type(other) is type(stage)), None)
        if twin is not None:
            lost.remove(twin)
            phrases.append(f"{twin.describe()} -> {stage.describe()}")
        else:
            previous = after[after.index(stage) - 1]
            phrases.append(f"{stage.describe()}, after {previous.kind}")
    phrases.extend(f"without {stage.describe()}" for stage in lost)
    kept_before = [stage for stage in before if stage in after]
    kept_after = [stage for stage in after if stage in before]
    if kept_before != kept_after:
        phrases.append("order: " + ", ".join(stage.kind for stage in after))
    return tuple(phrases)
