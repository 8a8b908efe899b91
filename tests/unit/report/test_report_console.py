"""The console, and names that try to steer it."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.color import Color
from support.report_results import make_comparison, make_results, show

from tfopt_core.report.results.pages import render_summary
from tfopt_core.report.style.console import PALETTE, TRACK, make_console, plain, plain_lines
from tfopt_core.report.style.layout import Page, words


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def printed(stream: io.StringIO, environ: dict[str, str]) -> str:
    make_console(width=80, file=stream, environ=environ).print(render_summary(make_results()))
    return stream.getvalue()


@pytest.mark.parametrize("color", [*PALETTE.values(), TRACK])
def test_a_colour_can_be_read_on_white_and_on_black(color: str) -> None:
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in Color.parse(color).get_truecolor().normalized
    )
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue  # contrast as WCAG 2 defines it
    assert 1.05 / (luminance + 0.05) > 3.4
    assert (luminance + 0.05) / 0.05 > 3.4


@pytest.mark.parametrize("name", PALETTE)
def test_no_colour_is_left_to_the_terminals_theme(name: str) -> None:
    # not printed: rich keeps the codes of a style for the first kind of terminal in the process
    console = make_console(file=Terminal(), environ={"TERM": "xterm-256color"})
    assert console.get_style(name).color == Color.parse(PALETTE[name])
    assert console.get_style(f"bold {name}").color == Color.parse(PALETTE[name])
    assert console.get_style(f"bold {name}").bold


@pytest.mark.parametrize(
    "environ", [{"TERM": "xterm", "NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": "unknown"}]
)
def test_only_a_terminal_with_colour_gets_escapes(environ: dict[str, str]) -> None:
    assert "\x1b[" in printed(Terminal(), {"TERM": "xterm-256color"})
    assert "\x1b" not in printed(Terminal(), environ)
    assert "\x1b" not in printed(io.StringIO(), {"TERM": "xterm-256color"})


@pytest.mark.parametrize(
    ("columns", "width"), [(None, 80), ("120", 120), ("", 80), ("0", 80), ("-5", 80), ("wide", 80)]
)
def test_piped_output_is_as_wide_as_columns_says_else_80(columns: str | None, width: int) -> None:
    environ = {} if columns is None else {"COLUMNS": columns}
    assert make_console(file=io.StringIO(), environ=environ).width == width


@given(st.text())
def test_plain_text_steers_no_terminal(text: str) -> None:
    shown = plain(text)
    assert not set(shown) & {chr(code) for code in (*range(32), *range(0x7F, 0xA0))}
    assert shown.encode("utf-8").decode("utf-8") == shown


@given(st.text(st.characters(categories=["L", "N", "P", "S"])))
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert plain(text) == text


def test_control_characters_are_shown() -> None:
    assert plain("a\x1b[31mb\x00\n\u202e\ud800") == "a\\x1b[31mb\\x00\\n\\u202e\\ud800"


def test_lines_stay_lines() -> None:
    assert plain_lines("one\r\n\ttwo \x07\n") == ("one", "    two \\x07")


@pytest.mark.promise(32, injected="markup, emoji codes and escape sequences as names")
def test_hostile_names_are_inert_everywhere_in_the_summary() -> None:
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
