"""Make a whole measurement: dry build, rounds, looks, verdict. Each run is stored when it ends."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from datetime import UTC, datetime

import attrs
from cattrs import unstructure

from tfopt_core.errors import InputError
from tfopt_core.hooks.card import Math
from tfopt_core.measurement import progress
from tfopt_core.measurement.conclude import conclude, save_best
from tfopt_core.measurement.edits import CodeAtStart
from tfopt_core.measurement.fingerprint import fingerprint
from tfopt_core.measurement.observing import observed
from tfopt_core.measurement.pace import Pace, World, estimated_round
from tfopt_core.measurement.planned_runs import PlannedRuns
from tfopt_core.measurement.progress import Observer
from tfopt_core.measurement.replaying import Certificate, replay_all
from tfopt_core.measurement.rounds import Rounds
from tfopt_core.measurement.schedule import baseline_and_full
from tfopt_core.measurement.state import AddedStack, Length, MeasurementState, additions_to
from tfopt_core.measurement.whole_pair import WholePair, with_whole_pair
from tfopt_core.recipe import Recipe
from tfopt_core.records.dry_build import Prepared
from tfopt_core.records.results import Results
from tfopt_core.records.variants import Variant
from tfopt_core.statistics.certificate import impossible
from tfopt_core.statistics.intervals import LOOKS
from tfopt_core.statistics.judgement import stack_math
from tfopt_core.statistics.wording import seconds_in_words
from tfopt_core.store.database import Store
from tfopt_core.store.lock import held
from tfopt_core.trials.preparation import prepare
from tfopt_core.trials.processes import Processes
from tfopt_core.trials.request import Request
from tfopt_core.workers.spawn import Runner

NEVER_CUT = 'length is "steady", but {why}: runs train to their end'
ONE_PROCESS = "the replay runs in one process, and shows nothing of several workers"

# The largest share of the time for a certificate, which saves statistics but no runs.
CERTIFICATE_SHARE = 0.25
# A certificate that takes no longer is made even if a first verdict is late by then.
ALWAYS_CERTIFIED_SECONDS = 20.0
REPLAYED_STEPS = 100
# The baseline and the stack, and in a second contrast the stack with additions.
TIMES = {2: "twice", 3: "three times"}


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
    whole_pair: WholePair = WholePair.NEVER,
    first_verdict: float | None = None,
) -> Results:
    """Measure the baseline against the stack and return the results.

    Ctrl-C (KeyboardInterrupt) ends the measuring: the current run is discarded, and the others are
    judged and returned, marked as interrupted. Before the first run it is raised.

    :param prepared_before: the results of `prepare` with an estimate, if it was called already.
    :param certify: whether to replay fixed batches first, for the equivalence certificate.
    :param extended: the dry build of `request.added`, which is measured as a second contrast.
    :param whole_pair: whether a pair is trained to its end after the verdict.
    :param first_verdict: the seconds by which a first verdict is wanted, None for no such wish.
    :raises InputError, PreparationFailed: before any run.
    :raises StoreError: if a run cannot be stored.
    """
    world = world or World()
    busy = world.watch_idle()
    with held(request.folder):
        pace = Pace(world, budget_of(request), first_verdict=first_verdict)
        observer(progress.Preparing(budget_of(request), pace.seconds_to_first_verdict))
        # before the plugins' settings are resolved, as a resume reads it
        code, at_start = fingerprint(request), CodeAtStart.of(request.recipe)
        prepared, request = prepared_before or prepare(request, runner, estimate=True)
        prepared = attrs.evolve(
            prepared, seconds=pace.elapsed, warnings=(*prepared.warnings, *busy)
        )
        if request.recipe.measure.length == "steady" and not prepared.can_be_cut_short:
            never = NEVER_CUT.format(why=prepared.why_never_cut)
            prepared = attrs.evolve(prepared, warnings=(*prepared.warnings, never))
        seed = random.SystemRandom().randrange(2**31) if request.seed is None else request.seed
        added = None if extended is None else _added(prepared, extended, pace)
        length = _length(request, prepared, added, pace)
        state = MeasurementState(seed=seed, length=length, added=added)
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
            code=at_start,
        )  # fmt: skip
        return conduct(rounds, created_at, whole_pair)


def conduct(rounds: Rounds, created_at: str, whole_pair: WholePair = WholePair.NEVER) -> Results:
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
    if whole_pair is not WholePair.NEVER:
        results = with_whole_pair(results, rounds, whole_pair)
        store.finish(results)
    if request.observers:
        # after all runs: its process must not disturb one
        results = observed(
            results, request, planned.state.seed or 1, rounds.runner, rounds.observer
        )
        store.finish(results)
    return results


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


def budget_of(request: Request) -> float | None:
    measure = request.recipe.measure
    return measure.budget_seconds if measure.pairs == "auto" else None


def _added(prepared: Prepared, extended: Prepared, pace: Pace) -> AddedStack:
    return AddedStack(
        # a third run a round would delay a first verdict
        first_round=0 if pace.first_verdict is None else LOOKS[0],
        additions=additions_to(prepared.resolved, extended.resolved),
        resolved=extended.resolved,
        math=stack_math([plugin.math for plugin in extended.plugins]),
    )


def _length(request: Request, prepared: Prepared, added: AddedStack | None, pace: Pace) -> Length:
    """Return whether runs train to the end: with "auto" if four pairs of such runs fit the budget,
    and before the first verdict."""
    length = request.recipe.measure.length
    budget = budget_of(request)
    round_ = estimated_round(prepared, 2 if added is None or added.first_round else 3)
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
    math = stack_math([plugin.math for plugin in prepared.plugins])
    # of a loop of the script's own no batch can be replayed
    if prepared.own_loop or math == "changes":
        return state
    stacks: list[tuple[Variant, Math]] = [(baseline_and_full(request.plugins)[1], math)]
    if state.added is not None:
        stacks.append((Variant(state.added.variant, request.added), state.added.math))
    reasons = [
        _why_not_replayed(request, prepared, pace, 2 + count) for count in range(len(stacks))
    ]
    certificates: list[Certificate | None] = [
        impossible(reason) for reason in reasons if reason is not None
    ]
    # the stack comes first: where there is no time for both, it is the one that is replayed
    replayed = [stack for stack, reason in zip(stacks, reasons, strict=True) if reason is None]
    if replayed:
        observer(progress.Certifying(pace.seconds_to_first_verdict))
        processes = Processes(request, runner)
        certificates = [*replay_all(processes, replayed, seed=state.seed or 1), *certificates]
    added = state.added and attrs.evolve(state.added, certificate=certificates[-1])
    return attrs.evolve(state, certificate=certificates[0], added=added)


def _why_not_replayed(request: Request, prepared: Prepared, pace: Pace, replays: int) -> str | None:
    """Return why so many replays, that of the baseline among them, are not made; None if they
    are."""
    if prepared.several_processes:
        return ONE_PROCESS
    return _too_expensive(request, prepared, pace, replays)


def _too_expensive(request: Request, prepared: Prepared, pace: Pace, replays: int) -> str | None:
    """Return why no steps are replayed so many times: it would exceed its share of the time."""
    whole, steps = prepared.training_seconds, prepared.steps_per_epoch
    if whole is None or steps is None:
        return None
    replay = replays * min(1.0, REPLAYED_STEPS / (steps * prepared.epochs)) * whole
    pairs = request.recipe.measure.pairs
    measuring = budget_of(request) or 2 * whole * (pairs if isinstance(pairs, int) else LOOKS[0])
    longest = CERTIFICATE_SHARE * measuring
    share = f"{CERTIFICATE_SHARE:.0%} of the time for measuring"
    # it may take half of that time, since little can be said without it; a verdict that is overdue
    # on a busy machine is late rather than weaker
    before = max((pace.first_verdict or math.inf) / 2, ALWAYS_CERTIFIED_SECONDS)
    if before < longest:
        longest, share = before, f"the {seconds_in_words(before)} for it until a first verdict"
    if replay <= longest:
        return None
    return (
        f"replaying {REPLAYED_STEPS} steps {TIMES[replays]} would take about "
        f"{seconds_in_words(replay)}, more than {share}"
    )


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
