"""Two `tfopt tune` on one storage: they share its trials, and one of them is killed."""

import contextlib
import json
import signal
import textwrap

import pytest
from support.forked_command import HASTY
from support.real_process import (
    alive,
    descendants,
    make_project,
    signal_once,
    started,
    tfopt,
    wait_until,
)
from support.small_workloads import BLOBS

optuna = pytest.importorskip("optuna", reason="the tune extra is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.thorough]

RECIPE = """
    name = "blobs"
    [workload]
    factory = "blobs.py:build"
    epochs = 12
    batch_size = 32
    [workload.options]
    rate = 0.02
    units = 16
    [measure]
    target = { metric = "val_loss", at_most = 1.35 }
    [tune]
    objective = "time-to-target"
    budget = "10m"
    sampler = "random"
    pruner = "none"
    trials = 5
    [tune.options]
    rate = { low = 0.01, high = 0.5, log = true }
"""
SEARCH = (
    "tune", "recipe.toml", "--plugin", "profile", "--storage", "sqlite:///../shared.db", "--json",
    "found.json",
)  # fmt: skip


def trials_in(database):
    """The trials of the search in the storage."""
    if not database.exists():
        return []
    storage = f"sqlite:///{database}"
    with contextlib.suppress(Exception):  # its tables are being made
        return [
            one
            for study in optuna.get_all_study_names(storage)
            for one in optuna.load_study(study_name=study, storage=storage).get_trials()
        ]
    return []


def running(database, search):
    """Whether a search has a trial under way, as one that its process notes every minute."""
    return [
        one for one in trials_in(database)
        if one.state.name == "RUNNING" and one.user_attrs.get("tfopt:search") == search
    ]  # fmt: skip


def search_of(folder):
    """The id of the search in a project, "" before it has begun."""
    return next((one.name for one in folder.glob(".tfopt/tune/*/") if one.is_dir()), "")


def in_words(trials):
    return sorted(json.dumps(one["values"], sort_keys=True) for one in trials if one["values"])


@pytest.mark.promise(
    53, injected="SIGKILL of one of two real `tfopt tune` on a SQLite file, in a trial"
)
def test_the_other_one_goes_on_and_the_killed_one_resumes_with_all_trials(tmp_path):
    one, other = (
        make_project(tmp_path / name, textwrap.dedent(RECIPE), blobs=BLOBS) for name in "ab"
    )
    database = tmp_path / "shared.db"
    with contextlib.ExitStack() as stack:
        killed, going = (
            stack.enter_context(started(*SEARCH, cwd=folder, before=HASTY))
            for folder in (one, other)
        )
        wait_until("the other search", lambda: search_of(other), seconds=240)
        wait_until("a trial to kill", lambda: running(database, search_of(one)), seconds=240)
        begun = descendants(killed)
        signal_once(killed, signal.SIGKILL)
        killed.wait()
        assert going.wait(timeout=540) == 0
    wait_until("the end of its processes", lambda: not alive(begun))
    found = json.loads((other / "found.json").read_text())
    shared = found["settings"]["shared"]
    # the killed trial is noticed after two minutes: the other may have ended before
    assert sum(shared["made"].values()) + shared["under_way"] == 5
    # the killed one goes on, and proves the best of all trials by pairs of its own
    done = tfopt(*SEARCH, "--resume", cwd=one, before=HASTY)
    assert done.code == 0, done.err
    resumed = json.loads((one / "found.json").read_text())
    assert resumed["resumed"] == 1
    assert set(in_words(found["settings"]["trials"])) <= set(
        in_words(resumed["settings"]["trials"])
    )
    assert not resumed["settings"]["best"] or resumed["proof"] is not None
