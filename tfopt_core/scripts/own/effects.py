"""The effect of each plugin on a training loop of the script's own, read back at its end."""

from __future__ import annotations

import gc
from collections.abc import Collection, Sequence
from typing import Any

from tfopt_core.hooks import Effect
from tfopt_core.hooks.contract import implementations
from tfopt_core.hooks.own_loop import with_unreached
from tfopt_core.hooks.stack import Stack, StackedPlugin
from tfopt_core.scripts.own.loop import OwnLoop

NO_DATA_SET = "the script's loop iterates over no tf.data.Dataset"
IN_GRAPH = "the script iterates over its data within a tf.function, where they stay as they are"


def trained_models(variables: Collection[int]) -> tuple[Any, ...]:
    """Return built models that together have these variables, the largest first.

    A model within another is left out, as is the functional model within a Sequential.

    :param variables: the ids of Keras variables; none if they are unknown, for all models.
    """
    import keras

    models = [
        one
        for one in gc.get_objects()
        if issubclass(type(one), keras.Model) and _is_trained(one, variables)
    ]
    taken, covered = [], set[int]()
    for model in sorted(models, key=parameters, reverse=True):
        own = {id(variable) for variable in model.trainable_variables}
        if not own <= covered:
            taken.append(model)
            covered |= own
    return tuple(taken)


def _is_trained(model: Any, variables: Collection[int]) -> bool:
    try:
        trained = model.trainable_variables if model.built else ()
    except Exception:
        # a model whose constructor raised may still be alive; it lacks attributes
        return False
    return bool(trained) and (not variables or any(id(one) in variables for one in trained))


def parameters(model: Any) -> int:
    """Return the number of a model's trainable parameters."""
    import numpy as np

    return sum(int(np.prod(variable.shape)) for variable in model.trainable_variables)


def effects_of_loop(loop: OwnLoop, plugins: Sequence[StackedPlugin]) -> dict[str, Effect]:
    """Return the effect of each plugin of the stack, by name.

    A plugin is applied if it was on one of the trained models or data sets.

    :param plugins: the whole stack; those that do not reach the loop are told so.
    :raises PluginError: naming the plugin that failed.
    """
    import keras

    session, sets = loop.session, loop.data.sets
    reaching = [one for one in plugins if one.name in session.run.settings]
    models = trained_models(loop.updated) or (keras.Sequential(),)
    places = [(one.stack, one.run) for one in sets]
    places = places or [(Stack(reaching, session.changes), session.run)]
    found = [stack.report_effects(context, models[0]) for stack, context in places]
    stack, context = places[0]
    found += [stack.report_effects(context, model) for model in models[1:]]
    effects = {}
    for one in reaching:
        each = [effects_there[one.name] for effects_there in found]
        # applied if it was on any of them
        applied = dict.fromkeys(effect.detail for effect in each if effect.applied)
        effects[one.name] = Effect.applied_as("; ".join(applied)) if applied else each[0]
        on_data = set(implementations(type(one.plugin))) <= {"build_dataset", "report_effect"}
        if on_data and not sets:
            why = IN_GRAPH if loop.data.in_graph else NO_DATA_SET
            effects[one.name] = Effect.not_applied(why)
    return with_unreached(effects, plugins)
