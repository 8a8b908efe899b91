"""Find in the data and the model of a diagnosed training what costs time."""

from __future__ import annotations

from collections.abc import Iterator

from tfopt_core.data import DataPlan
from tfopt_core.diagnosis.input_findings import (
    StageCost,
    plan_findings,
    shape_findings,
    stage_costs,
)
from tfopt_core.diagnosis.step_parts import Parts, seconds_a_step
from tfopt_core.diagnosis.step_rounds import LoopRounds
from tfopt_core.hooks import Finding
from tfopt_core.training.build import Built
from tfopt_core.training.graphs.findings import graph_findings
from tfopt_core.training.graphs.operations import StepGraph, layers_without_xla, supports_xla
from tfopt_core.training.layers import frozen_share

# Input that takes a smaller share of a step is not examined.
INPUT_WORTH = 0.03
# From this share on, starting a step takes as long as computing it.
TINY_BATCHES = 0.5
# From this share on, frozen weights are worth a word.
MOSTLY_FROZEN = 0.5


def input_findings(
    built: Built, rounds: LoopRounds, parts: Parts, *, stages: bool
) -> Iterator[Finding]:
    """Yield what the data show.

    :param stages: whether there is time to read the data up to each of their stages.
    """
    # the real loop may overlap reading data with the rest of a step
    waits = parts.input.share >= INPUT_WORTH
    heavy = parts.data_seconds >= INPUT_WORTH * parts.step_seconds
    for split, plan in built.plans.items():
        costs = _costs(plan) if split == "train" and heavy and stages else ()
        yield from plan_findings(split, plan, costs, parts.step_seconds, waits and split == "train")
    yield from shape_findings(
        rounds.shapes, rounds.traced, bool(built.model.jit_compile), _last_is_smaller(built)
    )


def _costs(plan: DataPlan) -> tuple[StageCost, ...]:
    try:
        return stage_costs(plan, lambda epochs: seconds_a_step(epochs, None))
    except Exception:  # a stage may depend on those that are left out
        return ()


def _last_is_smaller(built: Built) -> bool:
    size, examples = built.run.batch_size, examples_of(built)
    if size is None or examples is None or built.run.steps_per_epoch is None:
        return False
    return built.run.steps_per_epoch * size > examples


def model_findings(built: Built, parts: Parts, graph: StepGraph | None) -> Iterator[Finding]:
    """Yield what the model and its traced step show."""
    model = built.model
    if model.run_eagerly:
        yield Finding(
            kind="runs-eagerly", detail="every operation of a step is started from Python",
            mend="compile(run_eagerly=False)",
        )  # fmt: skip
    if built.run.epochs == 1 and built.run.steps_per_epoch == 1:
        seconds = parts.step_seconds
        yield Finding(
            kind="fit-for-a-batch",
            detail=f"fit() is called for a single batch: {1000 * seconds:.3g} ms a call, of which "
            f"the update takes {1000 * parts.compute.share * seconds:.2g} ms",
            mend="call train_on_batch in its place where that happens often, and the model itself, "
            "model(x), in the place of predict(x)",
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
