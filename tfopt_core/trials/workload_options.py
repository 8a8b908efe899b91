"""Give the runs of the baseline the options that `[measure.baseline]` names.

The options in which a stack differs from its baseline stand in it as a plugin does. So their share
is isolated as that of any plugin, by runs without them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from tfopt_core.hooks.plugin_class import Plugin, plugin
from tfopt_core.hooks.specs import hookimpl
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.hooks.values import Effect
from tfopt_core.recipe.model import Recipe

# Its name in results; no entry point is named so.
NAME = "workload options"
BATCH_SIZE = "batch_size"


@plugin
class WorkloadOptions(Plugin):
    """Stands for the options and the batch size in which a stack differs from its baseline.

    :param values: by name; None for what the workload itself chooses.
    :param in_place_of: the values of the baseline.
    """

    targets = ("convergence",)
    equivalence = "changes"  # another learning rate or width is another training

    values: Mapping[str, Any]
    in_place_of: Mapping[str, Any]

    @hookimpl
    def report_effect(self, run: Any, model: Any, changes: Any) -> Effect:
        """Return that they are in effect, since the workload was built with them."""
        return Effect.applied_as(in_words(self.values, self.in_place_of))


def in_words(values: Mapping[str, Any], in_place_of: Mapping[str, Any]) -> str:
    """Return `rate 0.1 in place of 0.001`."""
    return ", ".join(
        f"{name} {_shown(value)} in place of {_shown(in_place_of[name])}"
        for name, value in values.items()
    )


def options_in_stack(recipe: Recipe) -> tuple[StackedPlugin, ...]:
    """Return what stands in the stack for the options that the baseline does not share; () if it
    shares all."""
    with_, without = (options_of(one) for one in (recipe, baseline_recipe(recipe)))
    names = [one for one in dict.fromkeys((*with_, *without)) if with_.get(one) != without.get(one)]
    if not names:
        return ()
    values, before = ({one: side.get(one) for one in names} for side in (with_, without))
    return (StackedPlugin(NAME, WorkloadOptions(values=values, in_place_of=before)),)


def baseline_recipe(recipe: Recipe) -> Recipe:
    """Return the recipe with the options and the batch size of its baseline."""
    spec, workload = recipe.measure.baseline, recipe.workload
    if spec is None:
        return recipe
    size = workload.batch_size if spec.batch_size is None else spec.batch_size
    options = {**workload.options, **spec.options}
    workload = attrs.evolve(
        workload,
        batch_size=None if BATCH_SIZE in spec.defaults else size,
        options={name: value for name, value in options.items() if name not in spec.defaults},
    )
    return attrs.evolve(recipe, workload=workload)


def recipe_of_variant(
    recipe: Recipe, whole: Sequence[StackedPlugin], variant: Sequence[StackedPlugin]
) -> Recipe:
    """Return the recipe that a variant of a stack trains.

    :param whole: the whole stack; the options count only where they stand in it.
    """
    stands, has_them = (any(one.name == NAME for one in side) for side in (whole, variant))
    return baseline_recipe(recipe) if stands and not has_them else recipe


def baseline_faults(recipe: Recipe, *, compares: bool = True) -> Iterator[tuple[str, str, str]]:
    """Yield what is wrong with `[measure.baseline]`: the key below it, why, and what to do.

    :param compares: whether a baseline is trained, which must then differ.
    """
    spec, workload = recipe.measure.baseline, recipe.workload
    if spec is None:
        return
    if workload.is_script:
        why = "options and batch size are those of a factory, and there is a script"
        yield "", why, "remove it"
        return
    for number, name in enumerate(spec.defaults):
        key = f"defaults[{number}]"
        given = spec.batch_size is not None if name == BATCH_SIZE else name in spec.options
        if given:
            yield key, f'"{name}" has a value for the baseline too', "remove one of the two"
        elif options_of(recipe).get(name) is None:
            yield (
                key,
                f'[workload] gives no "{name}" that the baseline could leave out',
                "remove it",
            )
    if compares and not options_in_stack(recipe):
        yield "", "the baseline has the options of [workload], so nothing differs", "remove it"


def options_of(recipe: Recipe) -> dict[str, Any]:
    """Return the options of a recipe's workload, with its batch size."""
    workload = recipe.workload
    size = {} if workload.batch_size is None else {BATCH_SIZE: workload.batch_size}
    return {**workload.options, **size}


def _shown(value: Any) -> str:
    return "the workload's own" if value is None else json.dumps(value, default=str)
