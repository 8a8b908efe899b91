"""What the model and the calls of `fit` show that costs time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.tensorflow

X = np.random.default_rng(1).random((16, 3), "float32")


@pytest.mark.parametrize(("epochs", "batch_size", "found"), [(1, 16, 1), (2, 16, 0), (1, 8, 0)])
def test_a_fit_for_one_batch_is_named_with_what_to_call(
    tmp_path: Path, epochs: int, batch_size: int, found: int
) -> None:
    import keras
    from support.in_process import build_here

    from tfopt_core import Workload
    from tfopt_core.diagnosis.step_parts import Parts
    from tfopt_core.diagnosis.training_findings import model_findings
    from tfopt_core.records.diagnosis import StepPart

    def build_model() -> Any:
        return keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])

    workload = Workload(train=(X, X[:, :1]), build_model=build_model, optimizer="sgd", loss="mse")
    built = build_here(workload, folder=tmp_path, epochs=epochs, batch_size=batch_size)
    part = StepPart(share=0.01, low=0.01, high=0.01)
    parts = Parts(
        step_seconds=0.04, input=part, dispatch=part, compute=part, data_seconds=0.0,
        dispatch_known=True,
    )  # fmt: skip
    named = [one for one in model_findings(built, parts, None) if one.kind == "fit-for-a-batch"]
    assert len(named) == found
    assert all("40 ms a call, of which the update takes 0.4 ms" in one.detail for one in named)
