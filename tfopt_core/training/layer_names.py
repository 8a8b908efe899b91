"""Give the layers of each build of a workload the same names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from tfopt_core.private_api import why_without

_COUNTS = "object_name_uids"


class _FirstBuild:
    """Where Keras' counts of names stood at the first build of the last workload."""

    build_model: Callable[[], Any] | None = None
    counts: Mapping[str, int] = {}


def count_names_from_first_build(build_model: Callable[[], Any]) -> None:
    """Have Keras number the names that it gives (`conv2d_1`) in each build as in the first one.

    Settings may name layers: what one build of a process finds must be true of the next.

    :param build_model: that of the workload, by which it is recognized.
    """
    if why_without("layer-names"):
        return
    from keras.src.backend.common import global_state

    counts = global_state.get_global_attribute(_COUNTS, defaultdict(int), set_to_default=True)
    if _FirstBuild.build_model == build_model:
        counts.clear()
        counts.update(_FirstBuild.counts)
    else:
        _FirstBuild.build_model, _FirstBuild.counts = build_model, dict(counts)
