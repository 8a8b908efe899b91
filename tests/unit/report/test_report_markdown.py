"""The Markdown report: tables, and names stay text."""

from __future__ import annotations

import html
import re

from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from support.cases import few_examples
from support.hostile_results import hostile_results
from support.report_results import make_attribution, make_results

from tfopt_core.records.results import FigureRatio
from tfopt_core.report.results.markdown import escaped, markdown_report
from tfopt_core.report.style.console import plain

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
SIGNS = st.text(st.sampled_from("ab1 `*_{}[]()#+-.!|~:@<>&\\$='\"/\n"), max_size=30)


def test_verdict_table_and_attribution_are_there() -> None:
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
def test_escaped_text_reads_as_it_is(text: str) -> None:
    shown = PARSER.render(escaped(text))
    inner = shown.removeprefix("<p>").removesuffix("\n").removesuffix("</p>")
    assert not re.search(r"<(?!/?p>)", inner)
    assert html.unescape(inner) == plain(text).strip()


@given(st.text(max_size=30) | SIGNS)
@example(">0")
@few_examples(thorough=60, deadline=None)
def test_hostile_names_make_no_markup(text: str) -> None:
    hostile = f"{text}<b onclick=x>[a](http://b)|c|{text}"
    shown = PARSER.render(markdown_report(hostile_results(hostile)))
    elements = set(re.findall(r"<(\w+)", shown))
    assert elements <= {
        "h2", "h3", "p", "strong", "ul", "li", "table", "thead", "tbody", "tr", "th", "td",
    }  # fmt: skip
    columns = [row.count("<td") for row in re.findall(r"<tr>(.*?)</tr>", shown, re.DOTALL)]
    assert set(columns) <= {0, 2, 3, 5}
