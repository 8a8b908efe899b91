"""Real workers that learn from Slurm or from addresses who they are."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.real_process import TINY, Done, environment, make_project, tfopt

from tfopt_core.workers.clusters.roles import free_addresses

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow, pytest.mark.thorough]

RECIPE = """
    name = "tiny"
    [workload]
    factory = "tiny.py:build"
    epochs = 2
    batch_size = {batch_size}
    [[plugins]]
    use = "multi-worker"
    {settings}
"""
WORKERS = 2


def by_slurm(rank: int, addresses: tuple[str, ...]) -> dict[str, str]:
    """What `srun --ntasks=2` sets for its tasks on one node."""
    return {
        "SLURM_JOB_ID": "1", "SLURM_PROCID": str(rank), "SLURM_STEP_NUM_TASKS": str(WORKERS),
        "SLURM_STEP_NODELIST": "127.0.0.1", "SLURM_STEP_TASKS_PER_NODE": str(WORKERS),
    }  # fmt: skip


def by_address(rank: int, addresses: tuple[str, ...]) -> dict[str, str]:
    return {"TFOPT_ADDRESS_INDEX": str(rank)}


def losses(printed: str) -> list[float]:
    return [float(loss) for loss in re.findall(r"^epoch .* loss (\S+)", printed, re.MULTILINE)]


def trained(
    project: Path, told: Any, batch_size: int, settings: str, addresses: tuple[str, ...]
) -> list[Done]:
    recipe = RECIPE.format(batch_size=batch_size, settings=settings)
    make_project(project, recipe, tiny=TINY.format(says="pass"))

    def worker(rank: int) -> Done:
        env = environment(**told(rank, addresses))
        return tfopt("train", "recipe.toml", "--seed", "3", cwd=project, env=env)

    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(worker, range(WORKERS)))


# the second port is the one after the first
LARGER = """
    slurm_port = {port}
    batch_size = "per-replica"
    learning_rate = "linear"
"""
SOURCE = """
    addresses = {addresses}
    shard = "source"
    communication = "ring"
"""


@pytest.mark.parametrize(
    ("told", "batch_size", "settings", "said"),
    [
        pytest.param(
            by_slurm,
            8,
            LARGER,
            "global batch 16, learning rate x 2 (linear)",
            marks=pytest.mark.thorough,
        ),
        (by_address, 12, SOURCE, "communication ring, part of the source"),
    ],
)
def test_workers_train_together_however_they_are_told_who_they_are(
    tmp_path: Path, told: Any, batch_size: int, settings: str, said: str
) -> None:
    addresses = free_addresses(WORKERS)
    port = addresses[0].rpartition(":")[2]
    settings = settings.format(port=port, addresses=json.dumps(addresses))
    both = trained(tmp_path, told, batch_size, settings, addresses)
    for done in both:
        assert done.code == 0, done.err + done.out
        assert said in " ".join(done.out.split())
    assert len(losses(both[0].out)) == 2
    assert losses(both[0].out) == losses(both[1].out)
