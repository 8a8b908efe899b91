"""A disk cache that cannot be filled: full disk, killed run. Nothing of it harms the next run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from support.own_mounts import mount_small, with_own_mounts
from support.real_process import (
    TFOPT,
    TIME_LIMIT_SECONDS,
    descendants,
    make_project,
    run,
    started,
    tfopt,
    wait_until,
)

pytestmark = pytest.mark.slow

# Less than the cache needs; more than anything else writes.
FILE_LIMIT_BYTES = 4_000_000
# Room on the disk for the cache before a run begins, and what is left of it then.
DISK_BYTES, LEFT_BYTES = 64_000_000, 2_000_000
# 300 examples of 40 KB; a file "slow" in the project makes each of them take a while, with a file
# "full" those that a run writes end at the limit, as if the disk were full, and with a file "room"
# something else takes the room of the disk once the training begins.
WORKLOAD = f"""
    import pathlib, resource, shutil, signal, time
    import keras
    import numpy as np
    import tensorflow as tf
    from tfopt_core import DataPlan, Workload

    def wait(x):
        if pathlib.Path("slow").exists():
            time.sleep(0.1)
        # the dry build was the first
        if pathlib.Path("room").exists() and len(pathlib.Path("built").read_text()) == 2:
            if not pathlib.Path("filler").exists():
                free = shutil.disk_usage(".").free
                pathlib.Path("filler").write_bytes(bytes(free - {LEFT_BYTES}))
        return x

    def decode(x):
        x = tf.ensure_shape(tf.numpy_function(wait, [x], tf.float32), [1])
        return tf.tile(x, [10_000]), x

    def build():
        if pathlib.Path("full").exists():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, ({FILE_LIMIT_BYTES}, {FILE_LIMIT_BYTES}))
        with open("built", "a") as built:
            built.write("x")
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


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path, RECIPE, large=WORKLOAD)


def cache_files(project: Path) -> list[Path]:
    return [path for path in project.glob(".tfopt/**/cache-train/*") if path.is_file()]


@pytest.mark.promise(10, injected="RLIMIT_FSIZE in the run, below the size of its cache")
def test_disk_that_fills_up_fails_the_run_and_leaves_no_cache_behind(project: Path) -> None:
    (project / "full").touch()
    done = tfopt("train", "recipe.toml", cwd=project)
    assert done.code == 3, done.err
    assert "the training failed" in done.out
    assert "File too large" in done.out + done.err
    assert cache_files(project) == []


def train_on_a_small_disk(folder: Path) -> list[tuple[int, str]]:
    disk = mount_small(folder, DISK_BYTES)
    project = make_project(disk / "project", RECIPE, large=WORKLOAD)
    (project / "room").touch()
    full = run([TFOPT, "train", "recipe.toml"], cwd=project)
    left = [str(path) for path in cache_files(project)]
    (project / "filler").unlink()
    (project / "room").unlink()
    again = run([TFOPT, "train", "recipe.toml"], cwd=project)
    return [(full.code, full.out + full.err), (len(left), str(left)), (again.code, again.err)]


@pytest.mark.thorough
@pytest.mark.promise(10, injected="a small disk that fills up once the training has begun")
def test_a_cache_whose_disk_fills_up_fails_the_run_and_the_next_one_trains(tmp_path: Path) -> None:
    full, left, again = with_own_mounts(train_on_a_small_disk, tmp_path / "disk")
    assert full[0] == 3, full
    assert "No space left on device" in full[1] or "never completed" in full[1]
    assert "the training failed" in full[1]
    assert left == (0, "[]")
    assert again[0] == 0, again


@pytest.mark.promise(11, injected="SIGKILL in the first epoch")
def test_after_a_kill_while_the_cache_fills_nothing_is_left_and_the_next_run_is_unaffected(
    project: Path,
) -> None:
    (project / "slow").touch()
    with started("train", "recipe.toml", cwd=project) as process:
        wait_until("the cache to fill", filling(project))
        for victim in descendants(process):
            victim.kill()
        process.wait(TIME_LIMIT_SECONDS)
    assert "killed by SIGKILL" in (project / "stdout.txt").read_text()
    assert cache_files(project) == []
    (project / "slow").unlink()
    done = tfopt("train", "recipe.toml", cwd=project)
    assert done.code == 0, done.err
    assert "on disk, after map_examples: decode" in " ".join(done.out.split())


@pytest.mark.thorough
@pytest.mark.promise(41, injected="SIGKILL of tfopt, then junk in the files of the run's cache")
def test_a_resumed_run_reads_nothing_that_it_finds_in_its_cache(project: Path) -> None:
    (project / "slow").touch()
    options = ("--set", "measure.pairs=4", "--set", 'measure.attribution="off"')
    with started("apply", "recipe.toml", *options, cwd=project) as process:
        wait_until("the cache to fill", filling_in_a_run(project))
        process.kill()
    left = cache_files(project)
    assert left
    for path in left:
        path.write_bytes(b"foreign" * 1000)
    (project / "slow").unlink()
    done = tfopt("apply", "recipe.toml", *options, "--resume", "--json", "o.json", cwd=project)
    assert done.code == 0, done.err
    runs = json.loads((project / "o.json").read_text())["runs"]
    of_seed: dict[int, set[tuple[float, ...]]] = {}
    for one in runs:
        of_seed.setdefault(one["seed"], set()).add(tuple(one["fits"][0]["history"]["loss"]))
    assert len(of_seed) == 4
    # with and without the cache, to the last digit
    assert all(len(losses) == 1 for losses in of_seed.values())
    assert cache_files(project) == []


def filling_in_a_run(project: Path) -> Callable[[], list[Path]]:
    """Whether a measured run, not a replay or the dry build, has opened the files of its cache."""
    runs = re.compile(r"/\d\d-\d-full/")
    return lambda: [path for path in cache_files(project) if runs.search(str(path))]


def filling(project: Path) -> Callable[[], list[Path]]:
    """Whether the run itself, not its dry build, has opened the files of its cache."""
    return lambda: [path for path in cache_files(project) if "prepare" not in path.parts]
