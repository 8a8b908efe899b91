"""The table of the catalogue: on which workload each plugin should help, and on which not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs


@attrs.frozen(kw_only=True)
class Place:
    """A shipped workload with options, and how long it is trained.

    :param limits: where a training's cost is, in the words of the page.
    :param target: of a training whose algorithm a plugin changes; None if no such plugin is
        measured here.
    """

    workload: str
    limits: str
    epochs: int
    options: Mapping[str, Any] = attrs.field(factory=dict)
    target: Mapping[str, Any] | None = None


@attrs.frozen(kw_only=True)
class Row:
    """Where a plugin should help and where it should not, as names of `PLACES`.

    :param settings: those that have no default, and those without which it does nothing.
    """

    helps: str
    harms: str
    settings: Mapping[str, Any] = attrs.field(factory=dict)


PLACES: Mapping[str, Place] = {
    "pictures": Place(
        workload="fashion-mnist", limits="convolutions", epochs=4, options={"examples": 4000},
        target={"metric": "val_accuracy", "at_least": 0.75},
    ),
    "few pictures": Place(
        workload="fashion-mnist", limits="convolutions, few examples", epochs=10,
        options={"examples": 1500, "classes": 5},
        target={"metric": "val_accuracy", "at_least": 0.85},
    ),
    "files": Place(
        workload="clipart-jpeg", limits="decoding of JPEG files", epochs=4,
        target={"metric": "val_accuracy", "at_least": 0.3},
    ),
    "rows": Place(
        workload="flights", limits="a map of single rows", epochs=4, options={"examples": 20000},
        target={"metric": "val_auc", "at_least": 0.89},
    ),
    "prepared rows": Place(
        workload="flights", limits="dispatch of small steps", epochs=6,
        options={"examples": 20000, "prepare": "ahead"},
        target={"metric": "val_auc", "at_least": 0.89},
    ),
    "encoded rows": Place(
        workload="flights-features", limits="a map of batches of rows", epochs=6,
        options={"examples": 20000},
    ),
    "generator": Place(
        workload="fashion-gradients", limits="a PyDataset that computes in NumPy", epochs=4,
        options={"examples": 2000},
    ),
    "windows": Place(
        workload="weather", limits="an LSTM", epochs=3, options={"examples": 4000},
    ),
    "text": Place(
        workload="stdlib-text", limits="attention", epochs=3, options={"examples": 3000},
        target={"metric": "val_accuracy", "at_least": 0.3},
    ),
    "long text": Place(
        workload="stdlib-text", limits="memory of attention", epochs=2,
        options={"examples": 1024, "tokens": 256},
    ),
    "short text": Place(
        workload="stdlib-text", limits="the update of a large embedding", epochs=3,
        options={"examples": 3000, "tokens": 8, "width": 4, "blocks": 1},
    ),
    "transfer": Place(
        workload="clipart-transfer", limits="a frozen base", epochs=6,
        target={"metric": "val_accuracy", "at_least": 0.3},
    ),
    "trained base": Place(
        workload="clipart-transfer", limits="the same base, trained", epochs=3,
        options={"train_base": True},
    ),
    "backbone": Place(
        workload="fashion-efficientnet", limits="an EfficientNet", epochs=3,
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
    "data-service": Row(helps="files", harms="prepared rows"),
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
    "multi-worker": Row(helps="pictures", harms="prepared rows"),
    "one-device": Row(helps="pictures", harms="prepared rows"),
    "parallel-map": Row(helps="files", harms="prepared rows"),
    "parameter-server": Row(helps="pictures", harms="prepared rows"),
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
        settings={"metric": "val_accuracy", "at_least": 0.85},
    ),
    "threads": Row(helps="prepared rows", harms="pictures", settings={"inter_op": 1}),
    "tpu": Row(helps="pictures", harms="prepared rows"),
    "vectorize-map": Row(helps="rows", harms="prepared rows"),
    "xla": Row(helps="text", harms="pictures"),
}  # fmt: skip
