"""Find the stages of a pipeline that may yield their elements in any order."""

from __future__ import annotations

from collections.abc import Sequence

from tfopt_core.data.stages import Options, Stage


def in_any_order(stages: Sequence[Stage]) -> list[Stage]:
    """Return the stages of a pipeline whose order may depend on timing.

    Options that allow any order apply to all stages.
    """
    any_order = any(
        isinstance(stage, Options) and stage.options.deterministic is False for stage in stages
    )
    return [stage for stage in stages if not stage.has_fixed_order(any_order)]
