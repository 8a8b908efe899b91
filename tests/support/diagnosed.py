"""A diagnosis made by hand."""

from typing import Any

from tfopt_core.diagnosis.results import Bounds, Diagnosed, Round, StepPart


def make_part(share: float, low: float | None = None, high: float | None = None) -> StepPart:
    """A part of a step."""
    low, high = share if low is None else low, share if high is None else high
    return StepPart(share=share, low=low, high=high)


def make_diagnosed(**changes: Any) -> Diagnosed:
    """A step of which three tenths wait for input."""
    given: dict[str, Any] = {
        "recipe": "mine", "baseline": "stock fit.", "stack": (), "resolved": {},
        "machine": {"cpu_model": "A CPU", "cpu_count": 2}, "epochs": 5, "steps_per_epoch": 100,
        "batch_size": 32, "examples": 3200, "example_bytes": 784.0,
        "available_memory_bytes": 2**30, "trainable_parameters": 1234, "policy": "float32",
        "jit_compile": False, "supports_jit": True, "batch_callbacks": (), "data": {},
        "step_seconds": 0.01, "input": make_part(0.3, 0.28, 0.33), "dispatch": make_part(0.1),
        "compute": make_part(0.6), "dispatch_known": True, "data_seconds": 0.004,
        "input_seconds": 0.003, "dispatch_seconds": 0.001, "compute_seconds": 0.006,
        "bounds": Bounds(input=1.43, dispatch=1.67, compute=2.5, input_and_dispatch=None),
        "matmul_share": 0.25, "matmul_peaks": {"float32": 1.5e11},
        "rounds": (Round(real=0.01, cached=0.007, graph=0.006, data=0.004),) * 3,
        "findings": (), "measuring_seconds": 30.0, "seconds": 35.0,
    }  # fmt: skip
    return Diagnosed(**{**given, **changes})
