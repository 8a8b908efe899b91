"""The proof of a winner: the recipe of its fresh pairs, and what they say of the search."""

from __future__ import annotations

from pathlib import Path

import attrs

from tfopt_core.recipe import Objective, PluginEntry, Recipe
from tfopt_core.recipe.model import PAIRS
from tfopt_core.records.results import Results
from tfopt_core.tuning.results import SettingsProof, TuneResult
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
    """Return the result with its proof, and what search and proof took."""
    return _ended(attrs.evolve(result, proof=proof), proof)


def with_settings_proof(result: TuneResult, proof: SettingsProof) -> TuneResult:
    """Return the result with the proof of its values, and what search and proof took."""
    assert result.settings is not None
    settings = attrs.evolve(result.settings, proof=proof)
    return _ended(attrs.evolve(result, settings=settings), proof)


def _ended(result: TuneResult, proof: Results | SettingsProof) -> TuneResult:
    # with the seconds of values that were not confirmed
    seconds = proof.seconds + result.proof_seconds
    why_ended = result.why_ended
    if proof.interrupted:
        why_ended = "interrupted among the fresh pairs; --resume makes them anew"
    return attrs.evolve(
        result, interrupted=proof.interrupted, why_ended=why_ended, proof_seconds=seconds,
        statement=f"the search took {result.search_seconds:.0f} s and its proof {seconds:.0f} s",
    )  # fmt: skip
