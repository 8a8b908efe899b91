"""Search for the fastest stack and prove it, as `tfopt tune` does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import attrs
from rich.console import Console

from tfopt_core.commands.check import ADD_TARGET, check_plugins
from tfopt_core.commands.output import check_writable
from tfopt_core.commands.request import (
    SEARCHES,
    alone_in_project,
    folder_of,
    make_request,
    new_id,
    seconds_of,
)
from tfopt_core.diagnosis.draft import check_free
from tfopt_core.errors import InputError, Problem, RecipeError, StoreError
from tfopt_core.extras import check_installed
from tfopt_core.files import write_text
from tfopt_core.hooks.installed.inspection import inspect_plugins
from tfopt_core.recipe.model import Objective, Recipe, TuneSpec
from tfopt_core.recipe.reading import Reading
from tfopt_core.report.live import MeasurementView
from tfopt_core.report.tuning import show_search
from tfopt_core.store.database import Store, store_path
from tfopt_core.trials.request import Request
from tfopt_core.tuning.context import SearchContext, TuneOptions
from tfopt_core.tuning.results import TuneResult
from tfopt_core.tuning.session import search
from tfopt_core.tuning.storage import StudyStorage, open_storage
from tfopt_core.tuning.winner import why_not_written, winner_text
from tfopt_core.workers import fork, spawn
from tfopt_core.workers.supervise import Limits

# One process of a trial may take this share of the budget, and at least so many seconds.
PROCESS_SHARE, LEAST_PROCESS_SECONDS = 1 / 6, 120.0


def tune(options: TuneOptions, console: Console) -> TuneResult:
    """Search, prove the winner by fresh pairs, write its recipe, and return the result.

    :param console: shows the progress: that of standard error.
    :raises InputError: for errors in the recipe, the script or the options.
    :raises TfoptError: if the baseline cannot be trained.
    """
    if options.resuming and options.fresh:
        raise InputError("--resume goes on with a search and --fresh begins anew; give one of them")
    check_plugins(options.plugins, "--plugin: ")
    limit = seconds_of("--time-limit", options.time_limit)
    given = seconds_of("--budget", options.budget)
    request, results = make_request(
        options.target, options.overrides, compares=False, debug=options.debug
    )
    spec = request.recipe.tune or TuneSpec()
    objective = objective_of(request)
    if spec.searches_settings:
        needs = "the search of settings and options"
        check_installed("optuna", "Optuna", extra="tune", needed_by=needs)
    storage = shared_storage(options, searches_settings=spec.searches_settings)
    budget = spec.budget_seconds if given is None else given
    path = options.write_to or winner_path(request)
    check_writable("the winner's recipe" if options.write_to is None else "--write", path)
    check_free(path)
    # those that share a storage search side by side, on this machine too
    alone = (
        nullcontext() if storage is not None
        else alone_in_project(results, f"tfopt tune {options.target}", console)
    )  # fmt: skip
    of_a_trial = limit or max(LEAST_PROCESS_SECONDS, PROCESS_SHARE * budget)
    with (
        alone, Store(store_path(results.parent)) as store,
        fork.ForkRunner(spawn.SpawnRunner(limits=Limits(total=limit))) as runner,
    ):  # fmt: skip
        searched = attrs.evolve(
            request, plugins=(), observers=(), folder=results / SEARCHES / new_id()
        )
        context = SearchContext(
            request=searched, options=options, objective=objective, budget=budget,
            installed=inspect_plugins(), proof_path=path.absolute(), store=store, storage=storage,
            searching=lambda: show_search(console), measuring=lambda: MeasurementView(console),
            runner=runner,
            trial_runner=runner.with_spawn(
                spawn.SpawnRunner(limits=Limits(total=of_a_trial, dry_build=of_a_trial))
            ),
        )  # fmt: skip
        result = search(context)
    return written(result, request, path)


def shared_storage(options: TuneOptions, *, searches_settings: bool) -> StudyStorage | None:
    """Return the open storage of `--storage`; None without one.

    :raises InputError: if there is nothing to share, or it cannot be used.
    """
    if options.storage is None:
        return None
    if not searches_settings:
        raise InputError(
            "--storage shares the search of settings and options, and the recipe asks for none; "
            "add trials = 20 or [tune.options] to it, or leave out --storage"
        )
    if options.fresh:
        raise InputError(
            "--fresh begins from nothing and --storage joins what others have begun; give one of "
            "them, or a storage of another name"
        )
    try:
        return open_storage(options.storage)
    except StoreError as error:
        raise InputError(f"--storage: {error}") from None


def written(result: TuneResult, request: Request, path: Path) -> TuneResult:
    """Write the winner's recipe, if there is one. Return the result with the file, or the reason,
    such as a disk that is full by now."""
    result.why_not_written = why_not_written(result)
    if result.why_not_written:
        return result
    try:
        check_free(path)
        write_text(path, winner_text(result, request.recipe, path.absolute().parent), replace=True)
        result.written = str(path)
    except InputError as error:
        result.why_not_written = str(error)
    return result


def objective_of(request: Request) -> Objective:
    """Return what is searched for.

    :raises RecipeError: with all that this search cannot have.
    """
    recipe = request.recipe
    objective = (recipe.tune or TuneSpec()).objective or recipe.measure.objective
    if problems := list(_search_problems(recipe, objective, request.reading)):
        raise RecipeError(problems)
    return objective


def _search_problems(recipe: Recipe, objective: Objective, reading: Reading) -> Iterator[Problem]:
    spec, is_script = recipe.tune or TuneSpec(), recipe.workload.is_script
    if spec.options and is_script:
        why = "options are arguments of a factory, and a script has none"
        yield reading.problem("tune.options", why, "write a factory for it, or remove them")
    elif objective != "time-to-target":
        if spec.options:
            why = (
                f'options of the workload change the training, and objective = "{objective}" '
                "compares trainings that learn alike"
            )
            mend = 'set objective = "time-to-target" with a measure.target'
            yield reading.problem("tune.options", why, mend)
        if spec.pruner not in (None, "none"):
            why = f'a pruner ends trainings by quality, and objective = "{objective}" reads none'
            yield reading.problem("tune.pruner", why, "remove it")
    elif recipe.measure.target is None:
        why = '"time-to-target" needs a target, and there is none'
        yield reading.problem("tune.objective", why, ADD_TARGET)
    elif is_script:
        why = (
            'a search by "time-to-target" reads a part of the training data that is set aside, and '
            "a script keeps its data to itself"
        )
        yield reading.problem("tune.objective", why, "write a factory for it")


def winner_path(request: Request) -> Path:
    """Return the default path of the winner's recipe: beside the recipe, and for one that ships or
    a script in the working directory."""
    recipe = request.recipe
    folder = folder_of(recipe)
    if folder == Path.cwd():
        folder = Path()
    stem = recipe.path.stem if recipe.path is not None and not recipe.workload.is_script else ""
    stem = (stem or recipe.workload.stem).removesuffix(".tfopt").removesuffix(".tuned")
    return folder / f"{stem}.tuned.toml"
