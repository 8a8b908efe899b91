"""`tfopt tune` with real trainings: found, proved, written, resumed after a kill."""

import json
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import attrs
import pytest
from support.real_process import (
    TIME_LIMIT_SECONDS,
    Done,
    alive,
    descendants,
    make_distribution,
    make_project,
    started,
    tfopt,
    wait_until,
)

from tfopt_core.tuning.search_log import LOG_FILE

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

# A step is mostly a slow map, which a cache of the results makes needless.
SLOW_MAP = """
    import time
    import keras
    import numpy as np
    import tensorflow as tf
    from tfopt_core import DataPlan, Workload

    def slow(x, y):
        # the same value, after work that nothing can leave out
        z = tf.linalg.matmul(tf.ones((100, 100)) * x[0], tf.ones((100, 100)))
        for _ in range(6):
            z = tf.linalg.matmul(z, z) / 1e6
        return x + 0.0 * tf.reduce_sum(tf.clip_by_value(z, -1.0, 1.0)), y

    def build():
        x = np.arange(1024, dtype="float32").reshape(512, 2) / 1024
        def build_model():
            return keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
        return Workload(
            train=DataPlan.from_arrays(x, x[:, :1]).map(slow), validation=(x[:64], x[:64, :1]),
            build_model=build_model, optimizer="sgd", loss="mse", baseline="a slow map",
        )
"""
RECIPE = """
    name = "slow-map"
    [workload]
    factory = "slow_map.py:build"
    epochs = 6
    batch_size = 32
    [measure]
    pairs = 4
    [tune]
    budget = "6m"
"""
# What is tried, so that a search is short.
TRIED = ("--plugin", "cache", "--plugin", "materialize", "--plugin", "breaks")
# A plugin of a third party that targets input, and breaks in its hook.
BREAKS = """
    import attrs
    from typing import ClassVar
    from tfopt_core.plugins import Plugin, hookimpl

    @attrs.frozen(kw_only=True, eq=False)
    class Breaks(Plugin):
        \"\"\"Breaks.\"\"\"

        targets: ClassVar[tuple[str, ...]] = ("input",)

        @hookimpl
        def build_dataset(self, run):
            raise RuntimeError("it broke on purpose")
"""


SEARCH = ("tune", "recipe.toml", *TRIED)


def trials(folder: Path) -> list[dict]:
    """The trials in the log of a project's searches."""
    path = folder / ".tfopt" / "tune" / LOG_FILE
    if not path.exists():
        return []
    with closing(sqlite3.connect(path)) as log:
        if not log.execute("SELECT 1 FROM sqlite_master WHERE name = 'entry'").fetchall():
            return []  # the file is a moment older than its table
        rows = log.execute(
            "SELECT key, data FROM entry WHERE kind = 'trial' ORDER BY rowid"
        ).fetchall()
    return [{"key": key, **json.loads(data)} for key, data in rows]


def plugins_of(made: list[dict]) -> list[str]:
    return [one["plugin"] for one in made]


@attrs.frozen
class Place:
    """A project, with distributions beside it; what is tried is named, so that diagnoses decide
    nothing."""

    folder: Path
    site: Path

    def searched(self, file: str, *words: str) -> tuple[dict, Done]:
        """The results of a search that ends well."""
        done = tfopt(*SEARCH, "--json", file, *words, cwd=self.folder, site=self.site)
        assert done.code == 0, done.err
        return json.loads((self.folder / file).read_text()), done

    def stopped(self, number: signal.Signals, *words: str) -> int:
        """The status of a search that a signal ends after its next trial, with its processes."""
        before = len(trials(self.folder))
        with started(*SEARCH, *words, cwd=self.folder, site=self.site) as process:
            wait_until("a trial", lambda: len(trials(self.folder)) > before)
            begun = descendants(process)
            process.send_signal(number)
            status = process.wait(TIME_LIMIT_SECONDS)
            wait_until("the end of its processes", lambda: not alive(begun))
        return status


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = make_project(tmp_path_factory.mktemp("p"), RECIPE, slow_map=SLOW_MAP)
    site = make_distribution(
        tmp_path_factory.mktemp("site"), "breaking", {"breaks": "breaking:Breaks"}, breaking=BREAKS
    )
    return Place(folder, site)


