"""Frozen features: compute the frozen part of a model once for each example."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import attrs

from tfopt_core.data import Batch, KerasShuffle, Resident, Stage
from tfopt_core.plugins import (
    DataPlan,
    Diagnosis,
    Effect,
    Plugin,
    PluginRefused,
    Probe,
    RunContext,
    Split,
    hookimpl,
    plugin,
    setting,
)
from tfopt_core.toolkit import number_or
from tfopt_data.cache_storage import ROWS_SHARE, budget_bytes, private_path
from tfopt_data.frozen_prefix import KEY, without_head
from tfopt_data.frozen_stage import TRACED, FrozenPart, Storage
from tfopt_data.frozen_stage import FrozenFeatures as FeaturesStage
from tfopt_data.prefix import deterministic_prefix, kept_by_chance, unsteady
from tfopt_data.rewrite import Rewrite

# Where neither the recipe nor the data tell the size of a batch.
BATCH_SIZE = 32


def with_features(plan: DataPlan, stage: Callable[[DataPlan], Stage]) -> Rewrite:
    """The plan with a stage of features behind its longest deterministic prefix.

    Deterministic maps that stand behind a shuffle or repeat are moved before it. Nothing behind
    the features may change the inputs, or stop reading before all features are kept.

    :param stage: makes the stage of the plan before it.
    """
    source = plan.source
    if source.origin == "pydataset":
        return Rewrite(plan, reason="a PyDataset is read by Keras itself, not by tf.data")
    if plan.find(Resident) is not None:
        return Rewrite(plan, reason="the data are held on the device already")
    if reason := unsteady(plan.with_stages((source,))):
        return Rewrite(plan, reason=reason)
    prefix = deterministic_prefix(plan)
    rest = tuple(one for one in plan.stages if one not in prefix.head)
    for one in rest:
        if not (one.neutral or one.yields in ("same", "some") or type(one) is Batch):
            why = prefix.stopped or f'"{one.describe()}" may change the inputs of the model'
            return Rewrite(plan, reason=why)
        if one.computes:  # a filter would be given the features
            return Rewrite(plan, reason=f'"{one.describe()}" reads the inputs of the model')
        if one.stops_early:
            return Rewrite(
                plan, reason=f'"{one.describe()}" stops reading before all features are kept'
            )
    if by_chance := kept_by_chance(plan, prefix):
        return Rewrite(plan, reason=f"{by_chance}, and the first epoch's would be kept for all")
    made = stage(plan.with_stages(prefix.head))
    return Rewrite(plan.with_stages((*prefix.head, made, *rest)), done=made.describe())


@plugin
class FrozenFeatures(Plugin):
    """Computes the frozen part of a model once for each example, and trains the rest on that.

    What it does: cuts the model behind its frozen prefix: the layers without trainable weights
    that draw nothing and change no state in training mode. What they make of an example is
    computed before the training and kept in memory, or in its first epoch and kept on the disk;
    the rest of the model is trained and validated on it. The model stays the same object, and is
    saved whole.

    Why it helps: in transfer learning almost all of a step is the frozen network, whose outputs
    are the same in each epoch. Reading and decoding the inputs are saved as well.

    When it does not: for few epochs, since building and tracing the model and the features are
    paid once: 583 pictures in 15 epochs train 5 to 6 times as fast, though an epoch behind the
    first takes a twenty-fifth (recipe transfer-learning, two CPUs). Where the model or the data
    augment the inputs (augmentation inside the model, dropout or batch normalization in
    training mode end the prefix, and the layer is named; a training=False with which a nested
    network was called does not reach its dropout in Keras 3.15); where features are much larger
    than inputs. A nested network is frozen whole or not at all. Where Keras shuffles arrays
    itself, their features are kept in memory only, so that their order stays.
    A callback that changes frozen weights ends the training in an error.

    Mixes with: resident and chunked, which train the small rest many steps a call; prefetch;
    autotune with mode = "off", since epochs become short; parallel-map, which reads and decodes
    the inputs that are computed. A cache would keep inputs that are no longer read. Not under
    a strategy of several replicas, nor with a train_step of the model's own.

    Reference: https://keras.io/guides/transfer_learning/
    """

    targets = ("input", "compute")
    model_change = "in-place"
    before = ("chunked", "resident")
    after = ("augment", "cache", "parallel-map", "vectorize-map")
    equivalence = "exact"  # the rest is trained on what the frozen part would have computed again

    storage: Storage = setting(
        default="auto",
        help="Where features are kept; disk is the run's own folder; auto takes memory if they "
        "fit, else the disk, and always memory for arrays that Keras shuffles itself.",
    )
    memory_mib: int | Literal["auto"] = number_or(
        "auto", "Memory for features in MiB; auto takes a quarter of what is free."
    )

    def suggest(self, diagnosis: Diagnosis) -> dict[str, Any] | None:
        """Where most of the model is frozen and trains on tf.data for more than one epoch."""
        plan = diagnosis.plans.get("train")
        if plan is None or plan.source.origin == "pydataset" or diagnosis.epochs < 2:
            return None
        return {} if diagnosis.found("frozen-layers") else None

    def resolve(self, probe: Probe) -> FrozenFeatures:
        """Set the memory that may be used, by what is free."""
        if self.memory_mib != "auto":
            return self
        free = probe.available_memory_bytes()
        return attrs.evolve(self, memory_mib=max(1, int(ROWS_SHARE * free / 2**20)))

    @hookimpl
    def build_dataset(self, run: RunContext, split: Split, plan: DataPlan) -> DataPlan:
        """Put the stage into the split's plan; it finds out about the model once that is built."""
        part: FrozenPart = run.state_of(self).setdefault("part", FrozenPart())

        def stage(before: DataPlan) -> FeaturesStage:
            size = plan.batch_size or run.batch_size or BATCH_SIZE
            return FeaturesStage(
                split=split,
                part=part,
                before=before,
                batch_size=None if before.batched else size,
                path=private_path(run, f"cache-features-{split}"),
                storage=self.storage,
                budget_bytes=budget_bytes(
                    self.memory_mib, ROWS_SHARE, run.machine, split, ("train", "validation")
                ),
                shuffled_by_keras=plan.find(KerasShuffle) is not None,
                in_python=bool(run.machine.gpus),
            )

        if run.replicas > 1:
            part.reasons[split] = f"the training is shared among {run.replicas} replicas"
            return plan
        if run.cluster is not None:
            part.reasons[split] = "the training is shared among several processes"
            return plan
        if split != "train" and "train" in part.reasons:
            part.reasons[split] = "the training data have none"
            return plan
        rewrite = with_features(plan, stage)
        if not rewrite.done:
            part.reasons[split] = rewrite.reason
        return rewrite.plan

    def unwrap(self, model: Any) -> Any:
        """Return the whole model, which takes its own inputs only."""
        without_head(model)
        return model

    @hookimpl
    def report_effect(self, run: RunContext, model: Any) -> Effect:
        """Read back from the lowered data that they hold features, and that the head took them.

        :raises PluginRefused: where a frozen weight was changed in the training.
        """
        part: FrozenPart = run.state_of(self).get("part", FrozenPart())
        reasons = [f"{split}: {reason}" for split, reason in part.reasons.items()]
        if "train" not in part.done:
            return Effect.not_applied("; ".join(reasons) or "no data set was built")
        for split in part.done:
            inputs, *_ = run.datasets[split].element_spec
            if not isinstance(inputs, dict) or KEY not in inputs:
                return Effect.not_applied(f"{split}: the lowered data hold no features")
        if model not in TRACED:
            return Effect.not_applied("no step was traced on features")
        if changed := part.changed():
            raise PluginRefused(
                f'the frozen weight "{changed}" was changed in the training, whose features were '
                "computed with its old value; leave frozen-features out of the stack"
            )
        done = [f"{split}: {where}" for split, where in part.done.items()]
        found = "; ".join([*done, *reasons])
        if run.epochs > 1:
            return Effect.applied_as(found)
        if "train" in part.before_training:
            return Effect.applied_as(f"{found}; trained one epoch, so each feature was read once")
        return Effect.not_applied(f"trained one epoch, so no feature was read back ({found})")

    def by_hand(self) -> str:
        """The same in plain code."""
        return (
            "# `frozen` is the part of the model up to its last frozen layer, `rest` what follows\n"
            "features = frozen.predict(x)\nrest.fit(features, y)"
        )
