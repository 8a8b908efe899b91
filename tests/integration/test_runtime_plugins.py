"""A training with grappler's passes or the profiler against plain Keras, in real processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.real_process import tfopt

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

FACTORY = """
import keras, numpy as np
from tfopt_core import Workload

def build():
    x = np.random.default_rng(0).random((256, 8), dtype="float32")
    y = x.sum(1, keepdims=True)
    dense = keras.layers.Dense
    def model():
        return keras.Sequential([keras.Input((8,)), dense(16, activation="relu"), dense(1)])
    return Workload(train=(x, y), validation=(x[:64], y[:64]), build_model=model,
                    optimizer="sgd", loss="mse", metrics=[], batch_size=16)
"""
RECIPE = """
name = "small"
description = "x"
[workload]
factory = "work.py:build"
epochs = 3
[measure]
pairs = 4
attribution = "off"
quality = {{ metric = "val_loss", tolerance = 0.01, direction = "min" }}
{plugins}
"""


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The JSON of a measurement of grappler, observed by profile."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "work.py").write_text(FACTORY)
    plugins = """
[[plugins]]
use = "grappler"
remapping = false
[[plugins]]
use = "gpu-memory"
[[plugins]]
use = "profile"
steps = 8
"""
    (folder / "r.toml").write_text(RECIPE.format(plugins=plugins))
    done = tfopt("apply", "r.toml", "--json", "out.json", cwd=folder)
    assert done.code == 0, done.out + done.err
    data: dict[str, Any] = json.loads((folder / "out.json").read_text())
    data["printed"] = done.out
    return data


def test_a_pass_that_is_off_trains_to_the_losses_of_plain_keras(measured: dict[str, Any]) -> None:
    last = {
        (run["variant"], run["seed"]): run["fits"][0]["history"]["loss"][-1]
        for run in measured["runs"]
        if run["status"] == "ok"
    }
    pairs = {seed for _, seed in last}
    assert len(pairs) >= 4
    for seed in pairs:
        assert last["full", seed] == pytest.approx(last["baseline", seed], rel=1e-4)


def test_its_effect_is_the_count_of_nodes_and_no_gpu_is_said(measured: dict[str, Any]) -> None:
    effects = next(run["effects"] for run in measured["runs"] if run["variant"] == "full")
    assert "_FusedMatMul" in effects["grappler"]["detail"]
    assert "there is no GPU" in effects["gpu-memory"]["detail"]
    assert "profile" not in effects


def test_the_profile_is_of_an_extra_run_and_its_trace_is_kept(measured: dict[str, Any]) -> None:
    found = measured["observed"]["profile"]
    assert found["applied"]
    assert [table["columns"][0] for table in found["tables"]] == ["", "operation"]
    assert "observed" not in {run["variant"] for run in measured["runs"]}
    folder = Path(found["detail"].partition("kept in ")[2].partition(" (")[0])
    assert list(folder.glob("plugins/profile/*/*.xplane.pb"))
    assert "Observed by profile" in measured["printed"]