@pytest.fixture(scope="module")
def interrupted(place):
    """What a search has written that Ctrl-C ended, and what its log held then."""
    assert place.stopped(signal.SIGINT, "--json", "interrupted.json") == 130
    found = json.loads((place.folder / "interrupted.json").read_text())
    return found, trials(place.folder), (place.folder / "stdout.txt").read_text()


@pytest.fixture(scope="module")
def found(place, interrupted):
    """The same search, gone on with and killed, then gone on with to its end."""
    assert place.stopped(signal.SIGKILL, "--resume") == -signal.SIGKILL
    before = trials(place.folder)
    found, _ = place.searched("found.json", "--resume")
    assert found["resumed"] == 2
    assert plugins_of(found["trials"])[: len(before)] == plugins_of(before)
    return found


@pytest.mark.promise(7, injected="SIGINT of `tfopt tune` after its first trial")
def test_ctrl_c_keeps_the_best_so_far_and_says_how_to_go_on(interrupted):
    results, logged, printed = interrupted
    assert results["interrupted"]
    assert plugins_of(results["trials"]) == plugins_of(logged)
    assert "--resume" in printed


@pytest.mark.promise(51, injected="SIGKILL of `tfopt tune` in the trial after its first")
def test_a_killed_search_leaves_no_process_and_resumes_with_its_trials(place, found):
    keys = [one["key"] for one in trials(place.folder)]
    assert len(keys) == len(set(keys)) == len(found["trials"])
    refused = tfopt(*SEARCH, "--resume", cwd=place.folder, site=place.site)
    assert refused.code == 2
    assert "nothing to resume" in refused.err


def test_a_search_finds_what_helps_proves_it_and_a_second_one_begins_there(place, found):
    folder = place.folder
    [broken] = [one for one in found["trials"] if one["plugin"] == "breaks"]
    assert broken["outcome"] == "failed"
    assert "it broke on purpose" in broken["reason"]
    # each installed plugin is in the trials, or named with a reason
    named = plugins_of([*found["trials"], *found["not_tried"]])
    assert {"cache", "materialize", "breaks", "xla", "tpu"} <= set(named)
    assert all(one["reason"] for one in found["not_tried"])
    # how fast this machine is decides what is found; that it is proved, written and read back, not
    assert bool(found["stack"]) is (found["proof"] is not None)
    assert bool(found["written"]) is not bool(found["why_not_written"])
    if found["written"]:
        check_proof_and_recipe(folder, found)

    second, again = place.searched("again.json")
    assert second["begun_from"] == [found["id"]]
    assert f"trials of {found['id']}" in " ".join(again.out.split())
    assert plugins_of([one for one in second["trials"] if not one["kept_from"]]) == ["breaks"]
    assert [one["name"] for one in second["stack"]] == [one["name"] for one in found["stack"]]
    if found["proof"] is not None:
        assert second["proof"]["id"] != found["proof"]["id"]


def check_proof_and_recipe(folder: Path, found: dict) -> None:
    """The proof is a measurement as any other, and the recipe that it is about reads back."""
    proof, stack = found["proof"], [one["name"] for one in found["stack"]]
    assert proof["id"] in tfopt("runs", cwd=folder).out
    assert proof["id"] in (folder / found["written"]).read_text()
    planned = tfopt("plan", found["written"], "--json", "plan.json", cwd=folder)
    assert planned.code == 0, planned.err
    plan = json.loads((folder / "plan.json").read_text())
    assert [one["name"] for one in plan["plan"]["plugins"]] == stack
