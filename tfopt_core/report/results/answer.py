"""The answer of a measurement in at most ten lines; `render_summary` prints all of it."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping

from rich.console import RenderableType
from rich.text import Text

from tfopt_core.diagnosis.draft import NothingToMeasure, untried
from tfopt_core.report.results.figures import memory_rows
from tfopt_core.report.results.sections import APPLIED, failures, plugin_facts
from tfopt_core.report.style import units
from tfopt_core.report.style.layout import Fact, Facts, Page, indented, words
from tfopt_core.report.style.vocabulary import color_of, finding_in_words
from tfopt_core.statistics.figures import compared_seconds
from tfopt_core.statistics.results import (
    ComparisonKind,
    MemoryVerdict,
    QualityVerdict,
    Results,
    Verdict,
)
from tfopt_core.statistics.runs import pairs_of

LINES = 10
# So much of a text fits into a line, and so much of a reason may stand in two.
LINE, REASON = 68, 136
# What `--verbose` alone prints where there are more lines, the first first.
DISPENSABLE = ("note", "memory", "quality")
# What is cut to a line if there are still more.
SHORTENED = ("next", "why", "replay")
GOOD = {QualityVerdict.CERTIFIED: ", same training", QualityVerdict.NOT_WORSE: ", as good"}
NO_SPEEDUP = (Verdict.NO_DIFFERENCE, Verdict.INCONCLUSIVE)
NO_LESS_MEMORY = {
    MemoryVerdict.NO_DIFFERENCE: "about the same peak memory",
    MemoryVerdict.WORSE: "less peak memory but worse",
    MemoryVerdict.QUALITY_OPEN: "less peak memory, quality not established",
    MemoryVerdict.INCONCLUSIVE: "inconclusive",
    MemoryVerdict.NONE: "no verdict",
}
GAINS = (Verdict.FASTER, Verdict.STEPS_FASTER, Verdict.FITS)


def render_answer(results: Results, target: str | None = None) -> RenderableType:
    """Return the answer: what was gained, why, and what to do next.

    :param target: what `tfopt train` is given to train with the stack; None if unknown.
    """
    color = color_of(results.comparison.headline_verdict)
    on = f" on {results.workload}" if results.workload else ""
    title = words(f"{results.recipe}{on}: ", "bold")
    title.append_text(words(headline(results), f"bold {color}"))
    lines = answer_lines(results, target)
    for label in (*DISPENSABLE, *SHORTENED):
        too_many = 1 + sum(math.ceil(len(text) / LINE) for text in lines.values()) > LINES
        if too_many and label in SHORTENED and label in lines:
            lines[label] = _short(lines[label])
        elif too_many:
            lines.pop(label, None)
    return _page(title, lines)


def render_nothing(nothing: NothingToMeasure) -> RenderableType:
    """Return the answer for a script of which nothing was worth measuring."""
    late, why = untried(nothing.left_out), nothing.sentences[0]
    title = words(f"{nothing.script}: ", "bold")
    found = "nothing found so far" if late else "nothing to gain"
    title.append_text(words(found, "bold yellow"))
    lines = {"why": _short(why.partition(":")[0]), "bound": _short(nothing.bound, REASON)}
    tried = {one.plugin: one.estimate for one in nothing.left_out if one.estimate is not None}
    if tried:
        now = nothing.diagnosis.estimate
        takes = "" if now is None else f"a training takes about {units.seconds_text(now.seconds)}; "
        each = (f"{name} {units.seconds_text(one.seconds)}" for name, one in tried.items())
        lines["tried"] = _short(f"{takes}with {', '.join(each)}", REASON - 16)
    if late:
        lines["untried"] = _short(f"{', '.join(late)}: no time was left")
    if findings := nothing.diagnosis.findings:
        more = f" ({len(findings) - 1} more)" if len(findings) > 1 else ""
        lines["by hand"] = _short(finding_in_words(findings[0]), LINE - len(more)) + more
    if tried:
        lines["next"] = nothing.command("--measure-anyway")
    lines["more"] = nothing.command("--verbose --html report.html")
    return _page(title, lines)


def _page(title: Text, lines: Mapping[str, str]) -> RenderableType:
    return Page((title, indented(Facts(map(Fact, lines, lines.values())))))


def headline(results: Results) -> str:
    """Return the verdict in a few words."""
    comparison = results.comparison
    if results.interrupted:
        return "interrupted, so there is no verdict"
    memory = comparison.headline_memory
    if memory is not None:
        share = units.percent_text(abs(1 - memory.ratio)).lstrip("+")
        less = {MemoryVerdict.LIGHTER: "less", MemoryVerdict.HEAVIER: "more"}.get(memory.verdict)
        return f"{share} {less} peak memory" if less else NO_LESS_MEMORY[memory.verdict]
    verdict, speedup = comparison.verdict, comparison.speedup
    if speedup is None or not verdict.comparable or verdict in NO_SPEEDUP:
        return verdict.label
    what = "steps " if comparison.kind is ComparisonKind.STEPS else ""
    if verdict in (Verdict.SLOWER, Verdict.STEPS_SLOWER):
        return f"{what}{units.ratio_text(1 / speedup)} slower"
    if comparison.kind is ComparisonKind.TIME_TO_TARGET:
        return f"{units.ratio_text(speedup)} faster to the target"
    quality = comparison.quality
    good = "" if quality is None else GOOD.get(quality.verdict, "")
    if verdict is Verdict.WORSE:
        good = " but worse"
    good = good or ", quality not established"
    return f"{what}{units.ratio_text(speedup)} faster{good}"


def answer_lines(results: Results, target: str | None = None) -> dict[str, str]:
    """Return the texts below the verdict by their labels; `target` as `render_answer` has it.

    The time is the mean of the pairs whose ratio the verdict is about.
    """
    comparison, gained = results.comparison, has_gained(results)
    lines = dict(fact for facts in (_time, _quality, _memory, _plugins) for fact in facts(results))
    if not gained:
        lines["why"] = _short(comparison.headline, REASON)
    elif results.addition is not None:
        lines["further"] = _short(results.addition.statement, REASON)
    elif comparison.quality is not None and comparison.quality.certificate is not None:
        lines["replay"] = _short(comparison.quality.certificate, REASON)
    if results.failed:
        title, causes = failures(results)
        lines["failed"] = _short(f"{title}: {causes[0]}", REASON)
    if results.warnings:
        more = f" ({len(results.warnings) - 1} more)" if len(results.warnings) > 1 else ""
        note, room = results.warnings[0], LINE - len(more)
        if len(note) > room:  # without what to do about it, which may be a command
            what = note.partition(": ")[0]
            what = what.rpartition(" (")[0] if what.count("(") > what.count(")") else what
            note = what if len(what) > LINE / 4 else note
        lines["note"] = _short(note, room) + more
    if results.saved_model:
        lines["saved"] = results.saved_model
    here = None if target is None else shlex.quote(target)
    if results.interrupted and here is not None:
        lines["next"] = f"tfopt apply {here} --resume"
    elif gained and here is not None:
        lines["keep it"] = f"tfopt train {here}"
        by_hand = f"{lines['keep it']}      by hand: tfopt export {here}"
        if len(by_hand) <= LINE:
            lines["keep it"] = by_hand
    elif results.next_steps:
        lines["next"] = _short(results.next_steps[0], REASON)
    return {**lines, "more": f"tfopt report {results.id[-4:]} --verbose      --html report.html"}


def has_gained(results: Results) -> bool:
    """Return whether the stack is worth keeping, by the objective of the measurement."""
    memory = results.comparison.headline_memory
    if memory is not None:
        return memory.verdict is MemoryVerdict.LIGHTER
    return results.comparison.verdict in GAINS and not results.interrupted


def _time(results: Results) -> Iterator[tuple[str, str]]:
    comparison = results.comparison
    pairs = pairs_of(results.runs)
    sides = compared_seconds(pairs, comparison.kind) if pairs else ""
    if comparison.speedup is None or not comparison.verdict.comparable or isinstance(sides, str):
        return
    before, after = (math.exp(math.fsum(map(math.log, side)) / len(side)) for side in sides)
    projected = ", projected" if comparison.kind is ComparisonKind.STEADY else ""
    interval = f"{comparison.low:.2f}x to {comparison.high:.2f}x"
    label = {ComparisonKind.STEPS: "steps", ComparisonKind.TIME_TO_TARGET: "to target"}
    yield (
        label.get(comparison.kind, "time"),
        f"{units.seconds_text(before)} -> {units.seconds_text(after)}{projected}      "
        f"{interval} ({comparison.confidence:.0%}, {comparison.pairs} pairs)",
    )


def _quality(results: Results) -> Iterator[tuple[str, str]]:
    quality = results.comparison.quality
    if quality is None or quality.baseline is None or quality.optimized is None:
        return
    known = ""
    if quality.verdict is QualityVerdict.CERTIFIED:
        known = ", the same training"
    elif quality.tolerance is not None:
        known = f" (allowed: {quality.tolerance:.4g} worse)"
    yield "quality", f"{quality.metric} {quality.baseline:.4g} -> {quality.optimized:.4g}{known}"


def _memory(results: Results) -> Iterator[tuple[str, str]]:
    judged = results.comparison.judged_memory
    verdict = None if judged is None else judged.verdict
    for row in memory_rows(results)[-1:]:
        told = [row.gain, "inconclusive"] if verdict is MemoryVerdict.INCONCLUSIVE else [row.gain]
        if verdict is MemoryVerdict.NO_DIFFERENCE:
            told = ["about the same"]
        change = ", ".join(filter(None, told))
        yield "memory", f"{row.baseline} -> {row.optimized}" + (f" ({change})" if change else "")


def _plugins(results: Results) -> Iterator[tuple[str, str]]:
    facts = plugin_facts(results)
    took = [fact.name for fact in facts if fact.mark == APPLIED]
    others = [f"{fact.name} {fact.text}" for fact in facts if fact.mark != APPLIED]
    effect = f"{', '.join(took)}: {'all ' if not others and len(took) > 1 else ''}took effect"
    parts = [*([effect] if took else []), *others]
    if parts:
        yield "plugins", _short("; ".join(parts))


def _short(text: str, longest: int = LINE) -> str:
    """Return a text on one line, cut at a word if it is longer; one long word is cut anywhere."""
    line = " ".join(text.split())
    if len(line) <= longest:
        return line
    kept = line[: longest - 3]
    return f"{kept.rpartition(' ')[0] or kept} ..."
