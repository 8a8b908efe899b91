"""Read recipes: a TOML file, the recipes that it extends, and `--set`, to a `Recipe`.

    from tfopt_core.recipe.reading import read_recipe

    reading = read_recipe("recipe.toml", ["plugins.cache.storage=disk"])
    reading.problems    # every problem, with its file, line and key
    recipe = reading.require()

Nothing here imports TensorFlow or NumPy, or knows a plugin: `tfopt_core.hooks` checks the
settings of plugins, and `Reading.with_problems` adds the problems that it finds.
"""
