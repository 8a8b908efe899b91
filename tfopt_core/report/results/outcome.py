"""Render the end of the summary: failed runs, the verdict, advice, and the closing line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import attrs
from rich.console import Group, RenderableType
from rich.text import Text

from tfopt_core.records.results import Addition, Comparison, Results, RunResult
from tfopt_core.records.verdict import MemoryVerdict
from tfopt_core.report.style import units
from tfopt_core.report.style.console import plain, plain_lines
from tfopt_core.report.style.layout import bullets, indented, paragraph, section, words
from tfopt_core.report.style.vocabulary import (
    ADDITION_TITLES,
    MEMORY_COLORS,
    QUALITY_COLORS,
    VERDICT_COLORS,
    variant_in_words,
)

# So much of the first failed run's output says what happened; the file has the rest.
TAIL_LINES = 10


def render_failures(results: Results) -> tuple[RenderableType, ...]:
    """Return which runs failed, each cause once, and the end of the first one's output."""
    failed = results.failed
    if not failed:
        return ()
    title, causes = failures(results)
    return (section(title, bullets(causes), *_output(failed[0])),)


def failures(results: Results) -> tuple[str, tuple[str, ...]]:
    """Return how many runs failed, in words, and each cause once with its variants."""
    failed = results.failed
    ended = "ran out of memory" if all(run.out_of_memory for run in failed) else "failed"
    causes = tuple(
        f"{cause} ({_of_whom([run for run in failed if _cause(run) == cause])})"
        for cause in dict.fromkeys(map(_cause, failed))
    )
    return f"{len(failed)} of {len(results.runs)} runs {ended}", causes


def _cause(run: RunResult) -> str:
    cause = (run.error or "").strip() or "no cause is known"
    if run.out_of_memory and not cause.startswith("out of memory"):
        return f"out of memory: {cause}"
    return cause


def _of_whom(runs: list[RunResult]) -> str:
    """Return the variants of runs with their counts: `baseline, with the stack 3 times`."""
    counts = Counter(variant_in_words(run.variant) for run in runs)
    return ", ".join(f"{name} {n} times" if n > 1 else name for name, n in counts.items())


def _output(run: RunResult) -> Iterator[RenderableType]:
    if run.output_path:
        yield words(f"output of run {run.id}: {run.output_path}", "dim")
    tail = [line for line in plain_lines(run.output_tail or "") if line][-TAIL_LINES:]
    if tail:
        yield indented(Text("\n".join(tail), style="dim", overflow="fold"))


@attrs.frozen
class VerdictLine:
    """A sentence of the verdict and its color, "" for none."""

    text: str
    color: str = ""


def verdict_lines(comparison: Comparison) -> tuple[VerdictLine, ...]:
    """Return what was tested and the result, the headline first."""
    headline = comparison.headline_memory
    color = VERDICT_COLORS[comparison.verdict]
    if headline is not None:
        color = MEMORY_COLORS[headline.verdict]
    lines = [VerdictLine(comparison.headline, color)]
    if comparison.quality is not None:
        quality = comparison.quality
        lines.append(VerdictLine(quality.statement, QUALITY_COLORS[quality.verdict]))
        if quality.certificate and quality.certificate not in quality.statement:
            lines.append(VerdictLine(quality.certificate))
    if headline is not None:
        lines.append(VerdictLine(comparison.statement))
    lines += (
        VerdictLine(item.statement) for item in comparison.memory
        # measuring ends once the time is settled, so that this is the rule and tells nothing
        if item is not headline and item.verdict is not MemoryVerdict.INCONCLUSIVE
    )  # fmt: skip
    return tuple(lines)


def render_verdict(comparison: Comparison) -> RenderableType:
    """Return the section of the verdict. Only this section claims a gain."""
    first, *others = verdict_lines(comparison)
    body = [paragraph(first.text, f"bold {first.color}")]
    return section("Verdict", *body, *(paragraph(line.text, line.color) for line in others))


def addition_title(addition: Addition) -> str:
    """Return the title over what was measured on top of an exact stack."""
    title = ADDITION_TITLES.get(addition.equivalence, "On top of the stack")
    return f"{title}: {' and '.join(addition.plugins)}"


def addition_lines(addition: Addition) -> tuple[VerdictLine, ...]:
    """Return what it adds, and what is known of the quality of its model."""
    lines = [VerdictLine(addition.statement, VERDICT_COLORS[addition.verdict])]
    quality = addition.quality
    if quality is not None:
        lines.append(VerdictLine(quality.statement, QUALITY_COLORS[quality.verdict]))
        if quality.certificate and quality.certificate not in quality.statement:
            lines.append(VerdictLine(quality.certificate))
    return tuple(lines)


def render_addition(results: Results) -> tuple[RenderableType, ...]:
    """Return the section of the second contrast, empty if there is none."""
    addition = results.addition
    if addition is None:
        return ()
    lines = (paragraph(line.text, line.color) for line in addition_lines(addition))
    return (section(addition_title(addition), *lines),)


def render_rest(results: Results) -> tuple[RenderableType, ...]:
    """Return warnings, advice, and one line on what was stored."""
    parts: list[RenderableType] = []
    if results.warnings:
        parts.append(section("Warnings", bullets(results.warnings)))
    if results.next_steps:
        parts.append(section("What to try next", bullets(results.next_steps)))
    return (*parts, Group("", *_kept(results)))


def _kept(results: Results) -> Iterator[RenderableType]:
    if results.interrupted:
        text = "interrupted: what had been measured until then is kept; --resume goes on with it"
        yield words(text, "yellow")
    if results.saved_model:
        yield words(f"model saved to {results.saved_model}")
    count = len(results.runs)
    took = f"{count} {'run' if count == 1 else 'runs'} in {units.seconds_text(results.seconds)}"
    setup = (
        f", {units.seconds_text(results.setup_seconds)} of it set-up"
        if results.setup_seconds
        else ""
    )
    yield words(f"{took}{setup}; all samples kept as {plain(results.id)}", "dim")
