"""The context of a run, as plugins see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.hooks.cluster import Cluster
from tfopt_core.hooks.machine import Machine


@attrs.frozen(kw_only=True, eq=False)
class RunContext:
    """One fit of one run, as the hooks see it.

    `epochs` and `batch_size` (global: over all replicas) are what the recipe asks for; a
    `batch_size` of None means that the workload batches its data itself. The data
    are lowered behind `wrap_model`, since a stage may compute with the model: `datasets` (by
    split), `element_spec` (the `tf.TypeSpec` structure of one training batch) and `steps_per_epoch`
    (None too where the cardinality is unknown) are known from `configure_training` on. `strategy`
    is the one in use, once it is built.
    `folder` is private to the run, and `directory` is where the recipe lies. What an observer
    writes to `kept` stays: its last folder need not exist yet.
    `settings` are the resolved settings of every plugin of the stack, by plugin name.
    `cluster` is what `build_strategy` joined by `join`, None for a training of one process and in
    a dry build. A strategy that is built first knows of `epochs` and `batch_size` only what the
    recipe itself says (0 and None where it says nothing). `states` are what `state_of` hands out.
    """

    seed: int
    variant: str
    fit_index: int = 0
    epochs: int
    batch_size: int | None
    replicas: int = 1
    steps_per_epoch: int | None = None
    element_spec: Any = None
    datasets: Mapping[str, Any] = attrs.field(factory=dict, repr=False)
    strategy: Any = None
    machine: Machine
    settings: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
    folder: Path
    directory: Path = attrs.field(factory=Path)
    kept: Path = attrs.field(
        default=attrs.Factory(lambda self: self.folder / "kept", takes_self=True)
    )
    cluster: Cluster | None = None
    join: Callable[[Cluster], None] = attrs.field(default=lambda cluster: None, repr=False)
    states: dict[Any, dict[str, Any]] = attrs.field(factory=dict, repr=False)

    def state_of(self, plugin: Any) -> dict[str, Any]:
        """Return a dict private to this plugin and this fit: `run.state_of(self)`.

        Plugins are frozen, so what one hook or callback must tell a later one goes here.
        """
        return self.states.setdefault(plugin, {})
