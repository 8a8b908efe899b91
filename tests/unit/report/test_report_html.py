"""The HTML report: self-contained, small, and names stay text."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import few_examples
from support.hostile_results import hostile_results
from support.report_results import (
    make_attribution,
    make_comparison,
    make_fit,
    make_results,
    make_run,
)

from tfopt_core.errors import InputError
from tfopt_core.hooks.values import Effect
from tfopt_core.report.style.console import plain
from tfopt_core.statistics.results import FigureRatio, Results
from tfopt_core.training.messages import Block

pytest.importorskip("jinja2", reason="the report extra is not installed")

from tfopt_core.report.html import page
from tfopt_core.report.html.charts import Gain, gain_chart, step_times
from tfopt_core.report.html.svg import Scale, ticks

# Those of the templates; none of them runs anything.
ELEMENTS = {
    "html", "head", "meta", "title", "style", "body", "div", "header", "footer", "section", "h1",
    "h2", "h3", "p", "span", "br", "ul", "li", "dl", "dt", "dd", "pre", "code", "figure",
    "figcaption", "table", "thead", "tbody", "tr", "th", "td", "svg", "text", "line", "path",
    "rect", "circle", "details", "summary",
}  # fmt: skip
ATTRIBUTES = {
    "class", "lang", "charset", "name", "content", "http-equiv", "role",
    "aria-label", "text-anchor", "viewbox", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "d",
    "width", "height",
}  # fmt: skip


class Seen(HTMLParser):
    """What a browser would make of a page: its elements, attributes, links and text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        for name, value in attributes:
            self.attributes.add(name)
            if name in ("href", "src", "action", "style") or name.startswith("on"):
                self.links.append(value or "")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def crowded(**changes: Any) -> Results:
    """Every section of the page."""
    fit = make_fit(
        blocks=tuple(Block(10, 0.1, n // 30, "trace" if n == 0 else "") for n in range(90)),
        history={"val_accuracy": (0.8, 0.9), "loss": (0.5, 0.3)},
    )
    variants = ("baseline", "full", "without cache", "without prefetch")
    runs = tuple(make_run(n, variants[n % 4], fits=(fit,)) for n in range(16))
    shares = make_attribution("cache", 1.2, "1.20x")
    values: dict[str, Any] = {
        "runs": runs, "attribution": (shares,),
        "warnings": ("the machine is busy",), "next_steps": ("measure more pairs",),
        "recipe_toml": 'name = "x"\n\n[workload]\n',
        "ratios": (FigureRatio(figure="step_seconds", ratio=1.5, low=1.4, high=1.6, pairs=4),),
    }  # fmt: skip
    return make_results(**{**values, **changes})


def test_a_page_holds_every_section_and_loads_nothing() -> None:
    html = page.html_page(crowded())
    for heading in (
        "Figures", "Verdict", "What each plugin contributes", "Step times of each run",
        "Quality over the epochs", "Plugins",
        "Warnings", "What to try next", "Environment", "Recipe", "Raw numbers",
    ):  # fmt: skip
        assert f"<summary><h2>{heading}</h2></summary>" in html, heading
    shown, _, _ = html.partition("<details>")
    assert all(f"<dt>{label}</dt>" in shown for label in ("time", "quality", "memory", "next"))
    assert "the whole stack" in shown
    seen = Seen(html)
    assert not seen.links
    assert not re.search(r"https?:|url\(|@import|<script", html)
    assert "1.40x to 1.60x" in html
    assert "--json FILE writes every run" in html
    assert len(html.encode()) < 120_000


@pytest.mark.promise(31, injected="hostile names wherever one may stand, the page parsed")
@given(st.text(max_size=40))
@few_examples(thorough=40, deadline=None)
def test_hostile_names_stay_text(text: str) -> None:
    for hostile in (text, f'"><script>alert(1)</script>{text}', f"'{{{{ 7*7 }}}}<b onx=1>{text}"):
        seen = Seen(page.html_page(hostile_results(hostile)))
        assert seen.elements <= ELEMENTS
        assert seen.attributes <= ATTRIBUTES
        assert not seen.links
        first, _, _ = hostile.partition("\n")
        assert plain(first).strip() in " ".join(seen.texts)


def test_a_large_measurement_has_a_small_page() -> None:
    blocks = tuple(Block(10, 0.5 if n % 4 == 0 else 0.1, n // 25) for n in range(200))
    history = {f"metric_{letter}": tuple(1 / (n + 1) for n in range(100)) for letter in "abcdefgh"}
    plugins = [f"plugin-{n}" for n in range(8)]
    variants = ["baseline", "full", *(f"without {name}" for name in plugins)]
    fit = make_fit(blocks=blocks, history=history)
    runs = tuple(make_run(n, variants[n % 10], fits=(fit,)) for n in range(160))
    html = page.html_page(crowded(runs=runs, resolved={name: {} for name in plugins}))
    assert len(html.encode()) < 120_000
    assert html.count("<svg") == 1 + len(variants) + 2


def test_without_jinja_the_mend_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(InputError, match=r"pip install 'tfopt\[report\]'"):
        page.html_page(crowded())


def test_a_measurement_without_a_verdict_has_a_page() -> None:
    comparison = make_comparison(speedup=None, low=None, high=None, quality=None)
    html = page.html_page(make_results(runs=(), comparison=comparison, resolved={}))
    assert "Environment" in html
    assert "<h2>Figures</h2>" not in html


def test_what_was_not_applied_and_what_failed_say_why() -> None:
    refused = Effect(False, "the data set is larger than memory")
    runs = [make_run(n, ("baseline", "full")[n % 2], effects={"cache": refused}) for n in range(8)]
    runs.append(make_run(9, "full", status="failed", error="killed by SIGKILL"))
    html = page.html_page(crowded(runs=tuple(runs), resolved={"cache": {}}))
    assert "not applied: the data set is larger than memory" in html
    assert "<h2>1 of 9 runs failed</h2>" in html
    assert "killed by SIGKILL" in html


def test_a_part_of_a_notebook_styles_nothing_but_itself() -> None:
    part = page.html_page(crowded(), whole=False)
    assert "<html" not in part
    style = part.partition("<style>")[2].partition("</style>")[0]
    rules = re.sub(r"@media[^{]+\{", "", style)
    for selectors in re.findall(r"(?:^|\})([^{}]+)\{", rules):
        for selector in selectors.split(","):
            assert selector.strip().startswith(".tfopt-report"), selector


def test_the_steps_of_a_run_begin_with_its_warm_up() -> None:
    blocks = (Block(1, 2.0, 0, "trace"), Block(0, 0.0), *(Block(10, 0.1) for _ in range(8)))
    warm_up, steady = step_times(make_run(0, fits=(make_fit(blocks=blocks),)))
    assert (warm_up, len(steady)) == ([(0.5, 2.0)], 8)
    assert steady[0] == (6.0, 0.01)


def test_the_fits_of_a_script_follow_one_another() -> None:
    fit = make_fit(blocks=(Block(10, 0.1, 0), Block(10, 0.1, 1)))
    assert [step for step, _ in step_times(make_run(0, fits=(fit, fit)))[1]] == [5, 15, 25, 35]
    assert len(step_times(make_run(0, fits=(fit, fit), judged=1))[1]) == 2


def test_a_gain_that_is_no_number_is_not_drawn() -> None:
    broken = Gain("a", float("inf"), 0.5, float("inf"), "green")
    assert gain_chart([broken]) == ""
    assert "b" in gain_chart([broken, Gain("b", 1.2, 1.1, 1.3, "green")])


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9))
def test_ticks_are_few_round_and_within_the_range(low: float, width: float) -> None:
    found = ticks(low, low + width)
    assert len(found) <= 6
    slack = max(width / 100, abs(low) * 1e-14)  # of a float near the end of its digits
    assert all(low - slack <= tick <= low + width + slack for tick in found)


@given(st.floats(0.01, 100), st.floats(0.01, 100), st.floats())
def test_a_scale_stays_within_its_ends(low: float, high: float, value: float) -> None:
    scale = Scale(min(low, high), max(low, high), 10, 200, logarithmic=True)
    assert 10 - 1e-6 <= scale(1.0 if value != value else value) <= 200 + 1e-6
