"""Settings that make no sense are errors when a plugin is made: each names itself or the mend."""

from typing import Any

import pytest
from support.plugin_settings import NEEDED

from tfopt_core.hooks.installed.discovery import registrations

FLIP = ({"layer": "RandomFlip"},)
# Settings of a plugin of which each alone is refused, by an error that names it.
NAMED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("adaptive-l2", {"factor": 1.0, "strength": 0.0, "window": 1}),
    ("data-service", {"port": 70000, "workers": 0}),
    ("dropconnect", {"rate": 0.0}),
    ("fit-batch", {"batch_size": 0, "margin": 1.0, "max": 0}),
    ("l2", {"strength": 0.0}),
    ("lr-schedule", {"final_fraction": 1.5}),
    ("mirrored", {"packs": 0}),
    ("multi-worker", {"join_seconds": 0.0, "learning_rate": "linear", "pack_megabytes": -1.0}),
    ("multi-worker", {"slurm_port": 70000, "timeout_seconds": 0.0, "workers": 0}),
    ("one-device", {"device": "cuda"}),
    ("rematerialize", {"segments": 0}),
)
LOOPS = ("chunked", "resident", "steps-per-execution")
# Settings of a plugin, and what its error says of them.
REFUSED: tuple[tuple[str, dict[str, Any], str], ...] = (
    *((name, {key: value}, key) for name, alone in NAMED for key, value in alone.items()),
    *((name, {"steps": n}, "steps must be at least 1") for name in LOOPS for n in ("all", 0)),
    ("augment", {"function": "a:b", "layers": FLIP}, "exactly one of the two"),
    ("augment", {"function": "a:b", "layers": (), "parallel": 0}, "at least 1"),
    ("augment", {"function": "flip", "layers": ()}, "names no function"),
    ("augment", {"layers": [{"layer": "Dense"}]}, "no preprocessing layer"),
    ("augment", {"layers": [{"layer": "MixUp"}]}, 'set on = "batches"'),
    ("augment", {"layers": [{"layer": "RandomFlop"}]}, 'did you mean "RandomFlip"'),
    ("batch", {"pad_to": (0, 4)}, "lengths of at least 1, such as"),
    ("batch", {"pad_to": (32, 16)}, r"must be ascending, got \[32, 16\]; write \[16, 32\]"),
    ("data-service", {"address": "grpc://h:1", "workers": 2}, "a service that tfopt starts"),
    ("data-service", {"address": "localhost:1"}, 'not of the form "grpc://host:port"'),
    ("data-service", {"sharding": "off", "workers": 2}, "read all examples"),
    ("gpu-memory", {"limit_mib": 512}, "set growth = false beside limit_mib"),
    ("grappler", {"remapping": None}, "no pass is set; name one, such as remapping = false"),
    ("lr-schedule", {"first_restart_epochs": 1.0}, "no effect"),
    ("lr-schedule", {"schedule": "cosine-restarts"}, "needs first_restart_epochs"),
    ("mirrored", {"packs": 2, "communication": "reduce-to-one"}, "packs"),
    (
        "mixed-precision",
        {"float32_layers": "all"},
        '"auto" or an array of names, got "all"',
    ),
    ("mixed-precision", {"loss_scale": -1.0}, "above 0"),
    ("multi-worker", {"addresses": ["a:1", "a:1"]}, "addresses: "),
    ("multi-worker", {"addresses": ["http://a:1"]}, "addresses: "),
    ("parallel-map", {"calls": 0}, "at least 1"),
    ("prefetch", {"buffer_size": 0}, "at least 1"),
    ("shard", {"count": 0}, "must be"),
    ("shard", {"count": 2, "index": 2}, "must be"),
    ("shuffle", {"buffer_size": 0}, "at least 1"),
    ("slim-head", {"pool": False}, "set rank"),
    ("target-stop", {"at_least": 1.0}, "exactly one"),
    ("xla", {"mode": "off", "persistent_cache": True}, '"off" compiles nothing'),
)


@pytest.mark.parametrize(("name", "settings", "message"), REFUSED)
def test_settings_that_make_no_sense_are_refused(name, settings, message):
    [found] = registrations()[name]
    with pytest.raises(ValueError, match=message):
        found.load()(**{**NEEDED.get(name, {}), **settings})
