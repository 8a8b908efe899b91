"""Settings of plugins, for tests of all that are registered."""

from collections.abc import Mapping
from typing import Any

from support import stack_workload

# For plugins some of whose settings have no default.
NEEDED: Mapping[str, Mapping[str, Any]] = {
    "augment": {"layers": ({"layer": "RandomFlip"},)},
    "grappler": {"remapping": False},
    "target-stop": {"metric": "val_loss", "at_most": 0.1},
}
# With which the stacks of the covering array are trained: what "auto" would time for seconds, and
# what has a plugin take effect on two CPUs. A plugin without a row has its defaults.
TRIED: Mapping[str, Mapping[str, Any]] = {
    **NEEDED,
    # its layers keep state, which data-service refuses to copy
    "augment": {"function": f"{stack_workload.__file__}:flipped", "parallel": 1},
    "cache": {"storage": "memory"},
    "chunked": {"steps": 2, "xla": False},
    "fit-batch": {"batch_size": 24},
    "fused-optimizer": {"min_elements": 1},
    "gradient-accumulation": {"steps": 2},
    "l2": {"strength": 0.001},
    "mirrored": {"logical_cpu_devices": 2},
    "mixed-precision": {"policy": "mixed_bfloat16"},
    "profile": {"steps": 2, "skip": 1},
    "rematerialize": {"segments": 2},
    "resident": {"steps": 2, "xla": False},
    "split-batch": {"parts": 2, "xla": False},
    "steps-per-execution": {"steps": 2},
    "threads": {"intra_op": 1, "inter_op": 2},
}
# Options of the small workload without which a plugin finds nothing to do.
WORKLOAD_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "fused-recurrent": {"recurrent": True},
    "fused-transformer": {"normalized": True},
}
