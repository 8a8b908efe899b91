"""Render what `tfopt diagnose` prints (the parts of a step, bounds, findings and suggestions), and
`tfopt apply train.py` before and after it measures its proposal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.measure import Measurement
from rich.text import Text

from tfopt_core.diagnosis.draft import (
    NOT_HOPEFUL,
    Draft,
    LeftOut,
    NothingToMeasure,
    shares_of,
    untried,
    why_chosen,
)
from tfopt_core.diagnosis.results import Diagnosed, EpochPart, StepPart
from tfopt_core.hooks.installed.suggest import Suggestion
from tfopt_core.hooks.machine import machine_in_words
from tfopt_core.hooks.plugin_class import EQUIVALENCE_IN_WORDS
from tfopt_core.recipe.writing import PlannedPlugin, plugin_text
from tfopt_core.report.results.sections import findings_section
from tfopt_core.report.style import units
from tfopt_core.report.style.console import plain
from tfopt_core.report.style.layout import (
    Bullets,
    Fact,
    Facts,
    Page,
    grid,
    indented,
    listed,
    paragraph,
    section,
    words,
)
from tfopt_core.report.style.vocabulary import finding_in_words, settings_in_words
from tfopt_core.statistics.intervals import bound_in_words

BAR_WIDTH = 60
# The sign of each part in the bar and beside its name, also where the terminal's encoding has no
# blocks, and the colour.
SIGNS = {
    "input": ("█", "#", "yellow"), "dispatch": ("▓", "=", "magenta"), "compute": ("░", ".", "cyan"),
}  # fmt: skip
MEANINGS = {
    "input": "waiting for the next batch",
    "dispatch": "Python, Keras and starting the graph",
    "compute": "the model, its gradients and updates",
}
NOT_EXACT = "Proposed on top of it, not exact"
NO_EXACT_STACK = "not exact, and all that seems to save time here"
OTHERWISE = "The same with settings that round differently."
OWN_LOOP = (
    "The script trains in a loop of its own, without fit: each run is measured as a whole ({}), "
    "and its steps are updates of an optimizer. Plugins that work through compile or fit do not "
    "reach it."
)


def render_diagnosis(diagnosed: Diagnosed, target: str) -> RenderableType:
    """Return the whole page.

    :param target: the recipe, as the user named it.
    """
    step = "An update in the script's own loop" if diagnosed.own_loop else "A step"
    silent = (f"{one.plugin} ({one.distribution}): {one.cause}" if one.distribution
              else f"{one.plugin}: {one.cause}" for one in diagnosed.silent)  # fmt: skip
    took = f"took {units.seconds_text(diagnosed.seconds)}; nothing is stored"
    return Page((
        words(diagnosed.recipe or target, "bold"),
        indented(Facts(_facts(diagnosed))),
        section(f"{step} takes {units.seconds_text(diagnosed.step_seconds)}",
                Bar(diagnosed), _parts(diagnosed)),
        *render_epoch(diagnosed),
        section("The most that can be gained", _bounds(diagnosed), _matmul(diagnosed)),
        section("Found", Bullets(map(finding_in_words, diagnosed.findings))
                or words("nothing that costs time by itself")),
        section("Worth trying, in this order", *_suggestions(diagnosed, target)),
        listed("Gave no answer", silent),
        listed("Warnings", diagnosed.warnings),
        "",
        words(took, "dim"),
    ))  # fmt: skip


def _facts(diagnosed: Diagnosed) -> Iterator[Fact]:
    if diagnosed.stack:
        yield Fact("diagnosed", f"with the stack: {', '.join(diagnosed.stack)}")
    else:
        baseline = diagnosed.baseline.strip().removesuffix(".")
        yield Fact("diagnosed", f"the baseline: {baseline}" if baseline else "the baseline")
    # whether a loop of the script's own uses XLA is not known
    xla = "" if diagnosed.own_loop else ", XLA on" if diagnosed.jit_compile else ", XLA off"
    count = units.count_text(diagnosed.trainable_parameters)
    yield Fact("model", f"{count} trainable parameters, dtype policy {diagnosed.policy}{xla}")
    yield Fact("machine", machine_in_words(diagnosed.machine))


@attrs.frozen
class Bar:
    """A whole step as one line, each part as long as its share."""

    diagnosed: Diagnosed

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        width = min(BAR_WIDTH, options.max_width)
        line = Text(no_wrap=True)
        shares = {name: getattr(self.diagnosed, name).share for name in SIGNS}
        for name, length in lengths(shares, width).items():
            line.append(SIGNS[name][options.ascii_only] * length, SIGNS[name][2])
        yield line


def lengths(shares: Mapping[str, float], width: int) -> dict[str, int]:
    """Return whole numbers that sum to the width, in proportion to the shares."""
    exact = {name: share * width for name, share in shares.items()}
    whole = {name: int(length) for name, length in exact.items()}
    # the rounding remainder goes to the parts that lost most
    by_loss = sorted(exact, key=lambda name: whole[name] - exact[name])
    for name in by_loss[: width - sum(whole.values())]:
        whole[name] += 1
    return whole


@attrs.frozen
class _Legend:
    """A part's sign in the bar, and its name."""

    name: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        yield Text(f"{SIGNS[self.name][options.ascii_only]} {self.name}", SIGNS[self.name][2])

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        width = len(self.name) + 2
        return Measurement(width, width)


