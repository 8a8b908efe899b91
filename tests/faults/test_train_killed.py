"""`tfopt train --resume` killed at random moments, again and again: the losses are as undisturbed.

TFOPT_KILLS says how often (2 if unset), TFOPT_KILL_SEED draws the moments.
"""

import os
import random
import time
from collections import Counter

import psutil
import pytest
from support.real_process import alive, descendants, make_project, started, wait_until
from support.small_workloads import STATEFUL

from tfopt_core.training.checkpoints.folder import names_in, newest_in, read_file

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("TFOPT_KILLS", "2"))
SEED = int(os.environ.get("TFOPT_KILL_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
# With more of them the training is longer, so that more fall into it and not into its start.
EPOCHS = 4 + KILLS // 2
# A step takes some 40 ms, so that most moments are moments of the training.
RECIPE = f"""
    name = "killed"
    [workload]
    factory = "small.py:build"
    epochs = {EPOCHS}
    batch_size = 8
    options = {{ pause = 0.04 }}
    [[plugins]]
    use = "prefetch"
"""


def command(folder):
    return ("train", "recipe.toml", "--resume", "--checkpoints", folder, "--seed", "5")


def to_the_end(project, folder):
    """Train, undisturbed from here on; the seconds that it took."""
    begin = time.monotonic()
    with started(*command(folder), cwd=project) as process:
        wait_until("the training's end", lambda: process.poll() is not None)
        assert process.returncode == 0, (project / "stderr.txt").read_text()
    return time.monotonic() - begin


def outcome(folder):
    newest = newest_in(folder)
    assert newest.start is not None
    assert newest.finished
    checkpoint = read_file(folder / newest.start)
    return checkpoint.values["history"], {k: v.tobytes() for k, v in checkpoint.arrays.items()}


def killed_after(project, folder, seconds, chance, *, within):
    """Start the training, kill it or its process after so long; in what it was interrupted.

    :param within: whether to count from the first checkpoint that it writes, not from its start.
    """
    before = newest_in(project / folder).start
    with started(*command(folder), cwd=project) as process:
        deadline = None if within else time.monotonic() + seconds
        while deadline is None or time.monotonic() < deadline:
            if deadline is None and names_in(project / folder)[:1] not in ([before], []):
                deadline = time.monotonic() + seconds
            if process.poll() is not None:
                assert process.returncode == 0, (project / "stderr.txt").read_text()
                return "after the end"
            time.sleep(0.002)
        family = [psutil.Process(process.pid), *descendants(process)]
        victim = chance.choice(family)
        victim.kill()
        process.kill()
        wait_until("all processes to be gone", lambda: not alive(family))
    newest = newest_in(project / folder)
    assert newest.damaged == ()
    if (project / folder / "writing.tmp").exists():
        return "within a write"
    return "at the start" if newest.start == before else "while training"


@pytest.mark.promise(
    1, injected="SIGKILL of a training, or of one of its processes, at random moments"
)
@pytest.mark.thorough
def test_losses_after_kills_are_those_of_an_undisturbed_training(tmp_path):
    project = make_project(tmp_path, RECIPE, small=STATEFUL)
    duration = to_the_end(project, "undisturbed")
    wanted = outcome(project / "undisturbed")
    assert len(wanted[0]["loss"]) == EPOCHS

    chance, counts, trainings = random.Random(SEED), Counter(), 1
    folder = "killed-1"
    for kill in range(KILLS):
        # in turn: any moment of the whole command, and any of the first second of its training
        within = kill % 2 == 1
        seconds = chance.uniform(0.0, 1.0 if within else duration)
        where = killed_after(project, folder, seconds, chance, within=within)
        counts[where] += 1
        if where == "after the end":
            assert outcome(project / folder) == wanted, f"seed {SEED}: {dict(counts)}"
            trainings += 1
            folder = f"killed-{trainings}"
    to_the_end(project, folder)
    assert outcome(project / folder) == wanted, f"seed {SEED}: {dict(counts)}"
    print(f"\nkills, seed {SEED}: {dict(counts)}, {trainings} trainings, all equal")
