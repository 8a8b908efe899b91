"""The table of the catalogue: on which workload each plugin should help, and on which not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs


@attrs.frozen(kw_only=True)
class Place:
    """A shipped workload with options, and how long it is trained.

    :param limits: where a training's cost is, in the words of the page.
    :param whole: what the workload trains on by itself, and for how long.
    :param seconds: about what a run without a plugin takes on two idle cores.
    :param batch_size: None for the workload's own.
    :param target: of a training whose algorithm a plugin changes; None if no such plugin is
        measured here.
    """

    workload: str
    limits: str
    whole: str
    epochs: int
    seconds: float
    options: Mapping[str, Any] = attrs.field(factory=dict)
    batch_size: int | None = None
    target: Mapping[str, Any] | None = None


@attrs.frozen(kw_only=True)
class Row:
    """Where a plugin should help and where it should not, as names of `PLACES`.

    :param settings: those that have no default, and those without which it does nothing.
    :param times: about how many times as long as one without the plugin a run takes.
    """

    helps: str
    harms: str
    settings: Mapping[str, Any] = attrs.field(factory=dict)
    times: float = 1.0


# Epochs are shortened until a step is known from one to two seconds of warm steps an epoch; what a
# training costs once (building, tracing) is a column of its own.
PLACES: Mapping[str, Place] = {
    "pictures": Place(
        workload="fashion-mnist", limits="convolutions", whole="10,000 examples, 5 epochs",
        epochs=2, seconds=6, options={"examples": 2560},
        target={"metric": "val_accuracy", "at_least": 0.7},
    ),
    "few pictures": Place(
        workload="fashion-mnist", limits="convolutions, few examples",
        whole="10,000 examples in 10 classes, 5 epochs", epochs=7, seconds=9.5,
        options={"examples": 1500, "classes": 5},
        target={"metric": "val_accuracy", "at_least": 0.8},
    ),
    "files": Place(
        workload="clipart-jpeg", limits="decoding of JPEG files", whole="10 epochs",
        epochs=2, seconds=6, options={"augment": False},
        target={"metric": "val_accuracy", "at_least": 0.25},
    ),
    "rows": Place(
        workload="flights", limits="a map of single rows", whole="80,000 examples, 5 epochs",
        epochs=2, seconds=6, options={"examples": 36000},
        target={"metric": "val_auc", "at_least": 0.89},
    ),
    "prepared rows": Place(
        workload="flights", limits="dispatch of small steps", whole="80,000 examples, 5 epochs",
        epochs=3, seconds=4.5, options={"examples": 75000, "prepare": "ahead"},
        target={"metric": "val_auc", "at_least": 0.89},
    ),
    "generator": Place(
        workload="fashion-gradients", limits="a PyDataset that computes in NumPy",
        whole="10,000 examples", epochs=3, seconds=8, options={"examples": 2000},
    ),
    "windows": Place(
        workload="weather", limits="an LSTM", whole="5 epochs", epochs=2, seconds=8,
        options={"examples": 4000},
    ),
    "text": Place(
        workload="stdlib-text", limits="attention", whole="20,000 examples, 3 epochs",
        epochs=2, seconds=8, options={"examples": 3000},
        target={"metric": "val_accuracy", "at_least": 0.3},
    ),
    "long text": Place(
        workload="stdlib-text", limits="memory of attention", whole="64 tokens, 20,000 examples",
        epochs=2, seconds=12, options={"examples": 1024, "tokens": 128}, batch_size=64,
    ),
    "short text": Place(
        workload="stdlib-text", limits="the update of a large embedding",
        whole="64 tokens, 20,000 examples", epochs=3, seconds=8,
        options={"examples": 3000, "tokens": 8, "width": 4, "blocks": 1},
    ),
    "transfer": Place(
        workload="clipart-transfer", limits="a frozen base", whole="15 epochs", epochs=3,
        seconds=9, target={"metric": "val_accuracy", "at_least": 0.3},
    ),
    "trained base": Place(
        workload="clipart-transfer", limits="the same base, trained", whole="15 epochs", epochs=2,
        seconds=10, options={"train_base": True},
    ),
    "backbone": Place(
        workload="fashion-efficientnet", limits="an EfficientNet",
        whole="10,000 examples, 5,000 held out, 10 classes, 8 epochs", epochs=2, seconds=28,
        options={"examples": 500, "held_out": 250, "classes": 5},
        target={"metric": "val_accuracy", "at_least": 0.4},
    ),
}  # fmt: skip

ROWS: Mapping[str, Row] = {
    "adaptive-l2": Row(helps="few pictures", harms="prepared rows"),
    "augment": Row(
        helps="few pictures", harms="files", settings={"layers": [{"layer": "RandomFlip"}]}
    ),
    "autotune": Row(helps="prepared rows", harms="pictures", settings={"mode": "off"}),
    "batch": Row(helps="prepared rows", harms="pictures"),
    "cache": Row(helps="files", harms="prepared rows"),
    "chunked": Row(helps="prepared rows", harms="pictures"),
    "data-service": Row(helps="files", harms="prepared rows", times=2),
    "dropconnect": Row(helps="few pictures", harms="prepared rows"),
    "fit-batch": Row(helps="prepared rows", harms="pictures", settings={"max": 512}),
    "frozen-features": Row(helps="transfer", harms="trained base"),
    "fused-optimizer": Row(helps="short text", harms="prepared rows"),
    "fused-recurrent": Row(helps="windows", harms="pictures"),
    "fused-transformer": Row(helps="text", harms="pictures"),
    "gpu-memory": Row(helps="pictures", harms="prepared rows"),
    "gradient-accumulation": Row(helps="long text", harms="prepared rows"),
    "grappler": Row(helps="rows", harms="pictures", settings={"remapping": False}),
    "interleave": Row(helps="files", harms="prepared rows"),
    "l2": Row(helps="few pictures", harms="prepared rows"),
    "lr-schedule": Row(helps="few pictures", harms="rows"),
    "materialize": Row(helps="generator", harms="prepared rows"),
    "mirrored": Row(helps="pictures", harms="prepared rows", settings={"logical_cpu_devices": 2}),
    "mixed-precision": Row(helps="pictures", harms="prepared rows"),
    "multi-worker": Row(helps="pictures", harms="prepared rows", times=2.5),
    "one-device": Row(helps="pictures", harms="prepared rows"),
    "parallel-map": Row(helps="files", harms="prepared rows"),
    "parameter-server": Row(helps="pictures", harms="prepared rows", times=2.5),
    "prefetch": Row(helps="rows", harms="prepared rows"),
    "prefetch-to-device": Row(helps="rows", harms="prepared rows"),
    "profile": Row(helps="pictures", harms="prepared rows"),
    "rematerialize": Row(helps="long text", harms="prepared rows", settings={"segments": 2}),
    "resident": Row(helps="prepared rows", harms="files"),
    "shard": Row(helps="files", harms="prepared rows"),
    "shuffle": Row(helps="files", harms="prepared rows"),
    "slim-head": Row(helps="few pictures", harms="prepared rows"),
    "split-batch": Row(helps="text", harms="pictures"),
    "steps-per-execution": Row(helps="prepared rows", harms="pictures"),
    "swap-backbone": Row(
        helps="backbone", harms="few pictures", settings={"application": "MobileNetV3Small"}
    ),
    "target-stop": Row(
        helps="few pictures", harms="text",
        settings={"metric": "val_accuracy", "at_least": 0.8},
    ),
    "threads": Row(helps="prepared rows", harms="pictures", settings={"inter_op": 1}),
    "tpu": Row(helps="pictures", harms="prepared rows"),
    "vectorize-map": Row(helps="rows", harms="prepared rows"),
    "xla": Row(helps="text", harms="pictures", times=2),
}  # fmt: skip
