"""What is printed of an addition to an exact stack, and of what a first look found."""

from __future__ import annotations

import json
from typing import Any

import attrs
from support.report_results import make_quality, make_results, show

from tfopt_core.commands.output import to_json
from tfopt_core.hooks.diagnosis import Finding
from tfopt_core.measurement.conclude import next_steps
from tfopt_core.records.results import Addition, Results
from tfopt_core.records.verdict import QualityVerdict, Verdict
from tfopt_core.report.html.charts import gains_of
from tfopt_core.report.html.page import html_page
from tfopt_core.report.results.markdown import markdown_report
from tfopt_core.report.results.pages import render_summary
from tfopt_core.store.decoding import read_results

STATEMENT = "low: faster with it on top of the stack: 1.40x (98% interval 1.35 to 1.45, 4 pairs)"
DIVERGES = "the stack rounds differently: over 100 replayed steps the loss diverges by up to 0.4%"


def make_addition(**changes: Any) -> Addition:
    addition = Addition(
        plugins=("low",), resolved={"cache": {}, "low": {}}, equivalence="rounding",
        variant="plus low", verdict=Verdict.FASTER, speedup=1.4, low=1.35, high=1.45,
        confidence=0.98, pairs=4,
        run_ids=("r1",), total=1.75, total_low=1.7, total_high=1.8, statement=STATEMENT,
        quality=make_quality(
            verdict=QualityVerdict.NOT_ESTABLISHED, certificate=DIVERGES,
            statement="quality not established by val_accuracy: no run trained to its end",
        ),
    )  # fmt: skip
    return attrs.evolve(addition, **changes)


def with_addition(**changes: Any) -> Results:
    return make_results(addition=make_addition(**changes))


def test_the_page_says_below_the_verdict_what_it_adds_and_what_is_known_of_its_quality():
    page = " ".join(show(render_summary(with_addition()), 100).split())
    verdict, title = page.index("faster: 1.25x"), page.index("With other rounding: low")
    assert verdict < title < page.index(STATEMENT) < page.index("quality not established by val")
    assert DIVERGES in page


def test_the_other_pages_say_the_same():
    results = with_addition()
    flowing = " ".join(markdown_report(results).split())
    assert "faster with it on top of the stack" in flowing
    assert "1.35 to 1.45" in markdown_report(results)
    html = html_page(results)
    assert "With other rounding: low" in html
    assert DIVERGES in html
    assert [(gain.label, gain.ratio) for gain in gains_of(results)] == [
        ("the whole stack", 1.25), ("low, on top of it", 1.4)
    ]  # fmt: skip


def test_its_json_reads_back(tmp_path):
    results = with_addition()
    file = tmp_path / "results.json"
    file.write_text(json.dumps(to_json(results)))
    assert read_results(file) == results


def test_results_of_an_older_version_have_none(tmp_path):
    data = to_json(make_results())
    del data["addition"]
    file = tmp_path / "results.json"
    file.write_text(json.dumps(data))
    assert read_results(file) == make_results()


def steps_after(**changes: Any) -> str:
    results = make_results()
    addition = make_addition(**changes)
    return " ".join(next_steps(results.runs, results.comparison, (), None, addition=addition))


def test_what_is_faster_may_be_taken_into_the_recipe_unless_its_model_is_worse():
    assert "to train with low too, take the # off" in steps_after()
    assert "was not established" in steps_after()
    assert "not established" not in steps_after(quality=make_quality())
    worse = make_quality(verdict=QualityVerdict.WORSE)
    assert "low" not in steps_after(quality=worse)
    assert "low" not in steps_after(verdict=Verdict.INCONCLUSIVE)


def test_every_page_and_the_json_say_what_a_first_look_found_to_change_by_hand(tmp_path):
    found = Finding(kind="sequential-map", detail="one by one", mend="AUTOTUNE", place="train.py:3")
    results = make_results(findings=(found,))
    for page in (show(render_summary(results), 100), markdown_report(results), html_page(results)):
        said = " ".join(page.replace("\\", "").split())
        assert said.index("To change by hand") < said.index("sequential map: one by one")
    (tmp_path / "results.json").write_text(json.dumps(to_json(results)))
    assert read_results(tmp_path / "results.json").findings == (found,)
