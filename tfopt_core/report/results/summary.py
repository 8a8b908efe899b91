"""Render the summary of a measurement, as `tfopt apply` prints it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tfopt_core.records.fit import OWN_LOOP
from tfopt_core.records.results import Results
from tfopt_core.records.variants import BASELINE, FULL
from tfopt_core.records.verdict import ComparisonKind
from tfopt_core.report.found_tables import render_observed
from tfopt_core.report.results.effects import render_attribution, render_plugin_lines
from tfopt_core.report.results.figures import figure_groups
from tfopt_core.report.results.outcome import (
    render_addition,
    render_failures,
    render_rest,
    render_verdict,
)
from tfopt_core.report.results.runs import render_fits
from tfopt_core.report.style.layout import Page, facts, indented, words


def render_summary(results: Results) -> RenderableType:
    """Return the whole page: what was measured, the figures, the plugins, the verdict, advice."""
    return Page((
        _title(results),
        indented(facts(fact_rows(results))),
        *_figures(results),
        *render_fits(results),
        *render_plugin_lines(results),
        *render_attribution(results),
        *render_observed(results.observed),
        *render_failures(results),
        render_verdict(results.comparison),
        *render_addition(results),
        *render_rest(results),
    ))  # fmt: skip


def machine_in_words(machine: Mapping[str, Any]) -> str:
    """Return a stored machine as `Xeon Platinum 8481C, 2 CPUs, 8 GiB, no GPU`."""
    model = str(machine.get("cpu_model") or "unknown CPU")
    parts = [" ".join(model.replace("(R)", "").replace("(TM)", "").split())]
    if cpus := machine.get("cpu_count"):
        parts.append(f"{cpus} CPU" if cpus == 1 else f"{cpus} CPUs")
    if memory := machine.get("memory_bytes"):
        parts.append(f"{memory / 2**30:.0f} GiB")
    gpus = Counter(_gpu_name(gpu) for gpu in machine.get("gpus") or ())
    parts += [name if n == 1 else f"{n} x {name}" for name, n in gpus.items()] or ["no GPU"]
    return ", ".join(parts)


def _gpu_name(gpu: Any) -> str:
    return str(gpu.get("name", "GPU")) if isinstance(gpu, Mapping) else str(gpu)


def _title(results: Results) -> Text:
    title = words(results.recipe, "bold")
    if results.workload:
        title.append_text(words(" on ", "dim")).append_text(words(results.workload, "bold"))
    return title


def fact_rows(results: Results) -> list[tuple[str, str]]:
    """Return the machine, the software, the baseline and the target, each with its name."""
    versions = results.environment
    software = [
        f"{label} {versions[key]}"
        for label, key in (("TensorFlow", "tensorflow"), ("Keras", "keras"))
        if versions.get(key)
    ]
    known = [("machine", machine_in_words(results.machine))]
    if software:
        known.append(("software", ", ".join(software)))
    known.append(("baseline", _baseline(results)))
    if results.target:
        known.append(("target", results.target))
    return known


def _baseline(results: Results) -> str:
    compiled = {run.fit.jit_compile for run in results.of_variant(BASELINE) if run.fits}
    xla = {frozenset({True}): "XLA on", frozenset({False}): "XLA off"}.get(
        frozenset(compiled), "XLA in some runs" if compiled else ""
    )
    sentence = results.baseline.strip().removesuffix(".")
    if any(fit.name == OWN_LOOP for run in results.runs for fit in run.fits):
        xla = ""  # which functions of the script are compiled is not known
    return "; ".join(part for part in (sentence, xla) if part) or "not described"


def _figures(results: Results) -> tuple[RenderableType, ...]:
    groups = figure_groups(results)
    if not groups:
        return ()
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    table.add_column("", overflow="fold")
    for name in ("baseline", "optimized", "gain"):
        table.add_column(name, justify="right", overflow="fold")
    for rows in groups:
        for row in rows:
            table.add_row(words(row.label), row.baseline, row.optimized, row.gain)
        table.add_section()
    return (Group("", indented(table), "", indented(words(figures_caption(results), "dim"))),)


def figures_caption(results: Results) -> str:
    """Return what the rows of the figures are, and what their gains mean."""
    before, after = (len(results.of_variant(variant)) for variant in (BASELINE, FULL))
    alike = "1 run" if before == 1 else f"{before} runs"
    runs = alike if before == after else f"{before} and {after} runs"
    caption = f"Single rows are medians of {runs}; the verdict's interval is what was tested."
    if results.comparison.kind is ComparisonKind.STEADY:
        caption += " Runs were cut short: the totals are projected."
    if results.comparison.kind is ComparisonKind.STEPS:
        caption += " Runs were cut short: no total is known."
    if results.ratios:
        caption += " A gain is printed where its own interval over the pairs excludes none."
    return caption
