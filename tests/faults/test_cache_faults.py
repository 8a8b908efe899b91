"""A disk cache that cannot be filled: full disk, killed run. Nothing of it harms the next run."""

import json
from pathlib import Path

import pytest
from support.real_process import (
    TIME_LIMIT_SECONDS,
    descendants,
    make_project,
    started,
    tfopt,
    wait_until,
)

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

# What a measured run with the cache, not a replay or the dry build, writes of it.
CACHE_OF_A_RUN = ".tfopt/**/[0-9][0-9]-[0-9]-full/**/cache-train/*"
# Less than the cache needs; more than anything else writes.
FILE_LIMIT_BYTES = 4_000_000
# 300 examples of 40 KB; a file "slow" in the project makes each of them take a while once there are
# files of the pattern that stands in it, with a file "full" those that a run writes end at the
# limit, as if the disk were full.
WORKLOAD = f"""
    import pathlib, resource, signal, time
    import keras
    import numpy as np
    import tensorflow as tf
    from tfopt_core import DataPlan, Workload

    def wait(x):
        slow = pathlib.Path("slow")
        if slow.exists() and any(pathlib.Path().glob(slow.read_text())):
            time.sleep(0.1)
        return x

    def decode(x):
        x = tf.ensure_shape(tf.numpy_function(wait, [x], tf.float32), [1])
        return tf.tile(x, [10_000]), x

    def build():
        if pathlib.Path("full").exists():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, ({FILE_LIMIT_BYTES}, {FILE_LIMIT_BYTES}))
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


@pytest.mark.promise(11, injected="SIGKILL in the first epoch")
def test_after_a_kill_while_the_cache_fills_nothing_is_left_and_the_next_run_is_unaffected(project):
    (project / "slow").write_text(CACHE_OF_A_RUN)
    with started("train", "recipe.toml", cwd=project) as process:
        wait_until("the cache to fill", lambda: any(project.glob(CACHE_OF_A_RUN)))
        for victim in descendants(process):
            victim.kill()
        process.wait(TIME_LIMIT_SECONDS)
    assert "killed by SIGKILL" in (project / "stdout.txt").read_text()
    assert cache_files(project) == []
    (project / "slow").unlink()
    done = tfopt("train", "recipe.toml", cwd=project)
    assert done.code == 0, done.err
    assert "on disk, after map_examples: decode" in " ".join(done.out.split())


@pytest.mark.promise(41, injected="SIGKILL of tfopt, then junk in the files of the run's cache")
def test_a_resumed_run_reads_nothing_that_it_finds_in_its_cache(project: Path) -> None:
    (project / "slow").write_text(CACHE_OF_A_RUN)
    options = ("--set", "measure.pairs=4", "--set", 'measure.attribution="off"')
    with started("apply", "recipe.toml", *options, cwd=project) as process:
        wait_until("the cache to fill", lambda: any(project.glob(CACHE_OF_A_RUN)))
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
