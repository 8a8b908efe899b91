"""The state of a measurement: its decisions so far, and how they are stored for a resume."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
from cattrs import Converter, unstructure

from tfopt_core.hooks.card import Equivalence
from tfopt_core.recipe import Recipe
from tfopt_core.records.dry_build import Prepared
from tfopt_core.records.variants import plus
from tfopt_core.statistics.certificate import Certificate
from tfopt_core.statistics.judgement import stack_equivalence
from tfopt_core.store.database import Store
from tfopt_core.trials.request import Request

_converter = Converter()


@attrs.frozen(kw_only=True)
class AddedStack:
    """The stack of the second contrast: the full one with additions that are not exact.

    :param additions: the plugins that the full stack lacks, or has with other settings.
    :param resolved: the settings of the whole stack, by plugin, in its order.
    :param equivalence: what it does to the mathematics.
    :param certificate: what a replay of it showed; None without one.
    """

    additions: tuple[str, ...]
    resolved: dict[str, dict[str, Any]]
    equivalence: Equivalence
    certificate: Certificate | None = None

    @property
    def variant(self) -> str:
        """The name of its runs."""
        return plus(self.additions)


def added_stack(prepared: Prepared, extended: Prepared) -> AddedStack:
    """Return the stack of the second contrast.

    :param prepared, extended: the dry builds of the stack, and of that with the additions.
    """
    return AddedStack(
        additions=additions_to(prepared.resolved, extended.resolved),
        resolved=extended.resolved,
        equivalence=stack_equivalence([plugin.equivalence for plugin in extended.plugins]),
    )


def additions_to(
    stack: Mapping[str, Mapping[str, Any]], extended: Mapping[str, Mapping[str, Any]]
) -> tuple[str, ...]:
    """Return the plugins of an extended stack that a stack lacks or has with other settings."""
    return tuple(name for name, settings in extended.items() if stack.get(name) != settings)


@attrs.frozen(kw_only=True)
class MeasurementState:
    """The decisions of a measurement so far.

    :param seed: the seed from which the order and the seeds of all groups are drawn.
    :param pairs: the number of groups.
    :param warm_seconds: how long each run trains behind its start; None to its end.
    :param isolating: whether plugins are left out in turn.
    :param one_after_other: why runs take no turns any more; "" while they do, or never did.
    :param certificate: the certificate of a replay; None until it is made, or if the stack changes
        the algorithm.
    :param resumed: how often the measurement was resumed.
    :param added: the stack of the second contrast; None without one.
    """

    seed: int
    pairs: int
    warm_seconds: float | None = None
    isolating: bool = False
    one_after_other: str = ""
    certificate: Certificate | None = None
    resumed: int = 0
    added: AddedStack | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, fit for JSON."""
        return dict(_converter.unstructure(self))

    @classmethod
    def from_dict(cls, data: Any) -> MeasurementState:
        """Return the state that `to_dict` wrote."""
        return _converter.structure(data, cls)


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
