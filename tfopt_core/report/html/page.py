"""Render a measurement as one HTML page, or as a part of a notebook."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfopt_core.extras import check_installed
from tfopt_core.hooks.diagnosis import PARTS
from tfopt_core.records.diagnosis import Diagnosed
from tfopt_core.records.results import Results, RunResult
from tfopt_core.report.diagnosis import MEANINGS
from tfopt_core.report.html.frame import colors_of, download_of, variants_of
from tfopt_core.report.html.gain_chart import gain_chart, gains_of
from tfopt_core.report.html.quality_chart import quality_charts
from tfopt_core.report.html.step_chart import step_charts
from tfopt_core.report.html.time_chart import TRAINING_PARTS, bar_chart, step_bars, training_bars
from tfopt_core.report.results.effects import contributions, plugin_lines
from tfopt_core.report.results.figures import figure_groups
from tfopt_core.report.results.outcome import (
    addition_lines,
    addition_title,
    failures,
    verdict_lines,
)
from tfopt_core.report.results.runs import when_in_words
from tfopt_core.report.results.summary import fact_rows, figures_caption
from tfopt_core.report.style import units
from tfopt_core.report.style.console import plain, plain_lines
from tfopt_core.report.style.vocabulary import setting_in_words, variant_in_words
from tfopt_core.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment

# In the tables of runs and environment, a value longer than this is cut.
CELL_CHARACTERS = 400
# The most runs that the table lists; all are in the download.
MOST_RUNS = 400


def check_jinja() -> None:
    """Check that the library of the page is installed, before minutes of measuring.

    :raises InputError: with what to do, if it is not.
    """
    check_installed("jinja2", "jinja2", extra="report", needed_by="an HTML report")


def html_page(results: Results, diagnoses: Sequence[Diagnosed] = ()) -> str:
    """Return a whole page that needs no other file and no network.

    :param diagnoses: of the baseline and of the stack, for the parts of a step.
    :raises InputError: if jinja2 is not installed.
    """
    return _rendered("page.html.j2", _context(results, diagnoses))


def html_part(results: Results) -> str:
    """Return the same as one element with its styles, for a notebook.

    :raises InputError: if jinja2 is not installed.
    """
    return _rendered("report.html.j2", _context(results, ()))


def nothing_page(script: str, bound: str, left_out: Sequence[tuple[str, str]]) -> str:
    """Return the page of a script on which nothing was worth measuring.

    :param bound: what bounds a step, in a sentence.
    :param left_out: the plugins that were left out, each with its reason.
    :raises InputError: if jinja2 is not installed.
    """
    values = {"script": script, "bound": bound, "left_out": left_out, "version": __version__}
    return _rendered("nothing.html.j2", values)


def _rendered(template: str, values: Mapping[str, Any]) -> str:
    check_jinja()
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    folder = Path(__file__).parent
    environment = Environment(
        autoescape=True, loader=FileSystemLoader(folder), undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
        finalize=_shown,
    )  # fmt: skip
    environment.filters["lines"] = lambda text: "\n".join(plain_lines(text))
    environment.globals["style"] = _markup((folder / "style.css").read_text(encoding="utf-8"))
    return environment


def _shown(value: object) -> object:
    """Return a value for the page: text from others is one line without control characters."""
    return value if hasattr(value, "__html__") or not isinstance(value, str) else _one_line(value)


def _one_line(text: str) -> str:
    # what "lines" has made keeps its line ends
    return "\n".join(map(plain, text.split("\n")))


def _markup(text: str) -> Any:
    from markupsafe import Markup

    return Markup(text)


def _context(results: Results, diagnoses: Sequence[Diagnosed]) -> dict[str, Any]:
    first, *others = verdict_lines(results.comparison)
    variants = variants_of(results)
    colors = colors_of(variants)
    return {
        "results": results,
        "version": __version__,
        "when": when_in_words(results.created_at),
        "facts": fact_rows(results),
        "headline": first,
        "statements": others,
        "addition": None if results.addition is None else addition_title(results.addition),
        "addition_lines": () if results.addition is None else addition_lines(results.addition),
        "gains": _markup(gain_chart(gains_of(results))),
        "figures": figure_groups(results),
        "caption": figures_caption(results),
        "legend": [(variant_in_words(name), colors[name]) for name in variants],
        "step_charts": [_markup(chart) for chart in step_charts(results)],
        "training_chart": _markup(bar_chart("seconds of a training", training_bars(results))),
        "training_parts": TRAINING_PARTS,
        "cut_short": any(run.ok and not run.complete for run in results.runs if run.fits),
        "step_chart": _markup(bar_chart("seconds of a step", step_bars(diagnoses))),
        "dispatch_known": all(found.dispatch_known for found in diagnoses),
        "step_parts": [(part, MEANINGS[part]) for part in PARTS],
        "quality_charts": [_markup(chart) for chart in quality_charts(results)],
        "contributions": contributions(results),
        "plugins": plugin_lines(results),
        "left_out": tuple(_left_out(results)),
        "runs": [_run(run) for run in results.runs[:MOST_RUNS]],
        "more_runs": max(0, len(results.runs) - MOST_RUNS),
        "environment": tuple(_environment_rows(results)),
        "download": download_of(results),
        "took": units.seconds_text(results.seconds),
        "setup": units.seconds_text(results.setup_seconds) if results.setup_seconds else "",
    }


def _left_out(results: Results) -> Iterator[tuple[str, str]]:
    """Yield what does not count or was not measured, each with the reason."""
    for line in plugin_lines(results):
        if line.state in ("not applied", "mixed"):
            yield line.name, line.text
    if results.failed:
        title, causes = failures(results)
        yield title, "; ".join(causes)
    if not results.attribution and len(results.resolved) > 1:
        yield (
            "the share of each plugin",
            "not isolated in this measurement; --set measure.attribution=leave-one-out does",
        )
    if results.interrupted:
        yield "further pairs", "interrupted; --resume goes on"


def _run(run: RunResult) -> tuple[str, ...]:
    """Return the cells of a run's row."""
    fit = run.fit if run.fits else None
    step = None if fit is None else fit.step_seconds
    others = run.disturbance.get("other_cpu_share")
    status: str = run.status
    if run.error:
        status = f"{status}: {plain(run.error)[:CELL_CHARACTERS]}"
    return (
        variant_in_words(run.variant),
        str(run.round + 1),
        units.NOTHING if run.wall_seconds is None else units.seconds_text(run.wall_seconds),
        units.NOTHING if step is None else units.seconds_text(step),
        units.NOTHING if run.peak_rss_bytes is None else units.bytes_text(run.peak_rss_bytes),
        units.NOTHING if others is None else f"{others:.0%}",
        status,
    )


def _environment_rows(results: Results) -> Iterator[tuple[str, str]]:
    for name, value in (*results.machine.items(), *results.environment.items()):
        if name.endswith("_bytes") and isinstance(value, int | float):
            yield name.removesuffix("_bytes"), units.bytes_text(value)
        else:
            yield name, setting_in_words(value or "none")[:CELL_CHARACTERS]
