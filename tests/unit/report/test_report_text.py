"""Text on the console, in Markdown and in JSON: names that try to steer it stay text, and numbers
read as a person says them."""

import contextlib
import html
import io
import json
import math
import os
import re
import stat
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.color import Color
from support.cases import few_examples
from support.hostile_results import hostile_results
from support.report_results import (
    Terminal,
    make_attribution,
    make_comparison,
    make_fit,
    make_results,
    make_run,
    show,
)

from tfopt_core.commands.output import to_json, write_json
from tfopt_core.report.results.markdown import escaped, markdown_report
from tfopt_core.report.results.pages import render_summary
from tfopt_core.report.style import units
from tfopt_core.report.style.console import PALETTE, TRACK, make_console, plain, plain_lines
from tfopt_core.report.style.layout import Page, words
from tfopt_core.statistics.results import FigureRatio


def printed(stream, environ):
    make_console(width=80, file=stream, environ=environ).print(render_summary(make_results()))
    return stream.getvalue()


@pytest.mark.parametrize("color", [*PALETTE.values(), TRACK])
def test_a_colour_can_be_read_on_white_and_on_black(color):
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in Color.parse(color).get_truecolor().normalized
    )
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue  # contrast as WCAG 2 defines it
    assert 1.05 / (luminance + 0.05) > 3.4
    assert (luminance + 0.05) / 0.05 > 3.4


@pytest.mark.parametrize("name", PALETTE)
def test_no_colour_is_left_to_the_terminals_theme(name):
    # not printed: rich keeps the codes of a style for the first kind of terminal in the process
    console = make_console(file=Terminal(), environ={"TERM": "xterm-256color"})
    assert console.get_style(name).color == Color.parse(PALETTE[name])
    assert console.get_style(f"bold {name}").color == Color.parse(PALETTE[name])
    assert console.get_style(f"bold {name}").bold


@pytest.mark.parametrize(
    "environ", [{"TERM": "xterm", "NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": "unknown"}]
)
def test_only_a_terminal_with_colour_gets_escapes(environ):
    assert "\x1b[" in printed(Terminal(), {"TERM": "xterm-256color"})
    assert "\x1b" not in printed(Terminal(), environ)
    assert "\x1b" not in printed(io.StringIO(), {"TERM": "xterm-256color"})


@pytest.mark.parametrize(
    ("columns", "width"), [(None, 80), ("120", 120), ("", 80), ("0", 80), ("-5", 80), ("wide", 80)]
)
def test_piped_output_is_as_wide_as_columns_says_else_80(columns, width):
    environ = {} if columns is None else {"COLUMNS": columns}
    assert make_console(file=io.StringIO(), environ=environ).width == width


@given(st.text())
def test_plain_text_steers_no_terminal(text):
    shown = plain(text)
    assert not set(shown) & {chr(code) for code in (*range(32), *range(0x7F, 0xA0))}
    assert shown.encode("utf-8").decode("utf-8") == shown


@given(st.text(st.characters(categories=["L", "N", "P", "S"])))
def test_ordinary_text_stays_as_it_is(text):
    assert plain(text) == text


def test_control_characters_are_shown():
    assert plain("a\x1b[31mb\x00\n\u202e\ud800") == "a\\x1b[31mb\\x00\\n\\u202e\\ud800"


def test_lines_stay_lines():
    assert plain_lines("one\r\n\ttwo \x07\n") == ("one", "    two \\x07")


@pytest.mark.promise(32, injected="markup, emoji codes and escape sequences as names")
def test_hostile_names_are_inert_everywhere_in_the_summary():
    for name in ("[/red]", "[bold]x", ":smile:", "\x1b[31mred", "a\nb"):
        assert show(Page((words(name),))) == plain(name) + "\n"
    name = "[/red]\x1b[31m"
    hostile = make_results(
        recipe=name, workload=name, baseline=name, target=name, warnings=(name,),
        next_steps=(name,), saved_model=name, id=name, resolved={name: {name: name}},
        machine={"cpu_model": name, "gpus": [{"name": name}]}, environment={"tensorflow": name},
        comparison=make_comparison(statement=name),
    )  # fmt: skip
    stream = Terminal()
    make_console(width=80, file=stream, environ={"TERM": "xterm"}).print(render_summary(hostile))
    assert "\x1b[31m" not in stream.getvalue()
    assert stream.getvalue().count("[/red]") >= 12


PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
SIGNS = st.text(st.sampled_from("ab1 `*_{}[]()#+-.!|~:@<>&\\$='\"/\n"), max_size=30)


def test_verdict_table_and_attribution_are_there():
    text = markdown_report(
        make_results(
            attribution=(make_attribution("cache", 1.2, "1.20x (1.19 to 1.21)"),),
            ratios=(FigureRatio(figure="wall_seconds", ratio=1.25, low=1.2, high=1.3, pairs=4),),
        )
    )
    assert text.startswith("## fashion-fast on fashion-mnist\n")
    assert "**faster: 1.25x (98% interval 1.24 to 1.26, 4 pairs)**" in text
    assert re.search(
        r"^\| wall time \| .+ \| .+ \| 1\.25x \| 1\.20x to 1\.30x \|$", text, re.MULTILINE
    )
    assert "| cache | 1.20x (1.19 to 1.21) |" in text
    assert "quality not worse: val_accuracy 0.9012 -> 0.9015" in text


