"""Read recipes: a TOML file, the recipes that it extends, and `--set`, to a `Recipe`.

    reading = read_recipe("recipe.toml", ["plugins.cache.storage=disk"])
    reading.problems    # every problem, with its file, line and key
    recipe = reading.require()

Nothing here imports TensorFlow or NumPy, or knows a plugin: `tfopt_core.hooks` checks the
settings of plugins, and `Reading.with_problems` adds the problems that it finds.
"""

from tfopt_core.recipe.model import (
    MeasureSpec,
    Objective,
    PluginEntry,
    QualitySpec,
    Recipe,
    TargetSpec,
    TuneSpec,
    WorkloadSpec,
)
from tfopt_core.recipe.reading import Reading, read_recipe
from tfopt_core.recipe.shipped import find_recipe, shipped_recipes, summary
from tfopt_core.recipe.toml import locate
from tfopt_core.recipe.tree import Place

__all__ = [
    "MeasureSpec",
    "Objective",
    "Place",
    "PluginEntry",
    "QualitySpec",
    "Reading",
    "Recipe",
    "TargetSpec",
    "TuneSpec",
    "WorkloadSpec",
    "find_recipe",
    "locate",
    "read_recipe",
    "shipped_recipes",
    "summary",
]
