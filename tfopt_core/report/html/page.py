"""Write the sections of a report, with charts, as one HTML page or as a part of a notebook."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from tfopt_core.diagnosis.draft import NothingToMeasure
from tfopt_core.extras import check_installed
from tfopt_core.report.html.charts import (
    colors_of,
    gain_chart,
    gains_of,
    quality_charts,
    step_charts,
    variants_of,
)
from tfopt_core.report.results.answer import answer_lines, headline
from tfopt_core.report.results.pages import took
from tfopt_core.report.results.sections import nothing_sections, sections_of
from tfopt_core.report.style import units
from tfopt_core.report.style.console import plain, plain_lines
from tfopt_core.report.style.layout import Fact, Facts, Line, Section, section
from tfopt_core.report.style.vocabulary import color_of, setting_in_words, variant_in_words
from tfopt_core.statistics.results import Results
from tfopt_core.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment

# In the table of the environment, a value longer than this is cut.
CELL_CHARACTERS = 400

GAINS = (
    "Speedup with its interval, on a logarithmic axis: right of 1 is faster. A color claims "
    'something only where the whole interval lies on one side; the band is "no measurable '
    'difference".'
)
ISOLATED = " Left out: the stack with the plugin over the stack without it."
STEP_TIMES = (
    "Time of a step over the steps of each run, all charts on the same axes. Dotted: warm-up, "
    "which is no sample of the step time, and may lie beyond the top of the chart."
)
RUNS = "One line for each run that counts."


# The sections of the page in order; what observers found stands before the environment.
PARTS = (
    "answer", "gains", "figures", "verdict", "addition", "attribution", "steps", "metrics",
    "plugins", "failures", "warnings", "findings", "advice",
)  # fmt: skip


@attrs.frozen
class Charts:
    """SVG images with a caption, and the meaning of their colors by CSS class."""

    charts: tuple[str, ...]
    caption: str
    legend: tuple[tuple[str, str], ...] = ()

    def __len__(self) -> int:
        return len(self.charts)


@attrs.frozen
class Preformatted:
    """A text whose lines stay as they are."""

    text: str


def check_jinja() -> None:
    """Check that the library of the page is installed, before minutes of measuring.

    :raises InputError: with what to do, if it is not.
    """
    check_installed("jinja2", "jinja2", extra="report", needed_by="an HTML report")


def html_page(results: Results, target: str | None = None, *, whole: bool = True) -> str:
    """Return a page that needs no other file and no network: the answer and the gains, and below
    them all of the rest, folded.

    :param target: what `tfopt train` is given to train with the stack; None if unknown.
    :param whole: False for one element with its styles, for a notebook.
    :raises InputError: if jinja2 is not installed.
    """
    saved = (f"model saved to {results.saved_model}",) if results.saved_model else ()
    return _rendered(
        whole=whole, title=f"{results.recipe}: {headline(results)}", recipe=results.recipe,
        workload=results.workload, when=f"{units.when_text(results.created_at)} · {results.id}",
        folds=True, parts=_parts(results, target),
        footer=(*saved, f"{took(results)} · tfopt {__version__}"),
    )  # fmt: skip


def nothing_page(nothing: NothingToMeasure) -> str:
    """Return the page of a script on which nothing was worth measuring.

    :raises InputError: if jinja2 is not installed.
    """
    return _rendered(
        title=f"{nothing.script}: nothing to gain", recipe=nothing.script, workload="", when="",
        folds=False, parts=nothing_sections(nothing), footer=(f"tfopt {__version__}",),
    )  # fmt: skip


def _rendered(whole: bool = True, **values: Any) -> str:
    check_jinja()
    return _environment().get_template("report.html.j2").render(values, whole=whole)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    folder = Path(__file__).parent
    environment = Environment(
        autoescape=True, loader=FileSystemLoader(folder), undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
        finalize=_shown,
    )  # fmt: skip
    environment.filters["lines"] = lambda text: "\n".join(plain_lines(text))
    environment.filters["kind"] = lambda block: type(block).__name__
    environment.globals["style"] = Markup((folder / "style.css").read_text(encoding="utf-8"))
    return environment


def _shown(value: object) -> object:
    """Return a value for the page: text from others has no control characters."""
    if hasattr(value, "__html__") or not isinstance(value, str):
        return value
    # what "lines" has made keeps its line ends
    return "\n".join(map(plain, value.split("\n")))


def _parts(results: Results, target: str | None) -> list[Section]:
    """Return the sections in the order of the page, without those that are empty."""
    known, variants = sections_of(results), variants_of(results)
    legend = tuple((colors_of(variants)[name], variant_in_words(name)) for name in variants)
    gain = gain_chart(gains_of(results))
    explained = GAINS + (ISOLATED if results.attribution else "")
    raw = f"tfopt report {results.id} --json FILE writes every run with all of its samples."
    known |= {
        "answer": _answer(results, target),
        "gains": section("", Charts((gain,) if gain else (), explained)),
        "figures": section("Figures", *(known["figures"].blocks if "figures" in known else ())),
        "steps": section("Step times of each run",
                         Charts(step_charts(results), STEP_TIMES, legend)),
        "metrics": section("Quality over the epochs",
                           Charts(quality_charts(results), RUNS, legend)),
    }  # fmt: skip
    observed = (name for name in known if name.startswith("observed "))
    return [
        *(known[name] for name in (*PARTS, *observed) if name in known and known[name].blocks),
        section("Environment", *known["facts"].blocks, Facts(_environment_rows(results))),
        section("Recipe", Preformatted(results.recipe_toml)),
        section("Raw numbers", Line(raw)),
    ]


def _answer(results: Results, target: str | None) -> Section:
    """Return what the terminal says: the verdict in a few words, and a line for each figure."""
    lines = answer_lines(results, target)
    del lines["more"]  # it is this page
    rows = tuple(Fact(label, re.sub("  +", ", ", text)) for label, text in lines.items())
    color = color_of(results.comparison.headline_verdict)
    return section("", Line(headline(results), headline=True), Facts(rows), color=color)


def _environment_rows(results: Results) -> Iterator[Fact]:
    for name, value in (*results.machine.items(), *results.environment.items()):
        if name.endswith("_bytes") and isinstance(value, int | float):
            yield Fact(name.removesuffix("_bytes"), units.bytes_text(value))
        else:
            yield Fact(name, setting_in_words(value or "none")[:CELL_CHARACTERS])
