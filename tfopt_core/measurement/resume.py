"""Resume a measurement that was stopped, repeating only the run that was interrupted."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
from cattrs import structure

from tfopt_core.errors import InputError
from tfopt_core.hooks.installed.assemble import assemble
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.measurement.fingerprint import CodeAtStart, differences, fingerprint
from tfopt_core.measurement.groups import Groups
from tfopt_core.measurement.plan import MeasurementState, recipe_path, state_writer
from tfopt_core.measurement.progress import Observer
from tfopt_core.measurement.session import conduct
from tfopt_core.recipe import PluginEntry, Recipe
from tfopt_core.records.dry_build import Prepared
from tfopt_core.records.results import Results
from tfopt_core.store.database import Store, Unfinished
from tfopt_core.store.decoding import reading
from tfopt_core.store.lock import held
from tfopt_core.trials.request import Request, with_prepared
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
        stopped = _still_stopped(stopped, store)
        # a killed replay may have left its batches, which can be large
        shutil.rmtree(request.folder / "replay", ignore_errors=True)
        request = _with_measured(request, stopped, store)
        code = fingerprint(request)
        _refuse_changes(stopped, request, code, store)
        prepared, state = _decisions(stopped, store)
        state = attrs.evolve(state, resumed=state.resumed + 1)
        request = with_prepared(request, prepared)
        runs = store.runs(stopped.id)
        spent = prepared.seconds + sum(run.process_seconds or 0.0 for run in runs)
        keep = state_writer(store, request, prepared, code)
        keep(state)
        groups = Groups(
            request=request, prepared=prepared, state=state, keep_state=keep, runs=list(runs),
            runner=runner, store=store, observer=observer, earlier=spent,
            code=CodeAtStart.of(request.recipe),
        )  # fmt: skip
        return conduct(groups, stopped.created_at)


def _with_measured(request: Request, stopped: Unfinished, store: Store) -> Request:
    """Return the request with what a first contact measured and wrote as comments: the plugins of
    the second contrast, and those of a stack that is not exact. Their settings are the measured
    ones.

    :raises InputError: if one of them cannot be configured any more.
    """
    with reading(stopped.id, store.path, '"resolved" or "course" of its request'):
        stack = request.plugins or _plugins(stopped, stopped.request["resolved"])
        added = stopped.request["course"].get("added")
        extended = () if added is None else _plugins(stopped, added["resolved"])
    return attrs.evolve(request, plugins=stack, added=extended)


def _plugins(
    stopped: Unfinished, resolved: Mapping[str, Mapping[str, Any]]
) -> tuple[StackedPlugin, ...]:
    entries = [PluginEntry(name, dict(values)) for name, values in resolved.items()]
    plugins, problems = assemble(entries)
    if problems:
        why = f'measurement "{stopped.id}" cannot be resumed: {problems[0].message}'
        raise InputError(why)
    return plugins


def _newest(request: Request, store: Store) -> Unfinished:
    for stopped in store.unfinished():
        if _is_of(stopped, request.recipe):
            return _undamaged(stopped)
    name, folder = request.recipe.name, store.path.parent
    raise InputError(
        f'there is nothing to resume: no measurement of "{name}" in "{folder}" was stopped; leave '
        "out --resume to measure it"
    )


def _is_of(stopped: Unfinished, recipe: Recipe) -> bool:
    """Return whether it is a measurement of this recipe, as far as is known."""
    if stopped.damage is not None and not stopped.request:
        return stopped.recipe == recipe.name
    path = recipe_path(recipe)
    same_name = path is not None or stopped.recipe == recipe.name
    return stopped.request.get("recipe_path") == path and same_name


def _still_stopped(stopped: Unfinished, store: Store) -> Unfinished:
    """Return the measurement as it is now that this process holds its lock."""
    for now in store.unfinished():
        if now.id == stopped.id:
            return _undamaged(now)
    raise InputError(f'measurement "{stopped.id}" has been finished by another tfopt meanwhile')


def _undamaged(stopped: Unfinished) -> Unfinished:
    """Return the measurement if it is not damaged.

    :raises DamagedMeasurement: if it is, rather than resuming an older measurement.
    """
    if stopped.damage is not None:
        raise stopped.damage
    return stopped


def _decisions(stopped: Unfinished, store: Store) -> tuple[Prepared, MeasurementState]:
    """Return the dry build of the measurement, and its state."""
    with reading(stopped.id, store.path, '"prepared" of its request'):
        prepared = structure(stopped.request["prepared"], Prepared)
    with reading(stopped.id, store.path, '"course" of its request'):
        return prepared, structure(stopped.request["course"], MeasurementState)


def _refuse_changes(
    stopped: Unfinished, request: Request, code: Mapping[str, str], store: Store
) -> None:
    stored = stopped.request
    with reading(stopped.id, store.path, '"recipe" or "fingerprint" of its request'):
        changes = [
            *recipe_differences(stored["recipe"], request.recipe.to_dict()),
            *differences(structure(stored["fingerprint"], dict[str, str]), code),
        ]
    if changes:
        raise InputError(
            f'measurement "{stopped.id}" cannot be resumed, its runs would not compare: '
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
