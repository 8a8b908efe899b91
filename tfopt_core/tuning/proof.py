"""The proof of a winner: the recipe of its fresh pairs, and what they say of the search."""

from __future__ import annotations

from pathlib import Path

import attrs

from tfopt_core.recipe import Objective, PluginEntry, Recipe
from tfopt_core.recipe.model import PAIRS
from tfopt_core.records.results import Results
from tfopt_core.records.settings_search import SettingsProof
from tfopt_core.records.tuning import TuneResult
from tfopt_core.tuning.repayment import saved_seconds, trainings_to_repay
from tfopt_core.tuning.stacks import Stack

# The fresh pairs get what the search has left of the budget, and at least this share of it.
LEAST_PROOF_SHARE = 0.25


def proof_recipe(
    recipe: Recipe, stack: Stack, *, objective: Objective, path: Path, seconds: float
) -> Recipe:
    """Return the recipe of the fresh pairs: the winner's, as `tfopt apply` measures it, with as
    many pairs as the budget holds.

    :param path: where the winner's recipe will lie. Only its name is taken: the paths in the recipe
        start in the folder of the one that was tuned.
    :param seconds: the budget of the fresh pairs.
    """
    measured = attrs.evolve(
        recipe.measure, pairs=PAIRS, budget_seconds=seconds, attribution="off",
        objective=objective, baseline=None,
    )  # fmt: skip
    entries = tuple(PluginEntry(one.name, dict(one.settings)) for one in stack)
    if recipe.path is not None:
        path = recipe.path.with_name(path.name)
    return attrs.evolve(recipe, plugins=entries, measure=measured, path=path)


def proved(result: TuneResult, proof: Results) -> TuneResult:
    """Return the result with its proof, and after how many trainings the search is repaid."""
    return _repaid(
        attrs.evolve(
            result, proof=proof, interrupted=proof.interrupted,
            why_ended="interrupted among the fresh pairs; --resume makes them anew"
            if proof.interrupted else result.why_ended,
        ),
        proof.seconds, saved_seconds(proof),
    )  # fmt: skip


def with_settings_proof(result: TuneResult, proof: SettingsProof) -> TuneResult:
    """Return the result with the proof of its values, and after how many trainings it is repaid."""
    assert result.settings is not None
    saved = None
    if proof.confirmed and result.objective == "time-to-target":
        known = [(one.untuned, one.tuned) for one in proof.pairs if not one.failure]
        both = [(before, after) for before, after in known if before and after]
        saved = sum(before - after for before, after in both) / len(both) if both else None
    return _repaid(
        attrs.evolve(
            result, settings=attrs.evolve(result.settings, proof=proof),
            interrupted=proof.interrupted,
            why_ended="interrupted among the fresh pairs; --resume makes them anew"
            if proof.interrupted else result.why_ended,
        ),
        proof.seconds, saved,
    )  # fmt: skip


def _repaid(result: TuneResult, proof_seconds: float, saved: float | None) -> TuneResult:
    """Return the result with what search and proof cost.

    :param saved: the seconds that each training saves, None without a shown gain.
    """
    proof_seconds += result.proof_seconds  # of values that were not confirmed
    cost = result.search_seconds + proof_seconds
    repaid = trainings_to_repay(cost, saved)
    took = f"the search took {result.search_seconds:.0f} s and its proof {proof_seconds:.0f} s"
    if result.objective == "quality":
        statement = took
    elif repaid is None:
        statement = f"{took}; no gain of a whole training is shown that would repay them"
    else:
        trainings = "1 training" if repaid == 1 else f"{repaid:,} trainings"
        statement = f"{took}; {trainings} of this length repay them ({saved:.3g} s saved by each)"
    return attrs.evolve(
        result, proof_seconds=proof_seconds, saved_seconds=saved, repaid_after=repaid,
        statement=statement,
    )  # fmt: skip
