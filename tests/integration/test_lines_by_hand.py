"""The lines that plugins have people write by hand run as they stand, beside a training's names."""

import os
from typing import Any

import pytest
from support.lazy_modules import keras, tf
from support.plugin_settings import NEEDED

from tfopt_core.hooks.installed.discovery import registrations

pytestmark = pytest.mark.slow

OURS = {n: f[0] for n, f in registrations().items() if f[0].distribution == "tfopt"}
# What must stand before TensorFlow starts, or needs a TPU, is compiled only.
NOT_HERE = ("gpu-memory", "threads", "tpu")
CASES = [
    *((name, NEEDED.get(name, {})) for name in OURS),
    ("augment", {"function": "work:flipped", "on": "batches"}),
    ("batch", {"last": "keep", "pad_to": "power-of-two"}),
    ("cache", {"storage": "disk"}),
    ("gpu-memory", {"growth": False, "limit_mib": 100}),
    ("lr-schedule", {"peak": 0.1, "warmup_epochs": 0.5}),
    ("lr-schedule", {"schedule": "cosine-restarts", "first_restart_epochs": 0.5}),
    ("materialize", {"order": "batches"}),
    ("mirrored", {"devices": ["/cpu:0"], "communication": "hierarchical"}),
    ("mixed-precision", {"policy": "mixed_float16", "loss_scale": 128.0}),
    ("shuffle", {"buffer_size": "all"}),
    ("slim-head", {"rank": 2}),
    ("threads", {"intra_op": 2}), ("tpu", {"tpu": "local", "zone": "z"}),
]  # fmt: skip


def names() -> dict[str, Any]:
    """Return what the lines call by name."""
    import numpy as np

    def build_model() -> Any:
        return keras.Sequential([keras.Input((4, 4, 1)), keras.layers.Flatten(), dense()])

    def dense() -> Any:
        return keras.layers.Dense(1)

    x, y = np.ones((16, 4, 4, 1), "float32"), np.ones((16, 1), "float32")
    model, rest = build_model(), keras.Sequential([keras.Input((1,)), dense()])
    for one in (model, rest):
        one.compile("sgd", "mse")
    train = tf.data.Dataset.from_tensor_slices((x, y))
    return {
        "tf": tf, "keras": keras, "np": np, "os": os, "build_model": build_model, "model": model,
        "frozen": build_model(), "rest": rest, "block": dense(), "batches": [(x, y), (x, y)],
        "train": train, "validation": train, "files": tf.data.Dataset.from_tensors("file"),
        "x": x, "y": y, "loss": "mse", "optimizer": keras.optimizers.Adam(0.01),
        "augment": lambda x, y=None, training=False: x if y is None else (x, y),
        "function": lambda x, y: (x, y), "activation": "relu", "units": 2, "batch_size": 4,
        "largest": 8, "epochs": 2, "steps_per_epoch": 4, "workers": 2, "this_worker": 0,
    }  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "settings"), CASES)
def test_lines_by_hand_run(name, settings, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    known = names()
    if name == "data-service":
        service = known["tf"].data.experimental.service
        dispatcher = service.DispatchServer()
        settings = {"address": dispatcher.target}
    if name in ("augment", "gradient-accumulation"):
        known["train"] = known["train"].batch(4)
    lines = OURS[name].load()(**settings).by_hand()
    assert len(lines.splitlines()) <= 10
    code = compile(lines, name, "exec")
    if name in NOT_HERE:
        return
    exec(code, known)
    for split in ("train", "validation"):
        assert isinstance(known[split], known["tf"].data.Dataset)
