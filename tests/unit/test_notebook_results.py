"""What `tfopt_core.apply` returns shows itself in a notebook, and as a table."""

import sys

import attrs
import pytest
from support.report_results import make_results

from tfopt_core.api import NotebookResults
from tfopt_core.commands.output import to_json
from tfopt_core.errors import InputError
from tfopt_core.report.results.markdown import markdown_report
from tfopt_core.statistics.results import Results


def results() -> NotebookResults:
    plain = make_results()
    return NotebookResults(**{f.name: getattr(plain, f.name) for f in attrs.fields(Results)})


def test_a_notebook_shows_the_report() -> None:
    pytest.importorskip("jinja2", reason="the report extra is not installed")
    shown = results()._repr_html_() or ""
    assert shown.startswith("<style>")
    assert "faster: 1.25x" in shown
    assert results()._repr_markdown_() == markdown_report(make_results())


def test_without_jinja_a_notebook_is_left_the_markdown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert results()._repr_html_() is None


def test_they_are_the_results_that_json_writes() -> None:
    assert to_json(results()) == to_json(make_results())


def test_a_table_has_a_row_for_each_run() -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    table = results().to_pandas()
    assert list(table.id) == [f"r{number}" for number in range(8)]
    ratio = table[table.variant == "baseline"].wall_seconds.mean()
    ratio /= table[table.variant == "full"].wall_seconds.mean()
    assert ratio == pytest.approx(1.25, abs=0.01)
    assert set(table["metrics.val_accuracy"]) == {0.9012}
    assert set(table[table.variant == "full"].step_seconds) == {0.00984}


def test_without_pandas_the_mend_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="pip install pandas"):
        results().to_pandas()
