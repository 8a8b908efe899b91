"""Build the JSON Schema of a recipe, by which editors complete and check it, from model.py.

It is draft-07, the newest that Taplo reads, which most editors use for TOML. Some checks cannot be
expressed in a schema (a duration of "0s", a duplicate plugin): only reading a recipe makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from tfopt_core.recipe import checks
from tfopt_core.recipe.model import (
    TARGET_BOUNDS,
    WORKLOAD_CHOICES,
    Recipe,
    TargetSpec,
    WorkloadSpec,
)
from tfopt_core.recipe.paths import join_path
from tfopt_core.recipe.ranges import search_ranges
from tfopt_core.recipe.table import Checked, Nested, Table, keys_of

Schema = dict[str, Any]

DRAFT = "http://json-schema.org/draft-07/schema#"

DESCRIPTIONS = {
    "name": "Name of the results; the file's name by default.",
    "description": "When to use this recipe.",
    "extends": "The recipe that this one extends: a file, relative to it, or a shipped recipe.",
    "plugins": "The stack, in order; each plugin at most once.",
    "plugins.use": "The plugin's name; `tfopt plugins` lists those that are installed.",
    "plugins.enabled": "Whether the plugin is in the stack; false keeps its place.",
    "workload": "What is trained: one of use, factory, script and module.",
    "workload.use": "A workload by name, one that ships or that a distribution registers.",
    "workload.factory": '"package.module:callable" or "path/to/file.py:callable".',
    "workload.script": "An unmodified Keras script, relative to this file.",
    "workload.module": "A script that is started as `python -m` starts it: package.module.",
    "workload.args": "Arguments of the script.",
    "workload.environment": "Environment variables that the processes of the script start with.",
    "workload.folder": "Where the script runs, relative to this file; its folder by default.",
    "workload.isolate": "Whether each measured run writes into a private folder instead.",
    "workload.loop": '"own" for a script that trains without fit, in a loop of its own.',
    "workload.fit": "Number of the judged call of fit, from 1; all calls together by default.",
    "workload.max_epochs": "Cut each call of fit in the script short, for a quick look.",
    "workload.max_steps": "Cut each call of fit, or a run's own loop, to so many steps.",
    "workload.epochs": "Number of epochs.",
    "workload.batch_size": "Global batch size, over all replicas.",
    "workload.options": "Keyword arguments of the factory.",
    "measure": "How the stack is measured.",
    "measure.pairs": "Number of pairs of runs, at least 4; 6 by default.",
    "measure.seconds": 'Seconds that each run trains behind its start, or "whole" trainings.',
    "measure.budget": 'Time for which pairs and seconds are chosen: "10m", "1h30m", or seconds.',
    "measure.attribution": "How the share of each plugin is measured.",
    "measure.quality": "Which metric must not get worse, and by how much it may.",
    "measure.quality.metric": "A metric as a finished epoch reports it, such as val_accuracy.",
    "measure.quality.tolerance": "By how much the metric may be worse, in its own unit.",
    "measure.quality.direction": "Which direction is better; by default, from the metric's name.",
    "measure.target": "The value to reach; needed where the stack changes the training algorithm.",
    "measure.target.metric": "A metric as a finished epoch reports it, such as val_accuracy.",
    "measure.target.at_least": "The target is reached once the metric is this high.",
    "measure.target.at_most": "The target is reached once the metric is this low.",
    "measure.objective": "Which contrast is the headline: of time, peak memory or time to target.",
    "measure.baseline": "In which options of the workload the baseline differs from the stack.",
    "measure.baseline.batch_size": "The baseline's global batch size.",
    "measure.baseline.options": "The baseline's options, in place of those of the workload.",
    "measure.baseline.defaults": "Options that the baseline leaves to the workload.",
    "tune": "How `tfopt tune` searches.",
    "tune.objective": "What is searched for; that of the measurement by default.",
    "tune.budget": 'Approximate time of the search and its proof: "15m", "1h", or seconds.',
    "tune.sampler": "Optuna's sampler of settings and options; tpe by default.",
    "tune.pruner": "Optuna's pruner, which ends a training that learns badly; median by default.",
    "tune.trials": "How many trials to make at most; 20 by default.",
    "tune.options": "The workload's options to search, each with its range; batch_size too.",
}

# Keys of which a table has exactly one.
_ALTERNATIVES: Mapping[type[Table], Sequence[str]] = {
    WorkloadSpec: WORKLOAD_CHOICES,
    TargetSpec: TARGET_BOUNDS,
}
_DURATION = r"^ *(\d+(\.\d+)?h)? ?(\d+(\.\d+)?m)? ?(\d+(\.\d+)?s)? *$"
_CHOICES: Schema = {
    "anyOf": [
        {"type": "array", "minItems": 2, "uniqueItems": True, "items": {"type": kind}}
        for kind in ("number", "string", "boolean")
    ]
}
_BETWEEN: Schema = {
    "type": "object",
    "additionalProperties": False,
    "required": ["low", "high"],
    "properties": {
        "low": {"description": "The smallest number; whole ones if both ends and the step are.",
                "type": "number"},
        "high": {"description": "The largest number.", "type": "number"},
        "log": {"description": "Whether to draw on a log scale.", "type": "boolean"},
        "step": {"description": "The distance of the numbers, from low.", "type": "number",
                 "exclusiveMinimum": 0},
    },
}  # fmt: skip
_CHECKS: Mapping[Callable[[object], Any], Schema] = {
    checks.text: {"type": "string"},
    checks.word: {"type": "string", "pattern": r"\S"},
    checks.flag: {"type": "boolean"},
    checks.number: {"type": "number"},
    checks.at_least_zero: {"type": "number", "minimum": 0},
    checks.pairs: {"type": "integer", "minimum": 4},
    checks.seconds_or_whole: {
        "anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"enum": ["whole"]}]
    },
    checks.texts: {"type": "array", "items": {"type": "string"}},
    checks.free_table: {"type": "object"},
    checks.variables: {
        "type": "object",
        "additionalProperties": {"type": "string"},
        "propertyNames": {"not": {"enum": sorted(checks.INTERPRETER_VARIABLES)}},
    },
    search_ranges: {"type": "object", "additionalProperties": {"anyOf": [_CHOICES, _BETWEEN]}},
    checks.duration: {
        "anyOf": [
            {"type": "string", "minLength": 2, "pattern": _DURATION},
            {"type": "number", "exclusiveMinimum": 0},
        ]
    },
}


def recipe_schema(plugin: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """Return the schema of a recipe file, as plain data.

    :param plugin: schema of a `[[plugins]]` table, see `tfopt_core.hooks.installed.schema`.
    :param definitions: what `plugin` refers to.
    """
    body = _table(Recipe)
    properties = {
        **body["properties"],
        "extends": _described("extends", _CHECKS[checks.word]),
        "plugins": _described("plugins", {"type": "array", "items": plugin}),
    }
    return {
        "$schema": DRAFT,
        "title": "tfopt recipe",
        "description": "A workload, a stack of plugins, and how to measure what they gain.",
        **body,
        "properties": properties,
        # a recipe that extends another inherits what it does not give
        "if": {"not": {"required": ["extends"]}},
        "then": {"required": ["workload"], "properties": dict(_complete(Recipe))},
        "definitions": dict(definitions),
    }


def _table(table: type[Table], path: str = "") -> Schema:
    properties = {}
    for key, attribute in keys_of(table).items():
        below = join_path(path, (key,))
        validator = attribute.validator
        if isinstance(validator, Nested):
            schema = _table(validator.table, below)
        else:
            assert isinstance(validator, Checked)
            schema = {**_check(validator.check), **_default(attribute)}
        properties[key] = _described(below, schema)
    schema = {"type": "object", "additionalProperties": False, "properties": properties}
    # with "allOf" and "if" instead, Taplo completes no key of the table
    refused = dict(_exclusions(table))
    return {**schema, "dependencies": refused} if refused else schema


def _described(path: str, schema: Schema) -> Schema:
    return {"description": DESCRIPTIONS[path], **schema}


def _check(check: Callable[[object], Any]) -> Schema:
    match check:
        case checks.Whole(minimum):
            return {"type": "integer", "minimum": minimum}
        case checks.Choice(words):
            return {"enum": list(words)}
    return _CHECKS[check]


def _default(attribute: attrs.Attribute[Any]) -> Schema:
    value = attribute.default
    return {"default": value} if isinstance(value, str | int | float) and value != "" else {}


def _exclusions(table: type[Table]) -> Iterator[tuple[str, Schema]]:
    """Yield for each alternative the keys that the table's rules refuse beside it."""
    for chosen in _ALTERNATIVES.get(table, ()):
        refused: Schema = {
            key: {"not": {}}
            for key in keys_of(table)
            if any(fault.at == (key,) for fault in table.rules({chosen, key}))
        }
        yield chosen, {"properties": refused}


def _complete(table: type[Table]) -> Iterator[tuple[str, Schema]]:
    """Yield the required keys of the tables below, for a recipe that extends none."""
    for key, attribute in keys_of(table).items():
        if isinstance(attribute.validator, Nested):
            inner = attribute.validator.table
            fields = keys_of(inner).items()
            needed = {
                "required": [name for name, field in fields if field.default is attrs.NOTHING],
                "properties": dict(_complete(inner)),
                "anyOf": [{"required": [name]} for name in _ALTERNATIVES.get(inner, ())],
            }
            yield key, {word: value for word, value in needed.items() if value}
