"""The words that may stand at a place of the command line, for shell completion.

Each function has click's signature of `shell_complete`. None imports TensorFlow; the only plugin
that is imported is the one whose settings are completed.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import rich_click as click
from click.shell_completion import CompletionItem

WORKLOADS_GROUP = "tfopt.workloads"
Items = list[CompletionItem[str]]


def recipes(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Return the recipes that ship."""
    from tfopt_core.recipe import shipped_recipes, summary

    return [
        CompletionItem(name, help=summary(path))
        for name, path in shipped_recipes().items()
        if name.startswith(incomplete)
    ]


def recipes_and_files(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Return the recipes that ship, recipe files and folders."""
    return [*_files(incomplete, ".toml"), *recipes(context, parameter, incomplete)]


def recipes_and_scripts(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> Items:
    """Return the recipes that ship, recipe files, scripts and folders."""
    return [*_files(incomplete, ".toml", ".py"), *recipes(context, parameter, incomplete)]


def scripts(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Return scripts and folders."""
    return _files(incomplete, ".py")


def plugins(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Return the installed plugins."""
    from tfopt_core.hooks.installed.discovery import registrations

    return [CompletionItem(name) for name in registrations() if name.startswith(incomplete)]


def overrides(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Return the continuations of `--set`: a table with a dot, a key with "=", or a value.

    The plugins are those of the recipe on the command line, or all if there is none.
    """
    path, given, _ = incomplete.partition("=")
    *tables, key = path.split(".")
    keys = _keys(tuple(tables), context)
    prefix = "".join(f"{table}." for table in tables)
    if given:
        words = [(f"{path}={value}", "") for value in _values(keys.get(key, {}))]
    else:
        words = [
            (f"{prefix}{name}{'.' if schema.get('type') == 'object' else '='}",
             str(schema.get("description", "")))
            for name, schema in keys.items()
        ]  # fmt: skip
    return [
        CompletionItem(word, help=text or None)
        for word, text in words
        if word.startswith(incomplete)
    ]


def _files(incomplete: str, *suffixes: str) -> Items:
    """Return the files with these suffixes whose path begins so, after what completes folders."""
    head, slash, start = incomplete.rpartition("/")
    try:
        paths = sorted(Path(head + slash).expanduser().glob(f"{_literal(start)}*"))
    except (OSError, ValueError, RuntimeError):  # such as a folder that may not be read
        paths = []
    names = [path.name for path in paths if path.suffix in suffixes and path.is_file()]
    # a shell forgets at this item what came before it
    folders = CompletionItem(incomplete, type="dir")
    return [folders, *(CompletionItem(f"{head}{slash}{name}") for name in names)]


def _literal(text: str) -> str:
    return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in text)


def _keys(tables: tuple[str, ...], context: click.Context) -> dict[str, dict[str, Any]]:
    """Return the JSON Schema of each key that may be set in a table of a recipe."""
    if tables == ("plugins",):
        return {name: {"type": "object"} for name in _stack(context)}
    if tables[:1] == ("plugins",):
        return _settings(tables[1]) if len(tables) == 2 else {}  # plugins, NAME
    from tfopt_core.recipe.schema import recipe_schema

    table = recipe_schema({}, {})
    table["properties"]["plugins"] = {"type": "object"}
    del table["properties"]["extends"]  # cannot be set
    table["properties"]["workload"]["properties"]["use"]["enum"] = list(_workloads())
    for name in tables:
        table = table.get("properties", {}).get(name, {})
    keys: dict[str, dict[str, Any]] = table.get("properties", {})
    return keys


def _stack(context: click.Context) -> list[str]:
    """Return the plugins of the recipe on the command line, all that are installed if none is."""
    from tfopt_core.hooks.installed.discovery import registrations
    from tfopt_core.recipe import read_recipe

    # click stops parsing at an option without its value, and leaves the words before it in `args`
    arguments = [one.name for one in context.command.params if isinstance(one, click.Argument)]
    place = arguments.index("target") if "target" in arguments else 0
    target = context.params.get("target") or next(iter(context.args[place:]), None)
    entries = read_recipe(target, []).entries if target else ()
    return [entry.use for entry in entries] or list(registrations())


def _settings(name: str) -> dict[str, dict[str, Any]]:
    """Return the schemas of a plugin's settings; none if it cannot be imported."""
    from tfopt_core.errors import TfoptError
    from tfopt_core.hooks.installed.discovery import find, registrations
    from tfopt_core.hooks.installed.inspection import describe_plugin
    from tfopt_core.hooks.installed.schema import plugin_schema

    # what a plugin prints during import must not mix with the answer to the shell
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            info = describe_plugin(name, find(name, registrations()).load())
        except TfoptError:
            return {}
    keys: dict[str, dict[str, Any]] = plugin_schema(info)["properties"]
    return {key: schema for key, schema in keys.items() if key != "use"}


def _workloads() -> Iterator[str]:
    from tfopt_core.hooks.installed.discovery import registrations

    yield from registrations(WORKLOADS_GROUP)


def _values(schema: dict[str, Any]) -> Iterator[str]:
    """Yield the values that a schema lists, as they are written behind "="."""
    for alternative in (schema, *schema.get("anyOf", ())):
        if alternative.get("type") == "boolean":
            yield from ("true", "false")
        for value in alternative.get("enum", ()):
            yield str(value).lower() if isinstance(value, bool) else str(value)
