"""Prove the winner and write its recipe: what each plugin earned, what was tried and dropped."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.diagnosis.draft import sealed
from tfopt_core.hooks.machine import machine_in_words
from tfopt_core.recipe.model import PluginEntry, Recipe
from tfopt_core.recipe.writing import PlannedPlugin, recipe_text
from tfopt_core.statistics.results import Verdict
from tfopt_core.tuning.candidates import against, with_options
from tfopt_core.tuning.results import TrialOutcome, TuneResult, values_below

# A winner that its fresh pairs refute is no recipe.
REFUTED = frozenset({
    Verdict.SLOWER, Verdict.STEPS_SLOWER, Verdict.NO_DIFFERENCE, Verdict.WORSE,
    Verdict.NOT_APPLIED, Verdict.DOES_NOT_FIT, Verdict.VOID, Verdict.SUSPICIOUS, Verdict.UNLIKE,
})  # fmt: skip


# The fresh pairs get what the search has left of the budget, and at least this share of it.
LEAST_PROOF_SHARE = 0.25


def proof_recipe(recipe: Recipe, result: TuneResult, *, path: Path, seconds: float) -> Recipe:
    """Return the recipe of the fresh pairs: the winner's, as `tfopt apply` measures it, with as
    many pairs as the budget holds. Where options were tuned, the baseline has the untuned ones.

    :param path: where the winner's recipe will lie. Only its name is taken: the paths in the recipe
        start in the folder of the one that was tuned.
    :param seconds: the budget of the fresh pairs.
    """
    entries = tuple(PluginEntry(one.name, dict(one.settings)) for one in result.stack)
    tuned = against(with_options(recipe, result.tuned_options), recipe)
    measured = attrs.evolve(
        tuned.measure, pairs=None, budget_seconds=seconds, attribution="off",
        objective=result.objective,
    )  # fmt: skip
    if recipe.path is not None:
        path = recipe.path.with_name(path.name)
    return attrs.evolve(tuned, plugins=entries, measure=measured, path=path)


def why_not_written(result: TuneResult) -> str:
    """Return why the winner gets no recipe; empty if it gets one."""
    proof = result.proof
    if proof is not None and (proof.comparison.verdict in REFUTED or not result.has_winner):
        return f"the fresh pairs do not confirm the search: {proof.comparison.headline}"
    if result.has_winner:
        return ""
    if result.interrupted:
        return "the search was interrupted before anything helped"
    return "nothing that was tried helps here" if result.trials else "nothing was tried"


def winner_text(result: TuneResult, recipe: Recipe, folder: Path) -> str:
    """Return the text of the winner's recipe.

    :param recipe: the recipe that was tuned.
    :param folder: where the file will lie, from which its paths start.
    """
    in_stack = [one.name for one in result.stack]
    left_out = {
        one.plugin: one
        for one in result.trials
        if one.plugin not in in_stack and one.outcome is not TrialOutcome.STAYS
    }
    # the search compared with the recipe as it was, not with its baseline
    tuned = against(with_options(recipe, result.tuned_options), recipe)
    measure = {**tuned.measure.to_dict(), "objective": result.objective}
    if result.objective == "time-to-target" and measure.get("seconds") != "whole":
        measure.pop("seconds", None)  # a run that is cut may never reach a target
    if "pairs" in measure:
        measure.pop("budget", None)  # a fixed number of pairs takes as long as it takes
    text = recipe_text(
        name=recipe.name,
        description=f"The best stack that `tfopt tune` found for {result.workload}.",
        workload=workload_table(tuned, folder),
        plugins=[
            *(PlannedPlugin(
                one.name, one.settings,
                " ".join((why_in(one.name, result), *changed_words(result, "plugins", one.name))),
              ) for one in result.stack),
            *(PlannedPlugin(one.plugin, {}, f"tried {one.in_words}", enabled=False)
              for one in left_out.values()),
        ],
        measure=measure,
        heading=list(_heading(result)),
        notes={
            "workload": " ".join(changed_words(result, "options")),
            "measure.baseline": "as it was before the search",
        },
    )  # fmt: skip
    return sealed(text)


def changed_words(result: TuneResult, *path: str) -> Iterator[str]:
    """Yield a sentence for each changed value below a key: what it replaces."""
    found = result.settings
    if found is None:
        return
    untuned = values_below(found.untuned, *path)
    for name, value in values_below(found.best, *path).items():
        before = untuned.get(name)
        instead = "" if before is None else f", in place of {json.dumps(before)}"
        yield f"{name} = {json.dumps(value)}{instead}."


def why_in(plugin: str, result: TuneResult) -> str:
    """Return what a plugin of the winner showed in the trials of the search."""
    shown = (TrialOutcome.IN, TrialOutcome.STAYS)
    words = [
        one.in_words for one in result.trials if plugin in one.plugins and one.outcome in shown
    ]
    return f"{'; '.join(words)}. These figures chose it; they are no gain." if words else ""


def workload_table(recipe: Recipe, folder: Path) -> dict[str, Any]:
    """Return the `[workload]` table of a recipe for a file in another folder."""
    table = dict(recipe.workload.to_dict())
    here, there = recipe.directory.resolve(), folder.resolve()
    if here == there:
        return table
    place, colon, name = str(table.get("factory", "")).rpartition(":")
    if place.endswith(".py"):
        table["factory"] = f"{_moved(place, here, there)}{colon}{name}"
    if "script" in table:
        table["script"] = _moved(table["script"], here, there)
    if recipe.workload.is_script:
        table["folder"] = _moved(table.get("folder", "."), here, there)
    return table


def _moved(place: str, here: Path, there: Path) -> str:
    return place if os.path.isabs(place) else os.path.relpath(here / place, there)


def _heading(result: TuneResult) -> Iterator[str]:
    yield (
        f"Found by `tfopt tune` ({result.id}) on {machine_in_words(result.machine)}; on another "
        "machine another stack may be best. Measure it again with `tfopt apply` and this file; "
        "every line may be changed."
    )
    yield ""
    proof = result.proof
    if proof is None or proof.interrupted:
        yield "Not proved: interrupted before the fresh pairs were done, so no gain is known."
    else:
        yield f"By fresh pairs, measured as {proof.id}: {proof.comparison.headline}."
        if proof.comparison.quality is not None:
            yield f"{proof.comparison.quality.statement}."
    if result.statement:
        yield f"{result.statement[0].upper()}{result.statement[1:]}."
    for bound in result.bounds:
        on = f"with {', '.join(bound.stack)}" if bound.stack else "without plugins"
        yield f"What bounds a step {on}: {bound.sentence}."
