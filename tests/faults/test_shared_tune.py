"""Two `tfopt tune` on one storage: they share its trials, and one of them is killed."""

from __future__ import annotations

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
    epochs = 6
    batch_size = 32
    [workload.options]
    rate = 1e-6
    [tune]
    objective = "quality"
    budget = "10m"
    sampler = "random"
    pruner = "none"
    trials = 5
    [tune.options]
    rate = { low = 1e-6, high = 0.5, log = true }
"""
SEARCH = ("tune", "recipe.toml", "--storage", "../shared.log", "--json", "found.json")


def trials_in(log):
    """The trials of the search in the storage, without those that a process has withdrawn."""
    if not log.exists():
        return []
    backend = optuna.storages.journal.JournalFileBackend(str(log))
    storage = optuna.storages.JournalStorage(backend)
    return [
        one
        for study in optuna.get_all_study_names(storage)
        for one in optuna.load_study(study_name=study, storage=storage).get_trials()
        if one.user_attrs.get("tfopt:claim", {}).get("kind") == "made"
    ]


def running(log, search):
    return [
        one for one in trials_in(log)
        if one.state.name == "RUNNING" and one.user_attrs["tfopt:claim"]["search"] == search
    ]  # fmt: skip


def search_of(folder):
    """The id of the search in a project, "" before it has begun."""
    return next((one.parent.name for one in folder.glob(".tfopt/tune/*/journal.jsonl")), "")


def in_words(trials):
    return sorted(json.dumps(one["values"], sort_keys=True) for one in trials if one["values"])


@pytest.mark.promise(
    53, injected="SIGKILL of one of two real `tfopt tune` on a journal file, in a trial"
)
def test_the_other_one_frees_the_trial_of_one_that_is_killed_and_both_end_with_all(tmp_path):
    one, other = (
        make_project(tmp_path / name, textwrap.dedent(RECIPE), blobs=BLOBS) for name in "ab"
    )
    log = tmp_path / "shared.log"
    with contextlib.ExitStack() as stack:
        killed, going = (
            stack.enter_context(started(*SEARCH, cwd=folder, before=HASTY))
            for folder in (one, other)
        )
        wait_until("the other search", lambda: search_of(other), seconds=240)
        wait_until("a trial to kill", lambda: running(log, search_of(one)), seconds=240)
        begun = descendants(killed)
        signal_once(killed, signal.SIGKILL)
        killed.wait()
        assert going.wait(timeout=540) == 0
    wait_until("the end of its processes", lambda: not alive(begun))
    found = json.loads((other / "found.json").read_text())
    shared = found["settings"]["shared"]
    assert (shared["freed"], shared["under_way"]) == (1, {})
    assert sum(shared["made"].values()) == 5
    of_others = [trial for trial in found["settings"]["trials"] if trial["machine"]]
    assert {trial["machine"] for trial in of_others} <= {f"this machine ({search_of(one)})"}
    # the killed one goes on, finds all trials made, and proves the best of them by pairs of its own
    done = tfopt(*SEARCH, "--resume", cwd=one, before=HASTY)
    assert done.code == 0, done.err
    resumed = json.loads((one / "found.json").read_text())
    assert resumed["resumed"] == 1
    assert in_words(resumed["settings"]["trials"]) == in_words(found["settings"]["trials"])
    assert len(in_words(found["settings"]["trials"])) == 5
    assert [trial.state.is_finished() for trial in trials_in(log)] == [True] * 5
    assert bool(resumed["settings"]["best"]) is (resumed["settings"]["proof"] is not None)