def _parts(diagnosed: Diagnosed) -> RenderableType:
    rows: list[tuple[RenderableType, ...]] = []
    for name in SIGNS:
        part: StepPart = getattr(diagnosed, name)
        meaning = MEANINGS[name]
        if not diagnosed.dispatch_known and name != "input":
            meaning = "not known" if name == "dispatch" else "dispatch and compute, not told apart"
        seconds = units.seconds_text(getattr(diagnosed, f"{name}_seconds"))
        rows.append((_Legend(name), seconds, _share(part), words(meaning, "dim")))
    if diagnosed.own_loop:
        return grid(rows)
    alone = f"read alone, a batch takes {units.seconds_text(diagnosed.data_seconds)}"
    notes = [f"{alone}; medians of {units.counted(len(diagnosed.rounds), 'round')}"]
    parts = {name: getattr(diagnosed, name) for name in SIGNS}
    # a round measured none of it
    if noisy := [name for name, part in parts.items() if part.low <= 0 < part.share]:
        notes.append(f"{' and '.join(noisy)}: too small to measure")
    return Group(grid(rows), *(words(note, "dim") for note in notes))


def _share(part: StepPart) -> str:
    """Return the share over all rounds and the range of single rounds: `13% (12 to 15%)`."""
    low, high = (round(100 * min(1.0, max(0.0, share))) for share in (part.low, part.high))
    between = "" if low == high else f" ({low} to {high}%)"
    return f"{part.share:.0%}{between}"


def render_epoch(diagnosed: Diagnosed) -> Iterator[RenderableType]:
    """Yield the section on a whole epoch, if something besides its steps was looked at."""
    if not diagnosed.epoch_parts:
        return
    steps = diagnosed.steps_per_epoch
    all_steps = EpochPart(name="steps", note="of an unknown number")
    if steps is not None:
        seconds = steps * diagnosed.step_seconds
        all_steps = EpochPart(name="steps", seconds=seconds, note=f"{steps:,} steps")
    parts = (all_steps, *diagnosed.epoch_parts)
    total = sum(part.seconds or 0.0 for part in parts)
    known = steps is not None and total > 0
    title = "An epoch takes" if known else "Besides its steps an epoch takes"
    rows = [
        (part.name,
         "" if part.seconds is None else units.seconds_text(part.seconds),
         "" if part.seconds is None or not known else f"{part.seconds / total:.0%}",
         words(part.note, "dim"))
        for part in parts
    ]  # fmt: skip
    yield section(f"{title} {units.seconds_text(total)}", grid(rows))


def _bounds(diagnosed: Diagnosed) -> RenderableType:
    bounds = diagnosed.bounds
    rows = [
        ("any input plugin", bounds.input, "cache, prefetch, parallel maps"),
        ("any dispatch plugin", bounds.dispatch, "more steps a call"),
        ("any compute plugin", bounds.compute, "precision, compilers, threads"),
        ("input and dispatch", bounds.input_and_dispatch, "all but the model itself"),
    ]
    return grid(
        (name, words(bound_in_words(bound) or "unlimited", "bold"), words(example, "dim"))
        for name, bound, example in rows
    )


