"""Make a whole measurement: dry build, rounds, looks, verdict. Each run is stored at its end."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime

import attrs
from cattrs import unstructure

from tfopt_core.errors import InputError
from tfopt_core.measurement import progress
from tfopt_core.measurement.conclude import conclude, save_best
from tfopt_core.measurement.fingerprint import fingerprint
from tfopt_core.measurement.pace import Pace, World, estimated_round
from tfopt_core.measurement.progress import Observer
from tfopt_core.measurement.replaying import Certificate, replay_both
from tfopt_core.measurement.rounds import Rounds
from tfopt_core.measurement.state import Length, MeasurementState
from tfopt_core.recipe import Recipe
from tfopt_core.records.dry_build import Prepared
from tfopt_core.records.results import Results
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

# A certificate spares the statistics of quality, not the runs: it may take so much of the time.
CERTIFICATE_SHARE = 0.25
REPLAYED_STEPS = 100


def measure(
    request: Request,
    *,
    runner: Runner,
    store: Store,
    observer: Observer,
    world: World | None = None,
    certify: bool = True,
    prepared_before: tuple[Prepared, Request] | None = None,
) -> Results:
    """Measure baseline against stack and judge.

    Ctrl-C (KeyboardInterrupt) ends the measuring: the run under way is thrown away, and what is
    done is judged and returned, marked as interrupted. Before the first run it passes on.

    :param prepared_before: what `prepare` has found already, with an estimate.
    :param certify: replay fixed batches first, for the equivalence certificate.
    :raises InputError, PreparationFailed: before any run.
    :raises StoreError: if a run cannot be kept.
    """
    world = world or World()
    busy = world.watch_idle()
    with held(request.folder):
        observer(progress.Preparing())
        pace = Pace(world, budget_of(request))
        # before the plugins' settings are resolved: that is what a resume reads again
        code = fingerprint(request)
        prepared, request = prepared_before or prepare(request, runner, estimate=True)
        prepared = attrs.evolve(
            prepared, seconds=pace.elapsed, warnings=(*prepared.warnings, *busy)
        )
        if request.recipe.measure.length == "steady" and not prepared.can_be_cut_short:
            never = NEVER_CUT.format(why=prepared.why_never_cut)
            prepared = attrs.evolve(prepared, warnings=(*prepared.warnings, never))
        seed = random.SystemRandom().randrange(2**31) if request.seed is None else request.seed
        state = MeasurementState(seed=seed, length=_length(request, prepared))
        if certify:
            certificate = _certificate(request, prepared, state, runner, observer)
            state = attrs.evolve(state, certificate=certificate)
            prepared = attrs.evolve(prepared, seconds=pace.elapsed)
        created_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        store.begin(
            request.folder.name, created_at, request.recipe.name, request.recipe.sha256(),
            kept_request(request, prepared, state, code),
        )  # fmt: skip
        rounds = Rounds(
            request=request, prepared=prepared, state=state, pace=pace, runner=runner,
            store=store, observer=observer, world=world,
            keep_state=state_writer(store, request, prepared, code),
        )  # fmt: skip
        return conduct(rounds, created_at)


def conduct(rounds: Rounds, created_at: str) -> Results:
    """Make the rounds that are left, conclude, and keep the results.

    :param created_at: when the measurement began, ISO 8601.
    """
    request, prepared, store = rounds.request, rounds.prepared, rounds.store
    rounds.observer(_ready(rounds))
    rounds.go()
    results = conclude(
        request=request, prepared=prepared, state=rounds.state, id_=request.folder.name,
        created_at=created_at, runs=rounds.runs, contrasts=rounds.contrasts,
        seconds=rounds.pace.elapsed, stop=rounds.stop, planned=rounds.planned_pairs,
        round_seconds=rounds.seconds_a_round(),
    )  # fmt: skip
    store.finish(results)
    # what was measured is safe before anything else can go wrong
    try:
        saved = save_best(request, rounds.judgement(), results.runs, keep=results.interrupted)
    except InputError as error:
        # the verdict is worth printing all the same
        results = attrs.evolve(results, warnings=(*results.warnings, str(error)))
    else:
        results = attrs.evolve(results, saved_model=saved)
    store.finish(results)
    return results


def kept_request(
    request: Request, prepared: Prepared, state: MeasurementState, code: dict[str, str]
) -> dict[str, object]:
    """Return what the store keeps of a measurement beside its runs: enough to resume it."""
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
    """Return where a recipe lies, by which its measurements are found again."""
    return None if recipe.path is None else str(recipe.path.resolve())


def state_writer(
    store: Store, request: Request, prepared: Prepared, code: dict[str, str]
) -> Callable[[MeasurementState], None]:
    """Return a function that stores the state of a measurement."""

    def keep(state: MeasurementState) -> None:
        kept = kept_request(request, prepared, state, code)
        store.update_request(request.folder.name, kept)

    return keep


def budget_of(request: Request) -> float | None:
    measure = request.recipe.measure
    return measure.budget_seconds if measure.pairs == "auto" else None


def _length(request: Request, prepared: Prepared) -> Length:
    """Return whether runs train to the end: "auto" does if four pairs of that fit the budget."""
    asked = request.recipe.measure.length
    budget, round_ = budget_of(request), estimated_round(prepared, 2)
    if not prepared.can_be_cut_short or asked == "full":
        return "full"
    if asked == "steady":
        return asked
    if budget is None or round_ is None:
        return "full"
    return "full" if prepared.seconds + LOOKS[0] * round_ <= budget else "steady"


def _certificate(
    request: Request,
    prepared: Prepared,
    state: MeasurementState,
    runner: Runner,
    observer: Observer,
) -> Certificate | None:
    if stack_math([plugin.math for plugin in prepared.plugins]) == "changes":
        return None
    if prepared.several_processes:
        return impossible(ONE_PROCESS)
    too_dear = _dearer_than_worth(request, prepared)
    if too_dear is not None:
        return impossible(too_dear)
    observer(progress.Certifying())
    return replay_both(Processes(request, runner), seed=state.seed or 1)


def _dearer_than_worth(request: Request, prepared: Prepared) -> str | None:
    """Return why no steps are replayed: they would take more than their share of the measuring."""
    whole, steps = prepared.training_seconds, prepared.steps_per_epoch
    if whole is None or steps is None:
        return None
    replay = 2 * min(1.0, REPLAYED_STEPS / (steps * prepared.epochs)) * whole
    pairs = request.recipe.measure.pairs
    measuring = budget_of(request) or 2 * whole * (pairs if isinstance(pairs, int) else LOOKS[0])
    if replay <= CERTIFICATE_SHARE * measuring:
        return None
    return (
        f"replaying {REPLAYED_STEPS} steps twice would take about {seconds_in_words(replay)}, more "
        f"than {CERTIFICATE_SHARE:.0%} of the time for measuring"
    )


def _ready(rounds: Rounds) -> progress.Ready:
    prepared, state = rounds.prepared, rounds.state
    a_round = estimated_round(prepared, rounds.variants_a_round())
    return progress.Ready(
        seconds=prepared.seconds,
        resolved=prepared.resolved,
        epochs=prepared.epochs,
        steps_per_epoch=prepared.steps_per_epoch,
        total_runs=rounds.planned_pairs * rounds.variants_a_round(),
        warnings=prepared.warnings,
        estimated_seconds=(
            rounds.planned_pairs * a_round if a_round and state.length == "full" else None
        ),
        budget_seconds=budget_of(rounds.request),
        length=state.length,
        runs_done=len(rounds.runs),
    )
