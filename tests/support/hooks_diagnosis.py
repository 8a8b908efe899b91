"""A diagnosis of the tests' own making."""

from typing import Any

from tfopt_core.plugins import Diagnosis
from tfopt_core.testing import make_diagnosis


def diagnosis(
    input_: float = 3.0, dispatch: float = 1.0, compute: float = 4.0, data: float = 3.0,
    **changes: Any,
) -> Diagnosis:  # fmt: skip
    """A step of 8 s by default, of which reading the data takes 3 s; no plans, and size unknown."""
    parts: dict[str, Any] = {
        "input_seconds": input_, "dispatch_seconds": dispatch, "compute_seconds": compute,
        "data_seconds": data, "steps_per_epoch": 100, "examples": 3200, "example_bytes": None,
        "available_memory_bytes": 2**30, "plans": {},
    }  # fmt: skip
    return make_diagnosis(**{**parts, **changes})