def _matmul(diagnosed: Diagnosed) -> RenderableType | None:
    if diagnosed.matmul_share is None:
        return None
    peaks = (f"{dtype} {_rate(rate)}" for dtype, rate in diagnosed.matmul_peaks.items())
    return paragraph(
        f"While it computes in {diagnosed.policy.removeprefix('mixed_')}, the model reaches "
        f"{diagnosed.matmul_share:.1%} of this machine's matrix-product peak (measured here: "
        f"{', '.join(peaks)})"
    )


def _rate(operations: float) -> str:
    for scale, unit in ((1e12, "T"), (1e9, "G")):
        if operations >= scale:
            return f"{units.rate_text(operations / scale)} {unit}FLOP/s"
    return f"{units.rate_text(operations / 1e6)} MFLOP/s"


def _suggestions(diagnosed: Diagnosed, target: str) -> Iterator[RenderableType]:
    if not diagnosed.suggestions:
        yield words("no installed plugin proposes anything for this training")
        return
    yield grid(
        (f"{number}.", words(one.plugin, "bold"),
         f"at most about {bound}" if (bound := bound_in_words(one.bound)) else "",
         _about(one))
        for number, one in enumerate(diagnosed.suggestions, start=1)
    )  # fmt: skip
    by_name = {one.plugin: one for one in diagnosed.suggestions}
    if stack := [by_name[name] for name in diagnosed.proposed_stack]:
        yield Group("", words(_how(target, diagnosed), "dim"), "")
        yield indented(paragraph(snippet(stack)))


def _about(suggestion: Suggestion) -> RenderableType:
    notes = [suggestion.summary.rstrip(".")] if suggestion.summary else []
    if settings := settings_in_words(suggestion.settings):
        notes.append(settings)
    if suggestion.equivalence != "exact":
        notes.append(EQUIVALENCE_IN_WORDS.get(suggestion.equivalence, suggestion.equivalence))
    if suggestion.left_out:
        notes.append(f"not below: {suggestion.left_out}")
    return words("; ".join(notes), "dim")


def _how(target: str, diagnosed: Diagnosed) -> str:
    if target.endswith(".py"):
        return f"To measure them: tfopt apply {target}; in a recipe they are"
    recipe = target if target.endswith(".toml") else f"{target}.toml"
    copy = "" if target.endswith(".toml") else f"tfopt recipes copy {target}; "
    place = "in place of its plugins" if not diagnosed.stack else "after its plugins"
    return f"To measure them: {copy}write this into {recipe} {place}, then tfopt apply {recipe}"


def snippet(suggestions: Sequence[Suggestion]) -> str:
    """Return the suggestions as `[[plugins]]` tables of a recipe: the exact ones, and what is not
    exact as comments."""
    planned = (
        PlannedPlugin(one.plugin, (one.exactly or one).settings, commented=one.exactly is None)
        for one in suggestions
    )
    return "\n".join(plugin_text(one).rstrip() for one in planned)


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
            paragraph(OWN_LOOP.format(diagnosed.baseline.partition(", ")[2]), "dim")
            if diagnosed.own_loop else None,
        ),
        *render_epoch(diagnosed),
        listed("Found", map(finding_in_words, diagnosed.findings)),
        section("Proposed", _proposed(draft, draft.stack)),
        section(NOT_EXACT, _proposed(draft, draft.additions) if draft.additions else None),
    )  # fmt: skip


def _proposed(draft: Draft, chosen: Sequence[Suggestion]) -> RenderableType:
    if not chosen:
        if draft.additions:
            return words("nothing that trains exactly the same")
        return words("no installed plugin proposes anything for this training")
    above = {one.plugin for one in draft.stack} if chosen is draft.additions else set()
    rows = []
    for one in chosen:
        settings = settings_in_words(one.settings)
        why = why_chosen(one, draft.diagnosed) + (f" With {settings}." if settings else "")
        why = OTHERWISE if one.plugin in above else why
        rows.append((words(one.plugin, "bold"), paragraph(why)))
    return grid(rows)


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
        command = nothing.command("--measure-anyway")
        lines.append(paragraph(f"{command} measures the plugin that came out best", "dim"))
    title = "Nothing found so far" if untried(nothing.left_out) else "Nothing to gain"
    by_hand = findings_section(nothing.diagnosis.findings)
    return Group(_left_out(nothing.left_out, "Tried"), section(title, *lines), by_hand)


def _left_out(left_out: Sequence[LeftOut], title: str = "Left out") -> RenderableType:
    return listed(title, (f"{one.plugin}: {one.reason}" for one in left_out))
