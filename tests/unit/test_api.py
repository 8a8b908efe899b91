"""What a program sees: changes of a recipe as Python data, and results in a notebook or a table."""

import sys
from pathlib import Path
from types import MappingProxyType

import attrs
import numpy as np
import pytest
from support.report_results import make_results

from tfopt_core.api import NotebookResults, _as_texts
from tfopt_core.commands.output import to_json
from tfopt_core.errors import InputError
from tfopt_core.recipe.layers import parse_overrides
from tfopt_core.report.results.markdown import markdown_report
from tfopt_core.statistics.results import Results


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"classes": 5, "deep": {"a b": [1, "x=y"]}}, {"classes": 5, "deep": {"a b": [1, "x=y"]}}),
        ([{"a": 1}, {"b": 2.5}], [{"a": 1}, {"b": 2.5}]),
        (MappingProxyType({}), {}),
        (np.int64(3), 3), (np.float32(0.5), 0.5), (np.bool_(True), True),
        ({"rates": np.array([1, 2])}, {"rates": [1, 2]}),
        ((1, (2, 3)), [1, [2, 3]]),
        (Path("a/b"), "a/b"), ('two\nlines "quoted"', 'two\nlines "quoted"'), ("3", "3"),
        (True, True), (10**30, 10**30), ([], []), ("", ""),
    ],
)  # fmt: skip
def test_python_data_are_read_as_they_were_given(given, read):
    problems = []
    [override] = parse_overrides(_as_texts({"workload.options": given}), problems)
    value = override.root.plain()["workload"]["options"]
    assert (override.path, value) == (("workload", "options"), read)
    assert type(value) is type(read)
    assert not problems


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, "workload.options is a NoneType"),
        ({"depth": None}, "workload.options.depth is a NoneType"),
        ({"rates": [0.1, {1}]}, r"workload.options.rates\[1\] is a set"),
        ({"loss": print}, "workload.options.loss is a builtin_function_or_method"),
    ],
)
def test_what_a_recipe_cannot_hold_is_an_error_that_names_its_path(given, words):
    with pytest.raises(InputError, match=f"^overrides: {words}, which a recipe cannot hold"):
        _as_texts({"workload.options": given})


@pytest.mark.parametrize("given", ["measure.pairs=4", [("measure.pairs", 4)], 4])
def test_overrides_that_are_no_mapping_are_texts(given):
    with pytest.raises(InputError, match=r'overrides are .*\["measure.pairs=4"\]'):
        _as_texts(given)


def results():
    plain = make_results()
    return NotebookResults(**{f.name: getattr(plain, f.name) for f in attrs.fields(Results)})


def test_a_notebook_shows_the_report():
    pytest.importorskip("jinja2", reason="the report extra is not installed")
    shown = results()._repr_html_() or ""
    assert shown.startswith("<style>")
    assert "faster: 1.25x" in shown
    assert results()._repr_markdown_() == markdown_report(make_results())


def test_without_jinja_a_notebook_is_left_the_markdown(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert results()._repr_html_() is None


def test_they_are_the_results_that_json_writes():
    assert to_json(results()) == to_json(make_results())


def test_a_table_has_a_row_for_each_run():
    pytest.importorskip("pandas", reason="pandas is not installed")
    table = results().to_pandas()
    assert list(table.id) == [f"r{number}" for number in range(8)]
    ratio = table[table.variant == "baseline"].wall_seconds.mean()
    ratio /= table[table.variant == "full"].wall_seconds.mean()
    assert ratio == pytest.approx(1.25, abs=0.01)
    assert set(table["metrics.val_accuracy"]) == {0.9012}
    assert set(table[table.variant == "full"].step_seconds) == {0.00984}


def test_without_pandas_the_mend_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="pip install pandas"):
        results().to_pandas()