@given(SIGNS)
def test_escaped_text_reads_as_it_is(text):
    shown = PARSER.render(escaped(text))
    inner = shown.removeprefix("<p>").removesuffix("\n").removesuffix("</p>")
    assert not re.search(r"<(?!/?p>)", inner)
    assert html.unescape(inner) == plain(text).strip()


@given(st.text(max_size=30) | SIGNS)
@example(">0")
@few_examples(thorough=60, deadline=None)
def test_hostile_names_make_no_markup(text):
    hostile = f"{text}<b onclick=x>[a](http://b)|c|{text}"
    shown = PARSER.render(markdown_report(hostile_results(hostile)))
    elements = set(re.findall(r"<(\w+)", shown))
    assert elements <= {
        "h2", "h3", "p", "strong", "ul", "li", "table", "thead", "tbody", "tr", "th", "td",
    }  # fmt: skip
    columns = [row.count("<td") for row in re.findall(r"<tr>(.*?)</tr>", shown, re.DOTALL)]
    assert set(columns) <= {0, 2, 3, 5}


def test_numbers_that_json_does_not_know_become_null():
    metrics = {"loss": math.nan, "val_loss": -math.inf}
    results = make_results(runs=(make_run(0, fits=(make_fit(metrics=metrics),)),))
    assert to_json(results)["runs"][0]["fits"][0]["metrics"] == {"loss": None, "val_loss": None}


def test_foreign_values_of_settings_become_plain():
    settings = {"path": Path("a/b"), "set": {2, 1}, "f": np.float32(0.5), "i": np.int64(3)}
    assert to_json(make_results(resolved={"p": settings}))["resolved"]["p"] == {
        "path": "a/b", "set": [1, 2], "f": 0.5, "i": 3,
    }  # fmt: skip


@given(st.dictionaries(st.text(), st.floats() | st.text() | st.integers() | st.booleans()))
def test_anything_can_be_written_and_read_again(settings):
    stream = io.StringIO()
    results = make_results(resolved={"p": settings})
    with contextlib.redirect_stdout(stream):
        write_json(results, Path("-"))
    assert json.loads(stream.getvalue()) == to_json(results)


def test_the_file_has_the_permissions_of_the_umask(tmp_path):
    mask = os.umask(0o027)
    try:
        write_json(make_results(), tmp_path / "results.json")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "results.json").stat().st_mode) == 0o640


def test_what_is_no_regular_file_is_written_to_and_never_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_json(make_results(runs=()), pipe)
        assert json.loads(os.read(reader, 2**16))
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


SCALES = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
SIZES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}


def seconds_again(text):
    parts = text.replace(",", "").split()
    return sum(float(n) * SCALES[unit] for n, unit in zip(parts[::2], parts[1::2], strict=True))


def bytes_again(text):
    amount, unit = text.replace(",", "").split()
    return float(amount) * SIZES[unit]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0123, "12.3 ms"), (83, "1 min 23 s"), (0.00053, "530 µs"), (0, "0 s"), (1, "1.00 s"),
        (0.9996, "1.00 s"), (59.97, "1 min"), (3599.7, "1 h"), (7500, "2 h 5 min"),
        (-0.5, "-500 ms"), (1e-12, "<1 ns"), (math.nan, "n/a"), (math.inf, "n/a"),
    ],
)  # fmt: skip
def test_seconds_read_as_a_person_says_them(value, text):
    assert units.seconds_text(value) == text


@given(st.floats(min_value=1e-9, max_value=1e7))
def test_seconds_keep_the_value_within_a_hundredth(value):
    assert seconds_again(units.seconds_text(value)) == pytest.approx(value, rel=0.01)


@given(st.integers(min_value=0, max_value=2**55))
def test_bytes_keep_the_value_within_a_hundredth(count):
    assert bytes_again(units.bytes_text(count)) == pytest.approx(count, rel=0.01)


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.25, "1.25x"), (0.8, "0.80x"), (0.0071, "0.0071x"), (120.4, "120x"), (99.999, "100x")],
)
def test_ratios_show_what_matters(value, text):
    assert units.ratio_text(value) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.12, "+12%"), (-0.08, "-8%"), (0.001, "0%"), (-0.001, "0%"), (12.5, "+1,250%")],
)
def test_percentages_are_signed(share, text):
    assert units.percent_text(share) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.90123, "0.9012"), (12.3456, "12.35"), (0, "0"), (1.234e-7, "1.234e-07"),
     (9.99996, "10.00"), (123456.7, "123,457"), (math.nan, "nan"), (-math.inf, "-inf")],
)  # fmt: skip
def test_metrics_have_four_significant_digits(value, text):
    assert units.metric_text(value) == text


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [(0.9012, 0.9024, "+0.0012"), (0.9012, 0.9, "-0.0012"), (0.5, 0.5, "0"),
     (0.5, 0.5000001, "0"), (1e-6, 2e-6, "+1.0e-06"), (math.nan, 0.5, "-")],
)  # fmt: skip
def test_differences_have_the_digits_of_their_values(before, after, text):
    assert units.difference_text(before, after) == text
