"""Make a whole measurement: dry build, rounds, looks, verdict. Each run is stored when it ends."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import attrs

from tfopt_core.errors import InputError
from tfopt_core.hooks.card import Equivalence
from tfopt_core.measurement import progress
from tfopt_core.measurement.certifying import certificates
from tfopt_core.measurement.conclude import conclude, save_best
from tfopt_core.measurement.edits import CodeAtStart
from tfopt_core.measurement.fingerprint import fingerprint
from tfopt_core.measurement.observing import observed
from tfopt_core.measurement.pace import Pace, World, budget_of, estimated_round
from tfopt_core.measurement.planned_runs import PlannedRuns
from tfopt_core.measurement.progress import Observer
from tfopt_core.measurement.rounds import Rounds
from tfopt_core.measurement.schedule import baseline_and_full
from tfopt_core.measurement.state import AddedStack, Length, MeasurementState
from tfopt_core.measurement.stored_state import state_writer, stored_request
from tfopt_core.measurement.waiting import Waiting, added_stack
from tfopt_core.measurement.whole_pair import with_whole_pair
from tfopt_core.records.dry_build import Prepared
from tfopt_core.records.results import Results
from tfopt_core.records.variants import Variant
from tfopt_core.statistics.intervals import LOOKS
from tfopt_core.statistics.judgement import stack_equivalence
from tfopt_core.store.database import Store
from tfopt_core.store.lock import held
from tfopt_core.trials.preparation import prepare
from tfopt_core.trials.request import Request
from tfopt_core.workers.spawn import Runner

NEVER_CUT = 'length is "steady", but {why}: runs train to their end'


def measure(
    request: Request,
    *,
    runner: Runner,
    store: Store,
    observer: Observer,
    world: World | None = None,
    certify: bool = True,
    prepared_before: tuple[Prepared, Request] | None = None,
    extended: Prepared | None = None,
    waiting: Waiting | None = None,
    whole_pair: bool = False,
    first_verdict: float | None = None,
) -> Results:
    """Measure the baseline against the stack and return the results.

    Ctrl-C (KeyboardInterrupt) ends the measuring: the current run is discarded, and the others are
    judged and returned, marked as interrupted. Before the first run it is raised.

    :param prepared_before: the results of `prepare` with an estimate, if it was called already.
    :param certify: whether to replay fixed batches first, for the equivalence certificate.
    :param extended: the dry build of `request.added`, which is measured as a second contrast.
    :param waiting: what is tried for such a contrast once the first verdict is there.
    :param whole_pair: whether a pair is trained to its end after the verdict.
    :param first_verdict: the seconds by which a first verdict is wanted, None for no such wish.
    :raises InputError, PreparationFailed: before any run.
    :raises StoreError: if a run cannot be stored.
    """
    world = world or World()
    with held(request.folder):
        pace = Pace(world, budget_of(request), first_verdict=first_verdict)
        observer(progress.Preparing(budget_of(request), pace.seconds_to_first_verdict))
        # before the plugins' settings are resolved, as a resume reads it
        code, at_start = fingerprint(request), CodeAtStart.of(request.recipe)
        prepared, request = prepared_before or prepare(request, runner, estimate=True)
        prepared = attrs.evolve(prepared, seconds=pace.elapsed)
        if request.recipe.measure.length == "steady" and not prepared.can_be_cut_short:
            never = NEVER_CUT.format(why=prepared.why_never_cut)
            prepared = attrs.evolve(prepared, warnings=(*prepared.warnings, never))
        seed = random.SystemRandom().randrange(2**31) if request.seed is None else request.seed
        added = None if extended is None else added_stack(prepared, extended)
        length = _length(request, prepared, added, pace)
        own_budget = first_verdict is not None
        state = MeasurementState(seed=seed, length=length, added=added, own_budget=own_budget)
        if certify:
            state = _certified(request, prepared, state, pace, runner, observer)
            prepared = attrs.evolve(prepared, seconds=pace.elapsed)
        created_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        store.begin(
            request.folder.name, created_at, request.recipe.name, request.recipe.sha256(),
            stored_request(request, prepared, state, code),
        )  # fmt: skip
        planned = PlannedRuns(
            request=request, prepared=prepared, state=state, pace=pace,
            keep_state=state_writer(store, request, prepared, code),
        )  # fmt: skip
        rounds = Rounds(
            planned=planned, runner=runner, store=store, observer=observer, world=world,
            code=at_start, waiting=waiting and attrs.evolve(waiting, code=code),
        )  # fmt: skip
        return conduct(rounds, created_at, whole_pair=whole_pair)


def conduct(rounds: Rounds, created_at: str, *, whole_pair: bool = False) -> Results:
    """Make the remaining rounds, conclude, store the results and return them.

    :param created_at: when the measurement began, ISO 8601.
    :param whole_pair: whether a pair is trained to its end after the verdict.
    """
    planned, store = rounds.planned, rounds.store
    request, prepared = planned.request, planned.prepared
    rounds.observer(_ready(planned))
    rounds.go()
    results = conclude(
        request=request, prepared=prepared, state=planned.state, id_=request.folder.name,
        created_at=created_at, runs=planned.runs, contrasts=planned.contrasts,
        seconds=planned.pace.elapsed, stop=rounds.stop, planned=planned.pairs,
        round_seconds=planned.seconds_a_round(),
    )  # fmt: skip
    store.finish(results)
    # the results are stored before anything else can fail
    try:
        saved = save_best(request, planned.judgement(), results.runs, keep=results.interrupted)
    except InputError as error:
        # the verdict is printed all the same
        results = attrs.evolve(results, warnings=(*results.warnings, str(error)))
    else:
        results = attrs.evolve(results, saved_model=saved)
    store.finish(results)
    if whole_pair:
        results = with_whole_pair(results, rounds)
        store.finish(results)
    if request.observers:
        # after all runs: its process must not disturb one
        results = observed(
            results, request, planned.state.seed or 1, rounds.runner, rounds.observer
        )
        store.finish(results)
    return results


def _length(request: Request, prepared: Prepared, added: AddedStack | None, pace: Pace) -> Length:
    """Return whether runs train to the end: with "auto" if four pairs of such runs fit the budget,
    and before the first verdict."""
    length = request.recipe.measure.length
    budget = budget_of(request)
    round_ = estimated_round(prepared, 2 if added is None else 3)
    if not prepared.can_be_cut_short or length == "full":
        return "full"
    if length == "steady":
        return length
    if budget is None or round_ is None:
        return "full"
    seconds = LOOKS[0] * round_
    wanted = pace.first_verdict is None or prepared.seconds + seconds <= pace.first_verdict
    wanted = wanted or not pace.worth_cutting(round_ / 2)
    return "full" if wanted and prepared.seconds + seconds <= budget else "steady"


def _certified(
    request: Request,
    prepared: Prepared,
    state: MeasurementState,
    pace: Pace,
    runner: Runner,
    observer: Observer,
) -> MeasurementState:
    """Return the state with the certificates of the stack, and of that with additions."""
    equivalence = stack_equivalence([plugin.equivalence for plugin in prepared.plugins])
    if equivalence == "changes":
        return state
    stacks: list[tuple[Variant, Equivalence]] = [
        (baseline_and_full(request.plugins)[1], equivalence)
    ]
    if state.added is not None:
        stacks.append((Variant(state.added.variant, request.added), state.added.equivalence))
    found = certificates(
        request, prepared, stacks, seed=state.seed or 1, pace=pace, runner=runner,
        observer=observer,
    )  # fmt: skip
    added = state.added and attrs.evolve(state.added, certificate=found[-1])
    return attrs.evolve(state, certificate=found[0], added=added)


def _ready(planned: PlannedRuns) -> progress.Ready:
    prepared, state = planned.prepared, planned.state
    # until the first look, no round has more runs than the first one
    a_round = estimated_round(prepared, planned.variants_a_round(0))
    return progress.Ready(
        seconds=prepared.seconds,
        resolved=prepared.resolved,
        epochs=prepared.epochs,
        steps_per_epoch=prepared.steps_per_epoch,
        total_runs=planned.pairs * planned.variants_a_round(0),
        warnings=prepared.warnings,
        estimated_seconds=planned.pairs * a_round if a_round and state.length == "full" else None,
        budget_seconds=budget_of(planned.request),
        first_verdict_seconds=planned.pace.seconds_to_first_verdict,
        length=state.length,
        runs_done=len(planned.runs),
        own_loop=prepared.own_loop,
    )
