"""Find in the data, the model and the epochs of a diagnosed training what costs time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress

from tfopt_core.diagnosis.input_findings import (
    plan_findings,
    retracing_findings,
    stage_costs,
)
from tfopt_core.diagnosis.results import VALIDATION, EpochPart
from tfopt_core.diagnosis.step_graph import (
    augmenting_layers,
    graph_findings,
    layers_without_xla,
    supports_xla,
)
from tfopt_core.diagnosis.step_parts import Parts
from tfopt_core.diagnosis.step_rounds import TimedLoops
from tfopt_core.hooks.diagnosis import Finding
from tfopt_core.lazy import tf
from tfopt_core.scripts.running import place_now
from tfopt_core.toolkit.graphs import StepGraph
from tfopt_core.training.build import Built
from tfopt_core.training.model.layers import frozen_share, runs_eagerly

# Input that takes a smaller share of a step is not examined.
INPUT_WORTH = 0.03
# From this share on, starting a step takes as long as computing it.
TINY_BATCHES = 0.5
# Where a single step computes for most of a call of fit, its plugins can help it.
MOST_OF_A_CALL = 0.5
# From this share on, frozen weights are worth a word.
MOSTLY_FROZEN = 0.5
# A smaller share of an epoch is not worth a word.
COSTLY = 0.1
VALIDATION_MEND = (
    "cache its data and prefetch it, more steps a call (steps_per_execution counts for it too) and "
    "larger batches (validation_batch_size), or validate less often (validation_freq)"
)
# What makes a callback of Keras cheaper, by its class.
_MENDS = {
    "ModelCheckpoint": "save less often (save_freq), or the weights alone (save_weights_only=True)",
    "BackupAndRestore": "save less often (save_freq)",
    "TensorBoard": "write less (histogram_freq=0, write_graph=False, update_freq='epoch')",
}
_MEND = "call it less often, or make it cheaper; no plugin shortens it"


def input_findings(
    built: Built, loops: TimedLoops, parts: Parts, *, stages: bool
) -> Iterator[Finding]:
    """Yield what the data show.

    :param stages: whether there is time to read the data up to each of their stages.
    """
    # the real loop may overlap reading data with the rest of a step
    waits = parts.input.share >= INPUT_WORTH
    heavy = parts.data_seconds >= INPUT_WORTH * parts.step_seconds
    for split, plan in built.plans.items():
        costs: dict[int, float] = {}
        if split == "train" and heavy and stages:
            with suppress(Exception):  # a stage may depend on those that are left out
                costs = stage_costs(plan)
        yield from plan_findings(split, plan, costs, parts.step_seconds, waits and split == "train")
    yield from retracing_findings(loops.traced_anew, _why_compiled_anew(built))


def _why_compiled_anew(built: Built) -> str:
    """Return why XLA compiles the step more than once; "" if it does not, as far as is known."""
    if not built.model.jit_compile:
        return ""
    specs = tf.nest.flatten(built.run.element_spec)
    shapes = [spec.shape for spec in specs if isinstance(spec, tf.TensorSpec)]
    if any(shape.rank and not shape[1:].is_fully_defined() for shape in shapes):
        return "batches come in several shapes"
    size, examples, steps = built.run.batch_size, examples_of(built), built.run.steps_per_epoch
    if size is None or examples is None or steps is None or steps * size <= examples:
        return ""
    return "the last batch of an epoch is smaller"


def model_findings(built: Built, parts: Parts, graph: StepGraph | None) -> Iterator[Finding]:
    """Yield what the model and its traced step show."""
    model = built.model
    if runs_eagerly(model):
        of_model = "compile(run_eagerly=False)"
        yield Finding(
            kind="runs-eagerly", detail="every operation of a step is started from Python",
            mend=of_model if model.run_eagerly else "tf.config.run_functions_eagerly(False)",
        )  # fmt: skip
    alone = built.run.epochs == 1 and built.run.steps_per_epoch == 1
    if alone and parts.compute.share < MOST_OF_A_CALL:
        seconds = parts.step_seconds
        yield Finding(
            kind="fit-for-a-batch",
            detail=f"fit() is called for a single batch: {1000 * seconds:.3g} ms a call, of which "
            f"the update takes {1000 * parts.compute.share * seconds:.2g} ms",
            mend="call train_on_batch in its place where that happens often, and the model itself, "
            "model(x), in the place of predict(x)",
            place=place_now().removesuffix(": "),
        )  # fmt: skip
    if parts.dispatch_known and parts.dispatch.share >= TINY_BATCHES:
        of = f" of {built.run.batch_size} examples" if built.run.batch_size else ""
        yield Finding(
            kind="tiny-batches",
            detail=f"starting a step{of} takes longer than all that is computed in it",
            mend="more steps a call, or larger batches (which change the training)",
        )  # fmt: skip
    if not supports_xla(model):
        names = layers_without_xla(model) or ()
        which = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
        yield Finding(
            kind="layer-without-xla",
            detail=f"XLA cannot compile {which or 'the model'}, so Keras turns it off for all of "
            "the model",
            mend="move such layers into the input pipeline",
        )  # fmt: skip
    augmenting = augmenting_layers(model)
    if augmenting:
        yield Finding(
            kind="augmentation-in-model",
            detail=f"{', '.join(augmenting)}: each step waits until its batch is augmented",
            mend="augment in the data, which runs beside the step: data.map(lambda x, y: "
            "(layer(x, training=True), y)) before prefetch",
        )  # fmt: skip
    frozen = frozen_share(model)
    if frozen >= MOSTLY_FROZEN:
        yield Finding(
            kind="frozen-layers",
            detail=f"{frozen:.0%} of the model's weights are frozen, and what their layers make of "
            "an example may be the same in each epoch",
            mend="compute it once",
        )  # fmt: skip
    # XLA optimizes by itself, and its graph cannot be read
    if graph is not None and not model.jit_compile:
        yield from graph_findings(graph)


def examples_of(built: Built) -> int | None:
    """Return the number of training examples, None if it is unknown."""
    plan = built.plans["train"]
    return None if plan.source.batched else plan.examples


def epoch_findings(
    parts: Sequence[EpochPart], step_seconds: float, steps: int | None
) -> Iterator[Finding]:
    """Yield what takes a tenth of an epoch or more, with what can be done.

    :param parts: what an epoch takes besides its steps.
    :param steps: of an epoch; nothing is found if it is unknown.
    """
    if steps is None:
        return
    epoch = steps * step_seconds + math.fsum(part.seconds or 0.0 for part in parts)
    for part in parts:
        if part.seconds is None or part.seconds < COSTLY * epoch:
            continue
        share = f"{part.seconds / epoch:.0%} of an epoch"
        if part.name == VALIDATION:
            yield Finding(
                kind="costly-validation", detail=f"it takes {share}", split=VALIDATION,
                mend=VALIDATION_MEND,
            )  # fmt: skip
        else:
            mend = _MENDS.get(part.name.split(" ")[0], _MEND)
            yield Finding(kind="costly-callback", detail=f"{part.name} takes {share}", mend=mend)
