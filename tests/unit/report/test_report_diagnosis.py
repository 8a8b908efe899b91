"""What `tfopt diagnose` prints."""

from __future__ import annotations

import io
import tomllib
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.diagnosed import make_diagnosed as diagnosed
from support.diagnosed import make_part as part
from support.report_results import show

from tfopt_core.commands.output import to_json
from tfopt_core.hooks.diagnosis import PARTS, Finding
from tfopt_core.hooks.installed.suggest import NoAnswer, Suggestion
from tfopt_core.records.diagnosis import (
    EpochPart,
)
from tfopt_core.report.diagnosis import (
    Bar,
    lengths,
    render_diagnosis,
    snippet,
)
from tfopt_core.report.live import make_phases
from tfopt_core.report.style.console import make_console


def suggestion(plugin: str, **changes: Any) -> Suggestion:
    given = Suggestion(
        plugin=plugin, settings={}, bound=1.5, targets=("input",), equivalence="exact",
        summary=f"Does what {plugin} does.", distribution="tfopt",
    )  # fmt: skip
    return attrs.evolve(given, **changes)


def page(target: str = "mine.toml", width: int = 100, **changes: Any) -> str:
    return show(render_diagnosis(diagnosed(**changes), target), width)


@given(
    shares=st.lists(st.floats(0.001, 1), min_size=3, max_size=3),
    width=st.integers(1, 200),
)
def test_the_bar_is_as_long_as_it_is_whatever_the_shares(shares: list[float], width: int) -> None:
    whole = {str(n): share / sum(shares) for n, share in enumerate(shares)}
    made = lengths(whole, width)
    assert sum(made.values()) == width
    assert all(abs(made[name] - share * width) <= 1 for name, share in whole.items())


def test_a_terminal_without_blocks_gets_plain_signs() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    parts = {"input": part(0.5), "dispatch": part(0.0), "compute": part(0.5)}
    make_console(width=70, file=stream, environ={}).print(Bar(diagnosed(**parts)))
    stream.seek(0)
    assert "#" * 30 + "." * 30 in stream.read()


def test_each_part_has_its_seconds_its_share_and_what_rounds_say() -> None:
    text = page()
    bar = page(width=70).splitlines()[6]
    assert [bar.count(sign) for sign in "█▓░"] == [18, 6, 36]
    assert "A step takes 10.0 ms" in text
    assert "input     3.00 ms  30% (28 to 33%)  waiting for the next batch" in text
    assert "read alone, a batch takes 4.00 ms; medians of 3 rounds" in text


def test_what_is_within_noise_or_not_told_apart_says_so() -> None:
    text = page(dispatch_known=False, dispatch=part(0.0), compute=part(0.7))
    assert "dispatch and compute, not told apart" in text
    assert "dispatch: too small to measure" in page(dispatch=part(0.1, -0.05, 0.2))
    assert "too small" not in page(dispatch=part(0.0, -0.05, 0.0))


def test_the_peak_and_the_bounds_for_each_kind_of_plugin_are_printed() -> None:
    text = " ".join(page().split())
    assert "computes in float32, the model reaches 25.0% of this machine's matrix" in text
    assert "150 GFLOP/s" in text
    assert "GFLOP/s" not in page(matmul_share=None)
    assert all(f"any {part} plugin" in text for part in PARTS)
    assert "any input plugin 1.43x" in text
    assert "any dispatch plugin 1.67x" in text
    assert "any compute plugin 2.5x" in text
    assert "input and dispatch unlimited" in text


def test_a_finding_has_its_place_and_its_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = Finding(
        kind="sequential-map", detail="decode is slow", mend="make it parallel", split="train",
        place="/elsewhere/data.py:12",
    )  # fmt: skip
    text = page(findings=(finding,))
    assert "sequential map: decode is slow (/elsewhere/data.py:12, train data)" in text
    assert "-> make it parallel" in text
    assert "nothing that costs time by itself" in page()


def test_suggestions_are_numbered_bounded_and_can_be_pasted() -> None:
    both = (
        suggestion("cache", settings={"storage": "disk", "sizes": [1, 2]}),
        suggestion("chunked", bound=None, equivalence="order", left_out='conflicts with "cache"'),
    )
    text = page(suggestions=both, proposed_stack=("cache",))
    assert "1.  cache    at most about 1.50x  Does what cache does; storage" in text
    assert "2.  chunked                       Does what chunked does" in text
    assert 'not below: conflicts with "cache"' in " ".join(text.split())
    assert "tfopt apply mine.toml" in " ".join(text.split())
    pasted = text[text.index("[[plugins]]") : text.index("took ")]
    lines = "\n".join(line.strip() for line in pasted.splitlines())
    assert tomllib.loads(lines) == {
        "plugins": [{"use": "cache", "storage": "disk", "sizes": [1, 2]}]
    }


@given(
    st.dictionaries(
        st.from_regex(r"[a-z_]{1,9}", fullmatch=True).filter(lambda key: key != "use"),
        st.booleans() | st.integers(-99, 99) | st.text() | st.lists(st.integers(0, 9))
        | st.floats(allow_nan=False, allow_infinity=False),
    )
)  # fmt: skip
def test_whatever_settings_are_proposed_the_snippet_is_toml(settings: dict[str, Any]) -> None:
    read = tomllib.loads(snippet([suggestion("a", settings=settings)]))
    assert read == {"plugins": [{"use": "a", **settings}]}


def test_plugins_without_an_answer_are_named() -> None:
    silent = NoAnswer(plugin="bad", distribution="theirs", cause="ImportError: \x1b[31mno")
    text = page(silent=(silent,))
    assert "bad (theirs): ImportError: \\x1b[31mno" in text


def test_the_json_has_no_infinity_and_every_figure() -> None:
    data = to_json(diagnosed())
    assert data["bounds"]["input_and_dispatch"] is None
    assert data["rounds"][0] == {
        "real": 0.01, "cached": 0.007, "graph": 0.006, "data": 0.004,
    }  # fmt: skip


def test_phases_are_lines_where_there_is_no_terminal_and_nothing_if_quiet() -> None:
    for quiet, expected in ((False, "building\ntiming\n"), (True, "")):
        stream = io.StringIO()
        with make_phases(make_console(quiet=quiet, file=stream, environ={})) as tell:
            tell("building")
            tell("timing")
        assert stream.getvalue() == expected


def test_the_parts_of_an_epoch_have_their_seconds_and_share():
    parts = (
        EpochPart(name="validation", seconds=0.5, note="projected from 5 of 10 batches"),
        EpochPart(name="ModelCheckpoint", seconds=0.5),
        EpochPart(name="Mine", note="not timed: it is not called"),
    )
    page = show(render_diagnosis(diagnosed(epoch_parts=parts), "mine.toml"))
    assert "An epoch takes 2.00 s" in page
    rows = [" ".join(line.split()) for line in page.splitlines()]
    assert "steps 1.00 s 50% 100 steps" in rows
    assert "validation 500 ms 25% projected from 5 of 10 batches" in rows
    assert "Mine not timed: it is not called" in rows
    open_ended = diagnosed(epoch_parts=parts, steps_per_epoch=None)
    page = show(render_diagnosis(open_ended, "mine.toml"))
    assert "Besides its steps an epoch takes 1.00 s" in page
    assert "An epoch takes" not in show(render_diagnosis(diagnosed(), "mine.toml"))
