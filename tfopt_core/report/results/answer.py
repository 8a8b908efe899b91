"""The answer of a measurement in at most ten lines; `render_summary` prints all of it."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator

from rich.console import RenderableType

from tfopt_core.records.results import Results
from tfopt_core.records.verdict import ComparisonKind, MemoryVerdict, QualityVerdict, Verdict
from tfopt_core.report.results.effects import plugin_lines
from tfopt_core.report.results.figures import figure_groups
from tfopt_core.report.results.outcome import failures
from tfopt_core.report.style import units
from tfopt_core.report.style.layout import Page, grid, indented, words
from tfopt_core.report.style.vocabulary import MEMORY_COLORS, VERDICT_COLORS
from tfopt_core.statistics.figures import compared_seconds
from tfopt_core.statistics.pairs import pairs_of

# So much of a text fits into a line, and so much of the reason may stand in two.
LINE, REASON = 68, 136
GOOD = {QualityVerdict.CERTIFIED: "same training", QualityVerdict.NOT_WORSE: "as good"}
NOT_SHOWN = {
    Verdict.NO_DIFFERENCE: "no measurable difference",
    Verdict.INCONCLUSIVE: "not settled",
    Verdict.UNLIKE: "another training, so times say nothing",
    Verdict.NOT_APPLIED: "no plugin took effect",
    Verdict.SUSPICIOUS: "the timings look copied, not measured",
    Verdict.FITS: "it fits into memory, and the baseline does not",
    Verdict.DOES_NOT_FIT: "it does not fit into memory",
    Verdict.VOID: "no verdict",
    Verdict.NONE: "no verdict",
}
FASTER = (Verdict.FASTER, Verdict.STEPS_FASTER)


def render_answer(results: Results, target: str | None = None) -> RenderableType:
    """Return the answer: what was gained, why, and what to do next.

    :param target: what `tfopt train` is given to train with the stack; None if unknown.
    """
    comparison = results.comparison
    color = VERDICT_COLORS[comparison.verdict]
    if comparison.headline_memory is not None:
        color = MEMORY_COLORS[comparison.headline_memory.verdict]
    on = f" on {results.workload}" if results.workload else ""
    title = words(f"{results.recipe}{on}: ", "bold")
    title.append_text(words(headline(results), f"bold {color}"))
    rows = [(words(label, "dim"), words(text)) for label, text in answer_rows(results, target)]
    return Page((title, indented(grid(rows))))


def headline(results: Results) -> str:
    """Return the verdict in a few words."""
    comparison = results.comparison
    if results.interrupted:
        return "interrupted, so there is no verdict"
    memory = comparison.headline_memory
    if memory is not None and memory.verdict in (MemoryVerdict.LIGHTER, MemoryVerdict.HEAVIER):
        ratio = units.percent_text(abs(1 - memory.ratio)).lstrip("+")
        return f"{ratio} {'less' if memory.ratio < 1 else 'more'} peak memory"
    verdict, speedup = comparison.verdict, comparison.speedup
    if speedup is None or verdict in NOT_SHOWN:
        return NOT_SHOWN.get(verdict, verdict.label)
    what = "steps " if comparison.kind is ComparisonKind.STEPS else ""
    if verdict in (Verdict.SLOWER, Verdict.STEPS_SLOWER):
        return f"{what}{units.ratio_text(1 / speedup)} slower"
    if comparison.kind is ComparisonKind.TIME_TO_TARGET:
        return f"{units.ratio_text(speedup)} faster to the target"
    quality = comparison.quality
    good = "" if quality is None else GOOD.get(quality.verdict, "")
    if verdict is Verdict.WORSE:
        good = "but the model is worse"
    return ", ".join(filter(None, (
        f"{what}{units.ratio_text(speedup)} faster",
        good or "but whether the model is as good is not known",
    )))  # fmt: skip


def answer_rows(results: Results, target: str | None = None) -> Iterator[tuple[str, str]]:
    """Yield the lines below the verdict, each with its label; `target` as `render_answer` has it.

    The figures are those that the verdict comes from: the time is the mean of the pairs whose ratio
    it judges.
    """
    comparison = results.comparison
    yield from _time(results)
    quality = comparison.quality
    if quality is not None and quality.baseline is not None and quality.optimized is not None:
        change = f"{quality.baseline:.4g} -> {quality.optimized:.4g}"
        if quality.verdict is QualityVerdict.CERTIFIED:
            yield "quality", f"{quality.metric} {change}, the same training"
        elif quality.tolerance is not None:
            yield "quality", f"{quality.metric} {change} (allowed loss {quality.tolerance:.4g})"
    yield from _memory(results)
    yield from _plugins(results)
    faster, certified = comparison.verdict in FASTER, False
    if quality is not None:
        certified = quality.verdict is QualityVerdict.CERTIFIED
    if not faster:
        yield "why", _short(comparison.headline, REASON)
    elif results.addition is not None:
        yield "further", _short(results.addition.statement, REASON)
    elif certified and quality is not None:
        yield "why", _short(quality.certificate or quality.statement, REASON)
    if results.failed:
        title, causes = failures(results)
        yield "failed", _short(f"{title}: {causes[0]}", REASON)
    elif results.warnings:
        more = f" ({len(results.warnings) - 1} more)" if len(results.warnings) > 1 else ""
        yield "note", _short(results.warnings[0], LINE - len(more)) + more
    if results.saved_model:
        yield "saved", _short(results.saved_model)
    if results.interrupted and target is not None:
        yield "next", f"tfopt apply {target} --resume"
    elif faster and target is not None:
        yield "keep it", f"tfopt train {target}      by hand: tfopt export {target}"
    elif results.next_steps:
        yield "next", _short(results.next_steps[0])
    yield "more", f"tfopt report {results.id[-4:]} --verbose      --html report.html"


def _time(results: Results) -> Iterator[tuple[str, str]]:
    comparison = results.comparison
    pairs = pairs_of(results.runs)
    sides = compared_seconds(pairs, comparison.kind) if pairs else ""
    if comparison.speedup is None or not comparison.verdict.comparable or isinstance(sides, str):
        return
    before, after = (math.exp(math.fsum(map(math.log, side)) / len(side)) for side in sides)
    projected = ", projected" if comparison.kind is ComparisonKind.STEADY else ""
    interval = f"{comparison.low:.2f}x to {comparison.high:.2f}x"
    yield (
        "steps" if comparison.kind is ComparisonKind.STEPS else "time",
        f"{units.seconds_text(before)} -> {units.seconds_text(after)}{projected}      "
        f"{interval} ({comparison.confidence:.0%}, {comparison.pairs} pairs)",
    )


def _memory(results: Results) -> Iterator[tuple[str, str]]:
    peaks = [
        row for group in figure_groups(results) for row in group if row.label.startswith("peak")
    ]
    if peaks:
        change = f" ({peaks[-1].gain})" if peaks[-1].gain else ""
        yield "memory", f"{peaks[-1].baseline} -> {peaks[-1].optimized}{change}"


def _plugins(results: Results) -> Iterator[tuple[str, str]]:
    lines = plugin_lines(results)
    took = [line.name for line in lines if line.state == "applied"]
    others = [f"{line.name} {line.text}" for line in lines if line.state != "applied"]
    effect = f"{', '.join(took)}: {'all ' if not others and len(took) > 1 else ''}took effect"
    parts = [*([effect] if took else []), *others]
    if parts:
        yield "plugins", _short("; ".join(parts))


def _short(text: str, longest: int = LINE) -> str:
    return textwrap.shorten(text, longest, placeholder=" ...")
