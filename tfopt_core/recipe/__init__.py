"""Recipes: a TOML file, what it extends and `--set`, read to a `Recipe` with every problem placed.

    reading = read_recipe("recipe.toml", ["plugins.cache.storage=disk"])
    reading.problems    # all of them, each with file, line and key
    recipe = reading.require()

Nothing here imports TensorFlow or NumPy, and nothing here knows a plugin: their settings are
checked where plugins are, and join the recipe's problems by `Reading.with_problems`.
"""

from tfopt_core.recipe.locate import locate
from tfopt_core.recipe.model import (
    MeasureSpec,
    PluginEntry,
    QualitySpec,
    Recipe,
    TargetSpec,
    Where,
    WorkloadSpec,
)
from tfopt_core.recipe.reading import Reading, read_recipe
from tfopt_core.recipe.shipped import find_recipe, shipped_recipes, summary
from tfopt_core.recipe.tree import Place

__all__ = [
    "MeasureSpec",
    "Place",
    "PluginEntry",
    "QualitySpec",
    "Reading",
    "Recipe",
    "TargetSpec",
    "Where",
    "WorkloadSpec",
    "find_recipe",
    "locate",
    "read_recipe",
    "shipped_recipes",
    "summary",
]
