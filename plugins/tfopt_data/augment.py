"""Augmentation: random changes of the training examples, anew in each epoch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from tfopt_core.data import Cache, MapBatches, MapExamples, Resident
from tfopt_core.plugins import (
    DataPlan,
    Diagnosis,
    Effect,
    Plugin,
    PluginRefused,
    RunContext,
    hookimpl,
    plugin,
    setting,
)
from tfopt_core.toolkit import number_or, why_without
from tfopt_data.augment_layers import (
    MIXING_LAYERS,
    are_layers,
    count_in_one_step,
    drawn_from,
    function_of,
    is_place,
    layers_function,
    load_function,
    made_layers,
    seed_generators,
)
from tfopt_data.rewrite import Rewrite, effect, remember

# Sequential is what makes the order of the random numbers that of the examples.
SEQUENTIAL = 1


def with_augmentation(
    plan: DataPlan,
    function: Callable[..., Any],
    on: Literal["examples", "batches"] = "examples",
    parallel: int | Literal["auto"] = "auto",
) -> Rewrite:
    """The plan with a random function of each example, or of each batch.

    It stands behind everything that is kept (a cache) and behind the shuffle: right before the
    examples are put into batches, or behind what is done with batches.

    :param parallel: calls at once; 1 is sequential, "auto" tf.data's AUTOTUNE.
    :raises PluginRefused: for examples where there are only batches, or only batches are kept.
    """
    if plan.source.origin == "pydataset":
        return Rewrite(plan, reason="a PyDataset makes its own batches; augment them there")
    kind = MapExamples if on == "examples" else MapBatches
    stage = kind(
        function=function,
        deterministic=False,
        parallel=None if parallel == SEQUENTIAL else parallel,
    )
    place = _before_batching(plan) if on == "examples" else _behind_batching(plan)
    return Rewrite(plan.insert(place, stage), done=stage.describe())


def _before_batching(plan: DataPlan) -> int:
    batch = None if plan.batching is None else plan.batching[0]
    if batch is None:
        if plan.batched:
            raise PluginRefused(
                "the workload gives whole batches, so there are no single examples; set "
                'on = "batches"'
            )
        return _behind_batching(plan)
    kept = [stage for stage in plan.stages[batch:] if isinstance(stage, Cache | Resident)]
    if kept:
        raise PluginRefused(
            f'"{kept[-1].describe()}" keeps whole batches, so what is done with single '
            'examples would be the same in each epoch; set on = "batches"'
        )
    return batch


def _behind_batching(plan: DataPlan) -> int:
    place = len(plan.stages)
    while place > 1 and plan.stages[place - 1].neutral:
        place -= 1  # what is prefetched is to be augmented already
    return place


@plugin
class Augment(Plugin):
    """Changes the training examples at random, anew in each epoch, in parallel.

    What it does: puts Keras' random layers, or a function of yours, into the input pipeline of the
    training data: behind any cache and behind the shuffle, so that no epoch sees the changes of
    another. The validation data stay as they are. With `parallel = 1` the same seed changes the
    same examples in the same way; with more calls at once it gives the same distribution, but
    which example gets which change differs from run to run. A function's random operations are
    reproducible only if it takes a parameter `seed` and uses tf.random.stateless operations.

    Why it helps: a model that never sees the same picture twice overfits later, so it can reach an
    accuracy that it would not reach otherwise. Within the pipeline the changes are computed
    while the model trains, and layers that stop XLA (RandomRotation, RandomZoom) stay out of the
    model.

    When it does not: it trains another algorithm, so it needs a target to be judged by, and
    more epochs than a training without it; a few epochs get worse. On a CPU that is busy with the
    training it costs time. Changes that alter the meaning (a flipped digit) harm.

    Mixes with: cache, behind which it stays; prefetch. resident gathers whole batches, so it is
    applied only with on = "batches", behind which it then stays. vectorize-map, before which it
    stands: with on = "examples" no map can be moved past it. Keras' random layers keep state,
    which the data-service cannot share between processes.

    Reference: https://www.tensorflow.org/tutorials/images/data_augmentation
    """

    targets = ("convergence",)
    # what it moves behind the batch would be computed from what is augmented, not the other way
    before = ("vectorize-map",)
    equivalence = "changes"  # other examples are trained on

    layers: tuple[dict[str, Any], ...] = setting(
        default=(),
        converter=tuple,
        validator=are_layers,
        help="Keras' preprocessing layers in order, as tables: the class's name under "
        '"layer", its arguments beside it.',
    )
    function: str | None = setting(
        default=None,
        validator=is_place,
        help='A function in place of layers, "module:function" or "file.py:function"; it '
        "takes x, or x and y, and returns as many.",
    )
    on: Literal["examples", "batches"] = setting(
        default="examples",
        help="What is changed at a time: single examples, or whole batches.",
    )
    parallel: int | Literal["auto"] = number_or(
        "auto", "Calls at once; auto lets tf.data tune it, 1 is reproducible."
    )

    def __attrs_post_init__(self) -> None:
        if bool(self.layers) == (self.function is not None):
            raise ValueError("give either layers or a function, and exactly one of the two")
        for table in self.layers:
            if self.on == "examples" and table["layer"] in MIXING_LAYERS:
                raise ValueError(
                    f'layer "{table["layer"]}" mixes the examples of a batch; set on = "batches"'
                )

    def suggest(self, diagnosis: Diagnosis) -> None:
        """Nothing: which changes leave an example's meaning as it is, no measurement can tell."""
        return

    @hookimpl
    def build_dataset(self, run: RunContext, split: str, plan: DataPlan) -> DataPlan:
        """Augment the training data.

        :raises PluginRefused: for layers or a function that cannot be made, and see
            `with_augmentation`.
        """
        if split != "train":
            return plan
        seed = f"augment-{run.seed}-{run.fit_index}"
        if self.function is not None:
            # beside the recipe, or where a workload's factory may have put it
            folders = [run.directory, Path.cwd(), *(Path(entry) for entry in sys.path if entry)]
            function = function_of(load_function(self.function, folders), seed)
        else:
            missing = why_without("layer-draws") or why_without("nested-layers")
            if missing:
                raise PluginRefused(missing)
            layers = made_layers(self.layers, seed)
            run.state_of(self)["draws"] = [
                count_in_one_step(one) for one in seed_generators(layers)
            ]
            function = layers_function(layers)
        return remember(self, run, split, with_augmentation(plan, function, self.on, self.parallel))

    @hookimpl
    def report_effect(self, run: RunContext) -> Effect:
        """Read back the map from the lowered data, and from the layers that they drew numbers."""
        found = effect(self, run, "Map")
        draws = run.state_of(self).get("draws", [])
        if found.applied and draws and not any(drawn_from(state) for state in draws):
            return Effect.not_applied("the layers drew no random number")
        return found

    def by_hand(self) -> str:
        """The same in plain code."""
        if self.function is not None:
            made = f"# `augment` is {self.function}; if it takes x alone: (augment(x), y)"
            changed = "augment(x, y)"
        else:
            layers = ", ".join(
                f"keras.layers.{table['layer']}({_arguments_of(table)})" for table in self.layers
            )
            made = f"augment = keras.Sequential([{layers}])"
            changed = "(augment(x, training=True), y)"
        calls = "tf.data.AUTOTUNE" if self.parallel == "auto" else self.parallel
        place = "before" if self.on == "examples" else "behind"
        return (
            f"{made}\n# {place} the batch, and behind any cache\n"
            f"train = train.map(lambda x, y: {changed}, {calls})"
        )


def _arguments_of(table: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in table.items() if name != "layer")
