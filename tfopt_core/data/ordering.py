"""Which stages of a pipeline may yield their elements in any order."""

from __future__ import annotations

from collections.abc import Sequence

from tfopt_core.data.stages import Options, Stage


def in_any_order(stages: Sequence[Stage]) -> list[Stage]:
    """Return those of a pipeline's stages whose elements may come as they happen to be ready.

    Options that leave the order to chance do so for all of its stages.
    """
    any_order = any(
        isinstance(stage, Options) and stage.options.deterministic is False for stage in stages
    )
    return [stage for stage in stages if not stage.has_fixed_order(any_order)]
