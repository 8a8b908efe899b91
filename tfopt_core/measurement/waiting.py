"""Additions to a stack that are found once the first verdict on it is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from tfopt_core.measurement import progress
from tfopt_core.measurement.certifying import certificates
from tfopt_core.measurement.fingerprint import fingerprint
from tfopt_core.measurement.planned_runs import PlannedRuns
from tfopt_core.measurement.progress import Observer
from tfopt_core.measurement.state import AddedStack, additions_to
from tfopt_core.measurement.stored_state import state_writer
from tfopt_core.records.dry_build import Prepared
from tfopt_core.records.variants import Variant
from tfopt_core.statistics.judgement import stack_equivalence
from tfopt_core.store.database import Store
from tfopt_core.trials.request import Request
from tfopt_core.workers.spawn import Runner


@attrs.frozen
class Waiting:
    """What is not exact and waits for the first verdict, to be tried on top of the stack.

    :param names: the plugins.
    :param find: tries them and returns the dry build of the stack with those that stay, and its
        request; None if none stays. Called with a function that reports what is done.
    :param seconds: about how long that takes.
    :param code: the fingerprint of the code when measuring began.
    """

    names: tuple[str, ...]
    find: Callable[[Callable[[str], None]], tuple[Prepared, Request] | None]
    seconds: float = 0.0
    code: Mapping[str, str] = attrs.field(factory=dict)


def added_stack(prepared: Prepared, extended: Prepared, first_round: int = 0) -> AddedStack:
    """Return the stack of the second contrast.

    :param prepared, extended: the dry builds of the stack, and of that with the additions.
    """
    return AddedStack(
        first_round=first_round,
        additions=additions_to(prepared.resolved, extended.resolved),
        resolved=extended.resolved,
        equivalence=stack_equivalence([plugin.equivalence for plugin in extended.plugins]),
    )


def add_waiting(
    waiting: Waiting, planned: PlannedRuns, rounds: int, runner: Runner, store: Store,
    observer: Observer,
) -> bool:  # fmt: skip
    """Try what waits, and plan the second contrast with what stays. Return whether anything does.

    :param rounds: those that were made.
    :raises OSError: if what is written meanwhile finds no place.
    """
    found = waiting.find(lambda text: observer(progress.Noted(text)))
    if found is None:
        return False
    extended, resolved = found
    request = attrs.evolve(planned.request, added=resolved.plugins)
    added = added_stack(planned.prepared, extended, rounds)
    [certificate] = certificates(
        request, planned.prepared, [(Variant(added.variant, request.added), added.equivalence)],
        seed=planned.state.seed or 1, pace=planned.pace, runner=runner, observer=observer,
        after_verdict=True,
    )  # fmt: skip
    planned.request = request
    # with the code of the additions; the rest is as it was before the first run
    code = {**fingerprint(request), **waiting.code}
    planned.keep_state = state_writer(store, request, planned.prepared, code)
    planned.decide(added=attrs.evolve(added, certificate=certificate))
    return True
