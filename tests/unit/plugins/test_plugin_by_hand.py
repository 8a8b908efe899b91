"""What each plugin has people write by hand can be compiled, whatever its settings."""

from __future__ import annotations

import pytest
from support.plugin_settings import NEEDED, TRIED

from tfopt_core.hooks.installed.discovery import registrations

OURS = {n: f[0] for n, f in registrations().items() if f[0].distribution == "tfopt"}
# Settings that ask for other lines than the defaults.
OTHERS = [
    ("autotune", {"mode": "off"}), ("batch", {"last": "drop"}), ("batch", {"pad_to": [16, 32]}),
    ("batch", {"last": "keep"}), ("batch", {"last": "keep", "pad_to": "power-of-two"}),
    ("cache", {"storage": "disk"}), ("cache", {"storage": "partial"}),
    ("gpu-memory", {"growth": False, "limit_mib": 100}),
    ("gpu-memory", {"allocator": "async"}), ("lr-schedule", {"warmup_epochs": 1.0}),
    ("lr-schedule", {"schedule": "cosine-restarts", "first_restart_epochs": 2}),
    ("lr-schedule", {"schedule": "constant"}), ("threads", {}), ("threads", {"intra_op": 2}),
    ("slim-head", {"pool": False, "rank": 4}), ("swap-backbone", {"pixel_scale": 0.5}),
    ("mirrored", {"logical_cpu_devices": 2, "communication": "nccl", "packs": 2}),
    ("mirrored", {"batch_size": "per-replica", "learning_rate": "linear"}),
    ("mixed-precision", {"policy": "mixed_float16", "loss_scale": 128.0}),
    ("tpu", {"tpu": "local", "zone": "z"}),
    ("mirrored", {"devices": ("/cpu:0",)}), ("xla", {"persistent_cache": True}),
    ("mixed-precision", {"policy": "mixed_bfloat16", "float32_layers": ["head"]}),
    ("target-stop", {"metric": "val_auc", "at_least": 0.5, "patience": 2}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        *((name, dict(NEEDED.get(name, {}))) for name in OURS),
        *((name, dict(TRIED[name])) for name in TRIED if name in OURS),
        *OTHERS,
    ],
)
def test_its_lines_can_be_compiled(name, settings):
    lines = OURS[name].load()(**settings).by_hand()
    assert lines.strip()
    compile(lines, name, "exec")
    assert not lines.endswith("\n")
    assert len(lines.splitlines()) <= 10
