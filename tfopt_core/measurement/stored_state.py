"""What the store holds of a measurement besides its runs, to resume it."""

from __future__ import annotations

from collections.abc import Callable

from cattrs import unstructure

from tfopt_core.measurement.state import MeasurementState
from tfopt_core.recipe import Recipe
from tfopt_core.records.dry_build import Prepared
from tfopt_core.store.database import Store
from tfopt_core.trials.request import Request


def stored_request(
    request: Request, prepared: Prepared, state: MeasurementState, code: dict[str, str]
) -> dict[str, object]:
    """Return what the store holds of a measurement besides its runs, to resume it."""
    return {
        "recipe": request.recipe.to_dict(),
        "recipe_path": recipe_path(request.recipe),
        "seed": state.seed,
        "resolved": prepared.resolved,
        "prepared": unstructure(prepared),
        "course": state.to_dict(),
        "fingerprint": code,
    }


def recipe_path(recipe: Recipe) -> str | None:
    """Return the path of a recipe, by which its measurements are found again."""
    return None if recipe.path is None else str(recipe.path.resolve())


def state_writer(
    store: Store, request: Request, prepared: Prepared, code: dict[str, str]
) -> Callable[[MeasurementState], None]:
    """Return a function that stores the state of a measurement."""

    def keep(state: MeasurementState) -> None:
        store.update_request(request.folder.name, stored_request(request, prepared, state, code))

    return keep
