"""A workload whose quality is read on a part of its training data, for a search.

What steers a search is no proof: a search that read the validation data would choose what fits
them by chance. So a part of the training data is set aside in their place.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.data import DataPlan, Shuffle
from tfopt_core.data.anatomy import random_ops
from tfopt_core.errors import WorkloadError
from tfopt_core.lazy import np, tf
from tfopt_core.recipe.model import Recipe, WorkloadSpec
from tfopt_core.training.factory import load_workload
from tfopt_core.training.input.sources import as_plan
from tfopt_core.training.workload import Workload

PLACE = "tfopt_core.trials.holdout:build"
# The share of the training examples that is set aside, and the seed by which they are drawn: the
# same ones in each run.
SHARE, SEED = 0.2, 20_261_123


def with_holdout(recipe: Recipe) -> Recipe:
    """Return the recipe with its factory's workload, validated on a part of its training data."""
    spec = recipe.workload
    inner = {key: value for key, value in spec.to_dict().items() if key not in _OF_THE_RUN}
    options = {"workload": inner, "directory": str(recipe.directory)}
    outer = WorkloadSpec(
        factory=PLACE, epochs=spec.epochs, batch_size=spec.batch_size, options=options
    )
    return attrs.evolve(recipe, workload=outer)


_OF_THE_RUN = ("epochs", "batch_size")


def build(workload: Mapping[str, Any], directory: str) -> Workload:
    """Return a workload whose validation data are a fixed random part of its training data.

    :param workload: the `[workload]` table of its recipe.
    :param directory: where the paths of that table start from.
    :raises WorkloadError: if no part of its training data can be set aside.
    """
    recipe = Recipe(
        name="holdout", workload=WorkloadSpec(**workload), path=Path(directory) / "recipe.toml"
    )
    whole = load_workload(recipe)
    train, aside = split(as_plan(whole.train, "train"))
    return attrs.evolve(whole, train=train, validation=aside)


def split(plan: DataPlan, share: float = SHARE) -> tuple[DataPlan, DataPlan]:
    """Return the plan without a share of its examples, and a plan of those, in a fixed order.

    :raises WorkloadError: for data that are no arrays, or that are changed at random.
    """
    source = plan.source
    if source.origin != "arrays" or source.count is None or source.batched:
        raise WorkloadError(
            "no part of the training data can be set aside for the search: that needs arrays, or a "
            f"data set made of arrays, and these are {source.describe()}"
        )
    kept = tuple(stage for stage in plan.stages[1:] if not isinstance(stage, Shuffle))
    still = plan.with_stages((source, *kept))
    changed = [place for place in range(1, len(still.stages)) if random_ops(still, place)]
    if changed:
        raise WorkloadError(
            "no part of the training data can be set aside for the search: they are changed at "
            f"random ({still.stages[changed[0]].kind})"
        )
    order = np.random.default_rng(SEED).permutation(source.count)
    aside, rest = np.split(order, [max(1, round(share * source.count))])

    def chosen(indices: Any) -> Any:
        value = tf.nest.map_structure(lambda leaf: np.asarray(leaf)[indices], source.value)
        return attrs.evolve(source, value=value, count=len(indices))

    # in the given order, so that a training without shuffling stays one
    train = plan.with_stages((chosen(np.sort(rest)), *plan.stages[1:]))
    return train, plan.with_stages((chosen(np.sort(aside)), *kept))
