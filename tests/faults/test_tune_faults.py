"""`tfopt tune`: no memory for a trial, a damaged log, and one of two searches that is killed."""

import contextlib
import json
import signal

import pytest
from support.memory_group import GREEDY
from support.real_process import (
    alive,
    descendants,
    make_distribution,
    make_project,
    started,
    tfopt,
    tiny_project,
    wait_until,
)
from support.small_workloads import BLOBS

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

SEARCH = ("tune", "recipe.toml", "--plugin", "greedy", "--plugin", "prefetch", "--budget", "20m")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A project, and a folder with a plugin that takes more memory than there is."""
    site = make_distribution(
        tmp_path_factory.mktemp("site"), "greedy", {"greedy": "greedy_module:Greedy"},
        greedy_module=GREEDY,
    )  # fmt: skip
    return tiny_project(tmp_path_factory.mktemp("project")), site


@pytest.fixture(scope="module")
def found(place):
    return search(*place)


def search(project, site):
    """The results of a search."""
    done = tfopt(*SEARCH, "--json", "found.json", cwd=project, site=site)
    assert done.code == 0, done.err
    assert "Traceback" not in done.out + done.err
    return json.loads((project / "found.json").read_text())


def trial_of(found, plugin):
    return next(one for one in found["trials"] if one["plugin"] == plugin)


@pytest.mark.promise(52, injected="a tensor in a trial that TensorFlow's allocator has no room for")
def test_memory_that_runs_out_in_a_trial_ends_that_trial_and_others_are_made(found):
    assert trial_of(found, "greedy")["outcome"] == "out of memory"
    assert "greedy" not in [one["name"] for one in found["stack"]]
    assert trial_of(found, "prefetch")["outcome"] not in ("out of memory", "failed")


# Two on one storage share its trials

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
SHARED = (
    "tune", "recipe.toml", "--plugin", "profile", "--storage", "sqlite:///../shared.db", "--json",
    "found.json",
)  # fmt: skip


def trials_in(database):
    """The trials of the search in the storage."""
    if not database.exists():
        return []
    import optuna

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
    pytest.importorskip("optuna", reason="the tune extra is not installed")
    one, other = (make_project(tmp_path / name, RECIPE, blobs=BLOBS) for name in "ab")
    database = tmp_path / "shared.db"
    with contextlib.ExitStack() as stack:
        killed, going = (
            stack.enter_context(started(*SHARED, cwd=folder)) for folder in (one, other)
        )
        wait_until("the other search", lambda: search_of(other), seconds=240)
        wait_until("a trial to kill", lambda: running(database, search_of(one)), seconds=240)
        begun = descendants(killed)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert going.wait(timeout=540) == 0
    wait_until("the end of its processes", lambda: not alive(begun))
    found = json.loads((other / "found.json").read_text())
    shared = found["settings"]["shared"]
    # the killed trial is noticed after two minutes: the other may have ended before
    assert sum(shared["made"].values()) + shared["under_way"] == 5
    # the killed one goes on, and proves the best of all trials by pairs of its own
    done = tfopt(*SHARED, "--resume", cwd=one)
    assert done.code == 0, done.err
    resumed = json.loads((one / "found.json").read_text())
    assert resumed["resumed"] == 1
    assert set(in_words(found["settings"]["trials"])) <= set(
        in_words(resumed["settings"]["trials"])
    )
    assert not resumed["settings"]["best"] or resumed["proof"] is not None
    if resumed["settings"]["best"]:  # how fast this machine is decides it
        assert "in place of 0.02" in (one / resumed["written"]).read_text()
        planned = tfopt("plan", resumed["written"], cwd=one)
        assert planned.code == 0, planned.err
