"""Resume a measurement that was stopped, repeating only the run that was interrupted."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
from cattrs import structure, unstructure

from tfopt_core.errors import DamagedMeasurement, InputError
from tfopt_core.hooks.installed.assemble import assemble
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.measurement.fingerprint import CodeAtStart, differences, fingerprint
from tfopt_core.measurement.groups import Groups
from tfopt_core.measurement.plan import MeasurementState, recipe_path
from tfopt_core.measurement.progress import Observer
from tfopt_core.measurement.session import conduct
from tfopt_core.recipe.model import PluginEntry, Recipe
from tfopt_core.statistics.results import Results
from tfopt_core.store.database import Store
from tfopt_core.store.decoding import Overview, reading
from tfopt_core.store.lock import held
from tfopt_core.trials.request import Prepared, Request, with_prepared
from tfopt_core.workers.spawn import Runner

# Keys of a recipe that do not change what is measured.
LABELS = ("name", "description", "tune")


def resume(
    request: Request,
    *,
    runner: Runner,
    store: Store,
    observer: Observer,
) -> Results:
    """Resume the newest measurement of this recipe that was stopped, and return its results.

    Its runs, order, seeds and resolved settings are kept. The run that was interrupted is repeated
    from its start, since a resumed run is no timing sample.

    :raises InputError: if there is none, or if recipe, code, versions, machine or environment have
        changed; names which.
    :raises StoreError: if another process is still measuring it, or its record is damaged.
    """
    stopped = _newest(request, store)
    request = attrs.evolve(request, folder=request.folder.parent / stopped.id)
    with held(request.folder):
        if store.overview_of(stopped.id).state == "finished":
            why = f'measurement "{stopped.id}" has been finished by another tfopt meanwhile'
            raise InputError(why)
        # a killed replay may have left its batches, which can be large
        shutil.rmtree(request.folder / "replay", ignore_errors=True)
        stored = store.request_of(stopped.id)
        with reading(stopped.id, store.path, '"resolved" or "course" of its request'):
            request = _with_measured(request, stopped.id, stored)
        code = fingerprint(request)
        with reading(stopped.id, store.path, '"recipe" or "fingerprint" of its request'):
            _refuse_changes(stopped.id, stored, request, code)
        with reading(stopped.id, store.path, '"prepared" or "course" of its request'):
            prepared = structure(stored["prepared"], Prepared)
            state = structure(stored["course"], MeasurementState)
        state = attrs.evolve(state, resumed=state.resumed + 1)
        request = with_prepared(request, prepared)
        runs = store.runs(stopped.id)
        spent = prepared.seconds + sum(run.process_seconds or 0.0 for run in runs)
        store.update_request(stopped.id, course=unstructure(state))
        groups = Groups(
            request=request, prepared=prepared, state=state, runs=list(runs),
            runner=runner, store=store, observer=observer, earlier=spent,
            code=CodeAtStart.of(request.recipe),
        )  # fmt: skip
        return conduct(groups, stopped.created_at)


def _with_measured(request: Request, measurement: str, stored: Mapping[str, Any]) -> Request:
    """Return the request with what a first contact measured and wrote as comments: the plugins of
    the second contrast, and those of a stack that is not exact. Their settings are the measured
    ones.

    :raises InputError: if one of them cannot be configured any more.
    """

    def plugins(resolved: Mapping[str, Mapping[str, Any]]) -> tuple[StackedPlugin, ...]:
        entries = [PluginEntry(name, dict(values)) for name, values in resolved.items()]
        assembled, problems = assemble(entries)
        if problems:
            why = f'measurement "{measurement}" cannot be resumed: {problems[0].message}'
            raise InputError(why)
        return assembled

    added = stored["course"].get("added")
    return attrs.evolve(
        request, plugins=request.plugins or plugins(stored["resolved"]),
        added=() if added is None else plugins(added["resolved"]),
    )  # fmt: skip


def _newest(request: Request, store: Store) -> Overview:
    """Return the newest measurement of the recipe that was stopped.

    :raises DamagedMeasurement: if it is damaged, rather than resuming an older one.
    """
    for stopped in store.unfinished():
        if _is_of(stopped, request.recipe, store):
            return store.overview_of(stopped.id)
    name, folder = request.recipe.name, store.path.parent
    raise InputError(
        f'there is nothing to resume: no measurement of "{name}" in "{folder}" was stopped; leave '
        "out --resume to measure it"
    )


def _is_of(stopped: Overview, recipe: Recipe, store: Store) -> bool:
    """Return whether it is a measurement of this recipe, as far as is known."""
    try:
        stored = store.request_of(stopped.id)
    except DamagedMeasurement:
        return stopped.recipe == recipe.name
    path = recipe_path(recipe)
    same_name = path is not None or stopped.recipe == recipe.name
    return stored.get("recipe_path") == path and same_name


def _refuse_changes(
    measurement: str, stored: Mapping[str, Any], request: Request, code: Mapping[str, str]
) -> None:
    changes = [
        *recipe_differences(stored["recipe"], request.recipe.to_dict()),
        *differences(structure(stored["fingerprint"], dict[str, str]), code),
    ]
    if changes:
        raise InputError(
            f'measurement "{measurement}" cannot be resumed, its runs would not compare: '
            f"{'; '.join(changes)}; undo that, or measure anew without --resume"
        )


def recipe_differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the keys of a recipe whose meaning has changed, with both values."""
    old, new = (dict(_leaves(recipe)) for recipe in (before, now))
    return tuple(
        f"recipe: {key} was {_in_words(old.get(key))}, is {_in_words(new.get(key))}"
        for key in dict.fromkeys((*old, *new))
        if old.get(key) != new.get(key) and key.partition(".")[0] not in LABELS
    )


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _leaves(item, f"{path}[{index}]")
    else:
        yield path, value


def _in_words(value: Any) -> str:
    return "not set" if value is None else repr(value) if isinstance(value, str) else str(value)
