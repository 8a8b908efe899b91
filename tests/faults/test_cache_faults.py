"""A disk cache that cannot be filled: full disk, killed run. Nothing of it harms the next run."""

from __future__ import annotations

import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.real_process import (
    Done,
    descendants,
    make_project,
    started,
    tfopt,
    wait_until,
)

pytestmark = pytest.mark.slow

# 300 examples of 40 KB; a file "slow" in the project makes each of them take a while.
WORKLOAD = """
    import pathlib, time
    import keras
    import numpy as np
    import tensorflow as tf
    from tfopt_core import DataPlan, Workload

    def wait(x):
        if pathlib.Path("slow").exists():
            time.sleep(0.1)
        return x

    def decode(x):
        x = tf.ensure_shape(tf.numpy_function(wait, [x], tf.float32), [1])
        return tf.tile(x, [10_000]), x

    def build():
        x = np.arange(300, dtype="float32").reshape(300, 1) / 300
        plan = DataPlan.from_arrays(x).map(decode, deterministic=True)
        def build_model():
            return keras.Sequential([keras.layers.Input((10_000,)), keras.layers.Dense(1)])
        return Workload(
            train=plan, build_model=build_model, optimizer="adam", loss="mse", shuffle=False,
        )
"""
RECIPE = """
    name = "large"
    [workload]
    factory = "large.py:build"
    epochs = 2
    batch_size = 32
    [[plugins]]
    use = "cache"
    storage = "disk"
"""
# Less than the cache needs; more than anything else writes.
FILE_LIMIT_BYTES = 4_000_000


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path, RECIPE, large=WORKLOAD)


def cache_files(project: Path) -> list[Path]:
    return [path for path in project.glob(".tfopt/**/cache-train/*") if path.is_file()]


def trained(project: Path, **options: Any) -> Done:
    with started("train", "recipe.toml", cwd=project, **options) as process:
        code = process.wait(240)
    return Done(code, (project / "stdout.txt").read_text(), (project / "stderr.txt").read_text())


def small_files() -> None:
    """In the process to be: its files end at the limit, as if the disk were full."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_LIMIT_BYTES, FILE_LIMIT_BYTES))


@pytest.mark.thorough
def test_disk_that_fills_up_fails_the_run_and_leaves_no_cache_behind(project: Path) -> None:
    done = trained(project, preexec_fn=small_files)
    assert done.code == 3, done.err
    assert "the training failed" in done.out
    assert "File too large" in done.out + done.err
    assert cache_files(project) == []


def test_after_a_kill_while_the_cache_fills_nothing_is_left_and_the_next_run_is_unaffected(
    project: Path,
) -> None:
    (project / "slow").touch()
    with started("train", "recipe.toml", cwd=project) as process:
        wait_until("the cache to fill", filling(project))
        for victim in descendants(process):
            victim.kill()
        process.wait(60)
    assert "killed by SIGKILL" in (project / "stdout.txt").read_text()
    assert cache_files(project) == []
    (project / "slow").unlink()
    done = tfopt("train", "recipe.toml", cwd=project)
    assert done.code == 0, done.err
    assert "on disk, after map_examples: decode" in " ".join(done.out.split())


def filling(project: Path) -> Callable[[], list[Path]]:
    """Whether the run itself, not its dry build, has opened the files of its cache."""
    return lambda: [path for path in cache_files(project) if "prepare" not in path.parts]
