"""`tfopt runs`, `report` and `compare` on a store that the test wrote: nothing is trained."""

import json
from pathlib import Path

import pytest
from support.in_process import tfopt_here as tfopt
from support.real_process import Done
from support.stored_measurements import FIRST, FIRST_RESULTS, SECOND, SECOND_RESULTS, keep, make_run

from tfopt_core.commands.output import write_json
from tfopt_core.store.database import Store, store_path

BEGUN = "20261121-110000-bb03"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with two finished measurements and one that was only begun."""
    folder = tmp_path_factory.mktemp("measured")
    with Store(store_path(folder)) as store:
        for results in (SECOND_RESULTS, FIRST_RESULTS):
            keep(store, results)
        store.begin(BEGUN, "2026-11-21T11:00:00+00:00", "begun", "ab", {"recipe": {}})
        store.add_run(BEGUN, make_run(BEGUN, "baseline", 0, 10.0))
    return folder


def flowing(done: Done) -> str:
    assert done.code == 0, done.err
    assert max(map(len, done.out.splitlines())) <= 80
    assert "\x1b" not in done.out
    return " ".join(done.out.split())


# runs


def test_runs_lists_every_measurement_the_newest_last(project):
    done = tfopt("runs", cwd=project)
    text = flowing(done)
    assert [text.index(id_) for id_ in (FIRST, SECOND, BEGUN)] == sorted(
        text.index(id_) for id_ in (FIRST, SECOND, BEGUN)
    )
    assert f"{SECOND} in-memory faster 4 pairs finished" in text
    assert "flights 1.50x (1.49 to 1.51) 8 runs" in text
    assert f"{BEGUN} begun - 0 pairs unfinished" in text


def test_runs_answers_from_a_folder_below_and_from_elsewhere(project, tmp_path):
    below = project / "src" / "models"
    below.mkdir(parents=True)
    assert tfopt("runs", cwd=below).out == tfopt("runs", "--project", project, cwd=tmp_path).out


def test_runs_creates_nothing_where_nothing_was_measured(tmp_path):
    (tmp_path / "setup.py").touch()
    done = tfopt("runs", cwd=tmp_path)
    place = tmp_path / ".tfopt" / "runs.sqlite"
    assert done.code == 0
    said = "nothing was measured yet: there is no measurement in"
    assert "".join(done.out.split()) == f'{said} "{place}"'.replace(" ", "")
    assert [path.name for path in tmp_path.iterdir()] == ["setup.py"]


def test_runs_writes_json(project):
    done = tfopt("runs", "--json", "-", cwd=project)
    data = json.loads(done.out)
    assert [entry["id"] for entry in data["measurements"]] == [FIRST, SECOND, BEGUN]
    assert data["measurements"][0]["speedup"] == 1.25
    assert data["measurements"][2]["state"] == "unfinished"
    assert FIRST in done.err


# report


@pytest.mark.parametrize("asked", [SECOND, "bb02", "20261121-10"])
def test_report_prints_the_page_again_by_any_unambiguous_part_of_the_id(project, asked):
    text = flowing(tfopt("report", asked, cwd=project))
    assert "in-memory on flights" in text
    assert "faster: 1.50x" in text
    assert f"all samples kept as {SECOND}" in text


def test_report_last_of_an_unfinished_measurement_lists_its_runs(project):
    text = flowing(tfopt("report", "last", cwd=project))
    assert f"id {BEGUN}" in text
    assert "baseline pair 1 10.0 s" in text
    assert "unfinished: begun and never concluded" in text
    assert "so there is no verdict" in text


def test_report_writes_the_json_that_apply_wrote(project, tmp_path):
    write_json(FIRST_RESULTS, tmp_path / "apply.json")
    done = tfopt("report", "aa01", "--json", tmp_path / "report.json", cwd=project)
    assert done.code == 0, done.err
    assert (tmp_path / "report.json").read_text() == (tmp_path / "apply.json").read_text()


def test_report_writes_a_page_and_markdown(project, tmp_path):
    pytest.importorskip("jinja2", reason="the report extra is not installed")
    files = ("--html", tmp_path / "r.html", "--markdown", tmp_path / "r.md")
    done = tfopt("report", SECOND, *files, cwd=project)
    assert done.code == 0, done.err
    assert "faster: 1.50x" in done.out
    assert "<h1>in-memory" in (tmp_path / "r.html").read_text()
    assert (tmp_path / "r.md").read_text().startswith("## in-memory on flights\n")


# compare


def test_compare_sets_two_stacks_side_by_side(project):
    text = flowing(tfopt("compare", "aa01", SECOND, cwd=project))
    assert f"A {FIRST} faster: 1.25x B {SECOND} faster: 1.50x" in text
    assert "B's stack is faster than A's: 1.20x (95% interval" in text
    assert "4 and 4 pairs, each against its own baseline)" in text


def test_compare_takes_json_files_and_writes_json(project, tmp_path):
    write_json(SECOND_RESULTS, tmp_path / "b.json")
    done = tfopt("compare", FIRST, tmp_path / "b.json", "--json", "-", cwd=project)
    assert done.code == 0, done.err
    data = json.loads(done.out)
    assert (data["ids"], data["verdict"]) == ([FIRST, SECOND], "faster")
    assert data["low"] < data["speedup"] < data["high"]
    assert "B's stack is faster" in " ".join(done.err.split())


# What none of them can do

ID = "20261121-100000-bb22"  # of no measurement


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["runs", "--project", "nowhere"], "nowhere"),
        (["report", "last", "--markdown", "r.md"], "unfinished, so there is nothing to report yet"),
        (["report", SECOND, "--json", "-", "--markdown", "-"],
         "are both standard output; write one of"),
        (["report", SECOND, "--html", "none/r.html"], "there is no folder"),
        (["report", "20261121"],
         f'"20261121" matches 2 measurements: {SECOND}, {BEGUN}; give more of the id'),
        (["report", ""], f'no measurement is named ""; the latest are: {FIRST}, {SECOND}, {BEGUN}'),
        (["report", ID], f'did you mean "{SECOND}"?'),
        (["compare", FIRST, BEGUN], f'"{BEGUN}" is unfinished, so there is no verdict to compare'),
        (["compare", FIRST, FIRST], "it is the same measurement twice"),
        (["compare", FIRST, "zzz"], 'no measurement is named "zzz"'),
        (["compare", FIRST, "absent.json"],
         '"absent.json" cannot be read: No such file or directory'),
    ],
)  # fmt: skip
def test_what_cannot_be_listed_reported_or_compared_says_why(project, words, said):
    done = tfopt(*words, cwd=project)
    assert done.code == 2
    assert said in done.err
