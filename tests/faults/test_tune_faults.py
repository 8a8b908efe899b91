"""`tfopt tune`: memory runs out in a trial, and the log is damaged between two searches."""

import json

import pytest
from support.forked_command import HASTY
from support.memory_group import GREEDY
from support.real_process import make_distribution, tfopt, tiny_project

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
    done = tfopt(*SEARCH, "--json", "found.json", cwd=project, site=site, before=HASTY)
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


@pytest.mark.promise(41, injected="the file of earlier searches is overwritten")
def test_a_damaged_log_of_searches_is_named_and_ends_the_next_one(place, found):
    project, site = place
    (project / ".tfopt" / "tune" / "searches.sqlite").write_bytes(b"no database at all, " * 400)
    done = tfopt(*SEARCH, cwd=project, site=site, before=HASTY)
    assert done.code == 3
    assert 'searches.sqlite" is damaged' in done.err
    assert "Traceback" not in done.err
