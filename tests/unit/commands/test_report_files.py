"""Where `apply` puts its page, JSON, HTML and Markdown; `--require` as a gate of CI."""

import json
import sys

import pytest
from support.diagnosed import make_diagnosed
from support.in_process import tfopt_here
from support.report_results import make_comparison, make_results

from tfopt_core.diagnosis.draft import LeftOut, NothingToMeasure
from tfopt_core.hooks.diagnosis import Finding
from tfopt_core.statistics.results import Verdict


@pytest.fixture
def measured(monkeypatch):
    """Have `apply` measure nothing, and give these results."""

    def give(results):
        monkeypatch.setattr("tfopt_core.commands.apply.conduct", lambda *_: results)

    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    give(make_results())
    return give


def test_markdown_takes_the_place_of_the_page_on_standard_output(measured, tmp_path):
    done = tfopt_here("apply", "x.toml", "--markdown", "-", cwd=tmp_path)
    assert done.code == 0
    assert done.out.startswith("## fashion-fast on fashion-mnist\n")
    assert "Verdict" in done.err


def test_markdown_is_appended_to_the_summary_of_a_job(measured, tmp_path, monkeypatch):
    summary = tmp_path / "summary.md"
    summary.write_text("of another command\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    done = tfopt_here("apply", "x.toml", "--markdown", "-", "--json", "-", cwd=tmp_path)
    assert done.code == 0
    assert summary.read_text().startswith("of another command\n## fashion-fast")
    assert json.loads(done.out)["recipe"] == "fashion-fast"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "none" / "summary.md"))
    done = tfopt_here("apply", "x.toml", "--markdown", "-", cwd=tmp_path)
    assert done.code == 2
    assert "GITHUB_STEP_SUMMARY:" in done.err


@pytest.mark.parametrize(
    ("verdict", "code"), [(Verdict.FASTER, 0), (Verdict.INCONCLUSIVE, 1), (Verdict.SLOWER, 1)]
)
def test_a_gate_of_ci_writes_its_summary_and_fails_unless_faster(measured, tmp_path, verdict, code):
    measured(make_results(comparison=make_comparison(verdict=verdict)))
    done = tfopt_here(
        "apply", "x.toml", "--require", "faster", "--markdown", "gate.md", cwd=tmp_path
    )
    assert done.code == code
    assert ("--require faster is not met: " in done.err) is (code == 1)
    assert (tmp_path / "gate.md").read_text().startswith("## fashion-fast")


def test_a_script_with_nothing_to_gain_has_its_reports(measured, tmp_path):
    pytest.importorskip("jinja2", reason="the report extra is not installed")
    left_out = LeftOut("cache", "it saved | nothing <b>", None)
    finding = Finding(kind="tiny-batches", detail="", mend="batch first")
    measured(NothingToMeasure(
        script="train.py", bound="compute bounds a step", left_out=(left_out,),
        diagnosis=make_diagnosed(findings=(finding,)),
    ))  # fmt: skip
    options = ("--html", "r.html", "--markdown", "r.md", "--json", "r.json")
    done = tfopt_here("apply", "train.py", *options, cwd=tmp_path)
    assert done.code == 0, done.err
    html, markdown = (tmp_path / "r.html").read_text(), (tmp_path / "r.md").read_text()
    assert "compute bounds a step" in html
    assert "compute bounds a step" in markdown
    assert "it saved | nothing &lt;b&gt;" in html
    assert r"- cache: it saved \| nothing &lt;b>" in markdown
    assert "<h2>To change by hand</h2>" in html
    assert "### To change by hand\n\n- tiny batches" in markdown
    assert "batch first" in html
    assert json.loads((tmp_path / "r.json").read_text())["measured"] is False


def test_a_missing_jinja_is_found_before_measuring(measured, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    done = tfopt_here("apply", "x.toml", "--html", "r.html", cwd=tmp_path)
    assert done.code == 2
    assert "pip install 'tfopt[report]'" in done.err
    assert done.out == ""


@pytest.mark.parametrize("option", ["--html", "--markdown", "--json"])
def test_a_folder_that_is_not_there_is_found_before_measuring(option, tmp_path):
    pytest.importorskip("jinja2", reason="the report extra is not installed")
    done = tfopt_here("apply", "quickstart", option, "none/r", cwd=tmp_path)
    assert done.code == 2
    assert f'{option}: there is no folder "none"' in done.err
