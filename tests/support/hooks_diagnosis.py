"""A diagnosis of the tests' own making."""

from __future__ import annotations

from typing import Any

from tfopt_core.plugins import Diagnosis
from tfopt_core.testing import make_machine


def diagnosis(
    input_: float = 3.0, dispatch: float = 1.0, compute: float = 4.0, data: float = 3.0,
    **changes: Any,
) -> Diagnosis:  # fmt: skip
    """A step of 8 s by default, of which reading the data takes 3 s."""
    plain: dict[str, Any] = {
        "machine": make_machine(), "epochs": 5, "steps_per_epoch": 100, "batch_size": 32,
        "examples": 3200, "step_seconds": input_ + dispatch + compute, "input_seconds": input_,
        "dispatch_seconds": dispatch, "compute_seconds": compute, "data_seconds": data,
        "example_bytes": None, "available_memory_bytes": 2**30, "trainable_parameters": 10,
        "policy": "float32", "jit_compile": False, "supports_jit": True,
    }  # fmt: skip
    return Diagnosis(**{**plain, **changes})
