"""The names of recipes and plugins, for shell completion.

Each function has click's signature of `shell_complete`. None imports TensorFlow or a plugin.
"""

from __future__ import annotations

import rich_click as click
from click.shell_completion import CompletionItem

Items = list[CompletionItem[str]]


def recipes(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Return the recipes that ship."""
    from tfopt_core.recipe import shipped_recipes, summary

    return [
        CompletionItem(name, help=summary(path))
        for name, path in shipped_recipes().items()
        if name.startswith(incomplete)
    ]


def files(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Return what has the shell complete files."""
    return [CompletionItem(incomplete, type="file")]


def recipes_and_files(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Return the recipes that ship, and what has the shell complete files."""
    return [*files(context, parameter, incomplete), *recipes(context, parameter, incomplete)]


def plugins(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Return the installed plugins."""
    from tfopt_core.hooks.installed.discovery import registrations

    return [CompletionItem(name) for name in registrations() if name.startswith(incomplete)]
