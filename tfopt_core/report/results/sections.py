"""The sections of a measurement's report, which the console, Markdown and HTML write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tfopt_core.diagnosis.draft import NothingToMeasure
from tfopt_core.hooks.diagnosis import Finding
from tfopt_core.hooks.machine import machine_in_words
from tfopt_core.hooks.values import Effect
from tfopt_core.report.results.figures import figure_groups
from tfopt_core.report.style import units
from tfopt_core.report.style.layout import (
    Bullets,
    Fact,
    Facts,
    Line,
    Section,
    TablePart,
    indented,
    last_lines,
    listed,
    section,
    words,
)
from tfopt_core.report.style.vocabulary import (
    ADDITION_TITLES,
    color_of,
    each_setting_in_words,
    finding_in_words,
    variant_in_words,
)
from tfopt_core.statistics.results import (
    Addition,
    Comparison,
    ComparisonKind,
    MemoryVerdict,
    Quality,
    Results,
)
from tfopt_core.statistics.runs import BASELINE, FULL, RunResult
from tfopt_core.training.messages import OWN_LOOP

BY_HAND = "To change by hand"
# The marks of a plugin: that it took effect in all runs, in none, in some; or is not known.
APPLIED, NOT_APPLIED, MIXED, UNKNOWN = "✓", "✗", "!", "?"


def sections_of(results: Results) -> dict[str, Section]:
    """Return the sections that have something to say, by name, in the order of the console.

    What observers found has a section each, named "observed NAME".
    """
    found = {
        "facts": section("", Facts(_facts(results))),
        "figures": section("", *_figures(results)),
        "plugins": section("Plugins",
                           Facts(plugin_facts(results), ("plugin", "effect", "settings"))),
        "attribution": section("What each plugin contributes",
                               Facts(_shares(results), ("plugin", "share"))),
        **{f"observed {name}": _observed(name, one) for name, one in results.observed.items()},
        "failures": _failures(results),
        "verdict": verdict_section(results.comparison),
        "addition": _addition(results.addition),
        "warnings": listed("Warnings", results.warnings),
        "findings": findings_section(results.findings),
        "advice": listed("What to try next", results.next_steps),
    }  # fmt: skip
    return {name: part for name, part in found.items() if part.blocks}


def _facts(results: Results) -> Iterator[Fact]:
    """Yield the machine, the software, the baseline and the target, each with its name."""
    yield Fact("machine", machine_in_words(results.machine))
    if software := software_in_words(results.environment):
        yield Fact("software", software)
    yield Fact("baseline", _baseline(results))
    if results.target:
        yield Fact("target", results.target)


def software_in_words(versions: Mapping[str, str]) -> str:
    """Return `TensorFlow 2.21.0, Keras 3.12.0`, or "" if none is known."""
    names = (("TensorFlow", "tensorflow"), ("Keras", "keras"))
    return ", ".join(f"{label} {versions[key]}" for label, key in names if versions.get(key))


def _baseline(results: Results) -> str:
    compiled = {run.fit.jit_compile for run in results.of_variant(BASELINE) if run.fits}
    xla = "" if not compiled else "XLA on" if all(compiled) else "XLA off"
    if len(compiled) > 1:
        xla = "XLA in some runs"
    if any(fit.name == OWN_LOOP for run in results.runs for fit in run.fits):
        xla = ""  # which functions of the script are compiled is not known
    sentence = results.baseline.strip().removesuffix(".")
    return "; ".join(part for part in (sentence, xla) if part) or "not described"


def _figures(results: Results) -> Iterator[TablePart | Line]:
    if groups := figure_groups(results):
        yield TablePart(("", "baseline", "optimized", "gain", "interval"), groups, roomy=1)
        yield Line(_caption(results), "dim")


def _caption(results: Results) -> str:
    """Return what the rows of the figures are, and what their gains mean."""
    before, after = (len(results.of_variant(variant)) for variant in (BASELINE, FULL))
    alike = units.counted(before, "run")
    runs = alike if before == after else f"{before} and {after} runs"
    caption = f"Each row is the mean of {runs}; the verdict on time comes from the pairs."
    if results.comparison.kind is ComparisonKind.STEADY:
        caption += " Runs were cut short: the totals are projected."
    if results.comparison.kind is ComparisonKind.STEPS:
        caption += " Runs were cut short: no total is known."
    if results.ratios:
        caption += " Only gains larger than the noise are printed."
    return caption


def _observed(name: str, effect: Effect) -> Section:
    sentence = effect.detail if effect.applied else f"not applied: {effect.detail}"
    title = f"Observed by {name}, in an extra, untimed run"
    return section(title, Line(sentence), *effect_tables(effect))


def effect_tables(effect: Effect) -> tuple[TablePart, ...]:
    """Return the tables of an effect, each below its title."""
    return tuple(TablePart(one.columns, (one.rows,), one.title) for one in effect.tables)


def plugin_facts(results: Results) -> tuple[Fact, ...]:
    """Return the plugins in stack order, as the counted runs with the full stack report them: the
    settings of each, and by its mark whether it took effect."""
    runs = results.of_variant(FULL)
    names = dict.fromkeys((*results.resolved, *(name for run in runs for name in run.effects)))
    facts = []
    for name in names:
        mark, text = _effect(runs, name)
        settings = each_setting_in_words(results.resolved.get(name, {}))
        facts.append(Fact(name, text, settings, mark))
    return tuple(facts)


def _effect(runs: Sequence[RunResult], name: str) -> tuple[str, str]:
    effects = [run.effects[name] for run in runs if name in run.effects]
    applied = [effect.detail for effect in effects if effect.applied]
    reasons = _distinct(
        [effect.detail or "no reason was given" for effect in effects if not effect.applied]
    )
    if not runs:
        return UNKNOWN, "unknown: no run with the stack ended well"
    if not effects:
        return UNKNOWN, "unknown: no effect was reported"
    if not applied:
        return NOT_APPLIED, f"not applied: {reasons}"
    if not reasons and len(effects) == len(runs):
        details = _distinct(applied)
        return APPLIED, f"applied: {details}" if details else "applied"
    why = f"; otherwise not applied: {reasons}" if reasons else ""
    return MIXED, f"applied in {len(applied)} of {len(runs)} runs only{why}"


def _distinct(details: list[str]) -> str:
    """Return what was read back, without repeats; three or more different texts are abbreviated."""
    first, *others = [*dict.fromkeys(detail for detail in details if detail)] or [""]
    match others:
        case []:
            return first
        case [second]:
            return f"{first}; or {second}"
        case _:
            return f"{first}; or {len(others)} others"


def _shares(results: Results) -> Iterator[Fact]:
    """Yield the share of each isolated plugin; one that was not applied gets no number."""
    idle = {fact.name: fact.text for fact in plugin_facts(results) if fact.mark == NOT_APPLIED}
    for item in results.attribution:
        # the name is in the first column
        share = item.statement.removeprefix(f"{item.plugin}: ")
        yield Fact(item.plugin, idle.get(item.plugin, share))


def failures(results: Results) -> tuple[str, tuple[str, ...]]:
    """Return how many runs failed, in words, and each cause once with its variants."""
    failed = results.failed
    ended = "ran out of memory" if all(run.out_of_memory for run in failed) else "failed"
    causes = tuple(
        f"{cause} ({_of_whom([run for run in failed if _cause(run) == cause])})"
        for cause in dict.fromkeys(map(_cause, failed))
    )
    return f"{len(failed)} of {len(results.runs)} runs {ended}", causes


def _failures(results: Results) -> Section:
    if not results.failed:
        return section("")
    title, causes = failures(results)
    first = results.failed[0]
    where = f"output of run {first.id}: {first.output_path}" if first.output_path else ""
    # only the console shows the output
    output = last_lines(first.output_tail)
    return section(title, Bullets(causes), words(where, "dim"), output and indented(output))


def _cause(run: RunResult) -> str:
    cause = (run.error or "").strip() or "no cause is known"
    if run.out_of_memory and not cause.startswith("out of memory"):
        return f"out of memory: {cause}"
    return cause


def _of_whom(runs: list[RunResult]) -> str:
    """Return the variants of runs with their counts: `baseline, with the stack 3 times`."""
    counts = Counter(variant_in_words(run.variant) for run in runs)
    return ", ".join(f"{name} {n} times" if n > 1 else name for name, n in counts.items())


def verdict_section(comparison: Comparison) -> Section:
    """Return what was tested and the result, the headline first. Only this section claims a gain of
    the stack."""
    memory, color = comparison.headline_memory, color_of(comparison.headline_verdict)
    lines = [Line(comparison.headline, color, headline=True)]
    lines += _quality(comparison.quality)
    if memory is not None:
        lines.append(Line(comparison.statement))
    lines += (
        Line(item.statement) for item in comparison.memory
        # measuring ends once the time is settled, so that this is the rule and tells nothing
        if item is not memory and item.verdict is not MemoryVerdict.INCONCLUSIVE
    )  # fmt: skip
    return section("Verdict", *lines, color=color)


def _quality(quality: Quality | None) -> Iterator[Line]:
    if quality is not None:
        yield Line(quality.statement, color_of(quality.verdict))
        if quality.certificate and quality.certificate not in quality.statement:
            yield Line(quality.certificate)


def _addition(addition: Addition | None) -> Section:
    """Return what is added on top of an exact stack, and what is known of its model's quality."""
    if addition is None:
        return section("")
    title = ADDITION_TITLES.get(addition.equivalence, "On top of the stack")
    lines = (Line(addition.statement, color_of(addition.verdict)), *_quality(addition.quality))
    return section(f"{title}: {' and '.join(addition.plugins)}", *lines)


def nothing_sections(nothing: NothingToMeasure) -> tuple[Section, ...]:
    """Return the report on a script for which nothing was worth measuring."""
    why, *more = nothing.sentences
    reasons = Facts(Fact(one.plugin, one.reason) for one in nothing.left_out)
    parts = (
        section("Verdict", Line(why, "yellow", True), *map(Line, more), color="yellow"),
        findings_section(nothing.diagnosis.findings),
        section("Left out, and why", reasons),
    )
    return tuple(part for part in parts if part.blocks)


def findings_section(findings: Sequence[Finding]) -> Section:
    """Return what a look at a script found to change by hand."""
    return listed(BY_HAND, map(finding_in_words, findings))
