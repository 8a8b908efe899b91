"""Render what `tfopt apply train.py` prints before and after it measures its proposal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Group, RenderableType

from tfopt_core.diagnosis.draft import (
    NOT_HOPEFUL,
    Draft,
    LeftOut,
    NothingToMeasure,
    shares_of,
    untried,
    why_chosen,
)
from tfopt_core.hooks.installed.suggest import Suggestion
from tfopt_core.records.diagnosis import Diagnosed
from tfopt_core.report.diagnosis import Bar, render_epoch
from tfopt_core.report.results.sections import findings_section
from tfopt_core.report.style import units
from tfopt_core.report.style.console import plain
from tfopt_core.report.style.layout import Fact, Facts, grid, listed, paragraph, section, words
from tfopt_core.report.style.vocabulary import finding_in_words, settings_in_words

NOT_EXACT = "Proposed on top of it, not exact"
NO_EXACT_STACK = "not exact, and all that seems to save time here"
OTHERWISE = "The same with settings that round differently."


def render_look(draft: Draft) -> RenderableType:
    """Return where a step's time goes, and the proposal."""
    diagnosed = draft.diagnosed
    told = "  ".join(f"{name} {share:.0%}" for name, share in shares_of(diagnosed))
    what = "An update in the loop" if diagnosed.own_loop else "A step"
    return Group(
        section(
            f"{what} of {draft.script} takes {units.seconds_text(diagnosed.step_seconds)}",
            Bar(diagnosed),
            words(told, "dim"),
            *_of_own_loop(diagnosed),
        ),
        *render_epoch(diagnosed),
        listed("Found", map(finding_in_words, diagnosed.findings)),
        section("Proposed", _proposed(draft, draft.stack)),
        *([section(NOT_EXACT, _proposed(draft, draft.additions))] if draft.additions else []),
    )


def _of_own_loop(diagnosed: Diagnosed) -> Sequence[RenderableType]:
    """Return how a training loop of the script's own is measured, empty for calls of `fit`."""
    if not diagnosed.own_loop:
        return ()
    return (
        paragraph(
            "The script trains in a loop of its own, without fit: each run is measured as a whole "
            f"({diagnosed.baseline.partition(', ')[2]}), and its steps are updates of an "
            "optimizer. Plugins that work through compile or fit do not reach it.",
            "dim",
        ),
    )


def _proposed(draft: Draft, chosen: Sequence[Suggestion]) -> RenderableType:
    if not chosen:
        if draft.additions:
            return words("nothing that trains exactly the same")
        return words("no installed plugin proposes anything for this training")
    above = {one.plugin for one in draft.stack} if chosen is draft.additions else set()
    return grid(
        (
            words(one.plugin, "bold"),
            paragraph(OTHERWISE if one.plugin in above else _why(one, draft.diagnosed)),
        )
        for one in chosen
    )


def _why(one: Suggestion, diagnosed: Diagnosed) -> str:
    """Return what a plugin is for, with the settings that are proposed for it."""
    settings = settings_in_words(one.settings)
    return why_chosen(one, diagnosed) + (f" With {settings}." if settings else "")


def render_written(draft: Draft, path: Path) -> RenderableType:
    """Return what is left of the proposal and where it was written."""
    if not draft.extended:
        return Group()
    shown = plain(str(path.name if path.parent == Path.cwd() else path))
    # without a # taken off, a recipe of comments trains as the script does
    trains = f"   (tfopt train {shown} runs the script with it)" if draft.stack else ""
    return Group(
        _left_out(draft.left_out),
        section("To be measured", _measured(draft)),
        *(() if draft.hopeful else ("", paragraph(NOT_HOPEFUL))),
        "",
        words(f"recipe: {shown}{trains}"),
    )


def _measured(draft: Draft) -> RenderableType:
    """Return what is measured: the stack, and what is not exact beside it."""
    names = [", ".join(one.plugin for one in part) for part in (draft.stack, draft.additions)]
    if not draft.stack:
        return paragraph(f"{names[1]}: {NO_EXACT_STACK}")
    rows = [Fact("the stack", f"{names[0]}: should not change the results; checked by a replay")]
    if draft.additions:
        rows.append(Fact("on top of it", f"{names[1]}: not exact, so the verdict leaves it out"))
    return Facts(rows)


def render_nothing_in_full(nothing: NothingToMeasure) -> RenderableType:
    """Return what bounds a step, what was tried, and that nothing is measured."""
    lines = [paragraph(sentence) for sentence in nothing.sentences]
    if any(one.estimate is not None for one in nothing.left_out):
        lines.append(
            paragraph("tfopt apply --measure-anyway measures the plugin that costs least", "dim")
        )
    title = "Nothing found so far" if untried(nothing.left_out) else "Nothing to gain"
    by_hand = findings_section(nothing.diagnosis.findings)
    return Group(_left_out(nothing.left_out, "Tried"), section(title, *lines), by_hand)


def _left_out(left_out: Sequence[LeftOut], title: str = "Left out") -> RenderableType:
    return listed(title, (f"{one.plugin}: {one.reason}" for one in left_out))
