"""The HTML report: self-contained, small, and names stay text."""

import re
from html.parser import HTMLParser

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

from tfopt_core.report.style.console import plain
from tfopt_core.statistics.results import FigureRatio
from tfopt_core.training.messages import Block

pytest.importorskip("jinja2", reason="the report extra is not installed")

from tfopt_core.report.html import page
from tfopt_core.report.html.charts import Gain, gain_chart, step_times

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

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements = set()
        self.attributes = set()
        self.links = []
        self.texts = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.add(tag)
        for name, value in attributes:
            self.attributes.add(name)
            if name in ("href", "src", "action", "style") or name.startswith("on"):
                self.links.append(value or "")

    def handle_data(self, data):
        self.texts.append(data)


def crowded(**changes):
    """Every section of the page."""
    fit = make_fit(
        blocks=tuple(Block(10, 0.1, n // 30, "trace" if n == 0 else "") for n in range(90)),
        history={"val_accuracy": (0.8, 0.9), "loss": (0.5, 0.3)},
    )
    variants = ("baseline", "full", "without cache", "without prefetch")
    runs = tuple(make_run(n, variants[n % 4], fits=(fit,)) for n in range(16))
    shares = make_attribution("cache", 1.2, "1.20x")
    values = {
        "runs": runs, "attribution": (shares,),
        "warnings": ("the machine is busy",), "next_steps": ("measure more pairs",),
        "recipe_toml": 'name = "x"\n\n[workload]\n',
        "ratios": (FigureRatio(figure="step_seconds", ratio=1.5, low=1.4, high=1.6, pairs=4),),
    }  # fmt: skip
    return make_results(**{**values, **changes})


def test_a_page_holds_every_section_and_loads_nothing():
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
def test_hostile_names_stay_text(text):
    for hostile in (text, f'"><script>alert(1)</script>{text}', f"'{{{{ 7*7 }}}}<b onx=1>{text}"):
        seen = Seen(page.html_page(hostile_results(hostile)))
        assert seen.elements <= ELEMENTS
        assert seen.attributes <= ATTRIBUTES
        assert not seen.links
        first, _, _ = hostile.partition("\n")
        assert plain(first).strip() in " ".join(seen.texts)


def test_a_large_measurement_has_a_small_page():
    blocks = tuple(Block(10, 0.5 if n % 4 == 0 else 0.1, n // 25) for n in range(200))
    history = {f"metric_{letter}": tuple(1 / (n + 1) for n in range(100)) for letter in "abcdefgh"}
    plugins = [f"plugin-{n}" for n in range(8)]
    variants = ["baseline", "full", *(f"without {name}" for name in plugins)]
    fit = make_fit(blocks=blocks, history=history)
    runs = tuple(make_run(n, variants[n % 10], fits=(fit,)) for n in range(160))
    html = page.html_page(crowded(runs=runs, resolved={name: {} for name in plugins}))
    assert len(html.encode()) < 120_000
    assert html.count("<svg") == 1 + len(variants) + 2


def test_a_measurement_without_a_verdict_has_a_page():
    comparison = make_comparison(speedup=None, low=None, high=None, quality=None)
    html = page.html_page(make_results(runs=(), comparison=comparison, resolved={}))
    assert "Environment" in html
    assert "<h2>Figures</h2>" not in html


def test_a_part_of_a_notebook_styles_nothing_but_itself():
    part = page.html_page(crowded(), whole=False)
    assert "<html" not in part
    style = part.partition("<style>")[2].partition("</style>")[0]
    rules = re.sub(r"@media[^{]+\{", "", style)
    for selectors in re.findall(r"(?:^|\})([^{}]+)\{", rules):
        for selector in selectors.split(","):
            assert selector.strip().startswith(".tfopt-report"), selector


def test_the_steps_of_a_run_begin_with_its_warm_up():
    blocks = (Block(1, 2.0, 0, "trace"), Block(0, 0.0), *(Block(10, 0.1) for _ in range(8)))
    warm_up, steady = step_times(make_run(0, fits=(make_fit(blocks=blocks),)))
    assert (warm_up, len(steady)) == ([(0.5, 2.0)], 8)
    assert steady[0] == (6.0, 0.01)


def test_the_fits_of_a_script_follow_one_another():
    fit = make_fit(blocks=(Block(10, 0.1, 0), Block(10, 0.1, 1)))
    assert [step for step, _ in step_times(make_run(0, fits=(fit, fit)))[1]] == [5, 15, 25, 35]
    assert len(step_times(make_run(0, fits=(fit, fit), judged=1))[1]) == 2


def test_a_gain_that_is_no_number_is_not_drawn():
    broken = Gain("a", float("inf"), 0.5, float("inf"), "green")
    assert gain_chart([broken]) == ""
    assert "b" in gain_chart([broken, Gain("b", 1.2, 1.1, 1.3, "green")])
