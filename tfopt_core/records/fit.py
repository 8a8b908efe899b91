"""The timings and the history of a finished fit, as data. No TensorFlow."""

from __future__ import annotations

import attrs


@attrs.frozen
class TimedBlock:
    """Some steps in a row: how many, how long, in which epoch.

    `cold` says why the block is no sample of a steady step: "trace" holds a trace or
    compilation, "cache" belongs to an epoch that fills a cache; "" for an ordinary block.
    """

    steps: int
    seconds: float
    epoch: int
    cold: str = ""


@attrs.frozen(kw_only=True)
class FitOutcome:
    """What one fit took and reached. Seconds count from the start of its build.

    `setup_seconds` lie before the first step; `epoch_begin_seconds` and `epoch_end_seconds` hold
    one figure an epoch, of the last one too where the fit was `cut_short` in it; `edge_seconds`
    lie between the last step of an epoch and the begin of the next, without the validation (what
    callbacks do, and Keras' new iterator); `epochs` are
    those that were finished, of `planned_epochs`;
    `batch_size` is None where the workload batches its own data. Of a training that was `resumed`
    from a checkpoint, `epochs` and `history` are those of all of it, the other figures only those
    of what was trained now. `workers` are the processes that computed steps, and
    `communication_step_seconds` what an all-reduce of the gradients took, timed alone after the
    training; None on one device and where no gradients are summed. `cluster_seconds` are those of
    `setup_seconds` in which the processes of a cluster joined, None for one process.
    """

    wall_seconds: float
    setup_seconds: float
    blocks: tuple[TimedBlock, ...]
    validation_seconds: tuple[float, ...]
    epoch_begin_seconds: tuple[float, ...]
    epoch_end_seconds: tuple[float, ...]
    edge_seconds: tuple[float, ...] = ()
    cut_short: bool
    planned_epochs: int
    steps_per_epoch: int | None
    epochs: int
    steps: int
    batch_size: int | None
    replicas: int
    trainable_parameters: int
    jit_compile: bool
    float32_layers: tuple[str, ...]
    stop_reason: str | None
    history: dict[str, list[float]]
    resumed: bool = False
    workers: int = 1
    communication_step_seconds: float | None = None
    cluster_seconds: float | None = None
