"""Batch: the last batch of an epoch gets the size of the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

import attrs
from attrs import field, validators

from tfopt_core.data import Batch as BatchStage
from tfopt_core.data import MapBatches, element_spec
from tfopt_core.plugins import (
    DataPlan,
    Diagnosis,
    Effect,
    PlainCode,
    PluginRefused,
    RunContext,
    TrainingOptions,
    ValueHook,
    hookimpl,
    nested_layers,
)
from tfopt_data.batch_padding import _as_float, padding, unfit_for_padding, why_not_weighted
from tfopt_data.rewrite import Rewrite, effect_if, remember

Last = Literal["keep", "drop", "pad"]
MEND = 'set last = "drop" or "keep"'


def with_last_batch_dropped(plan: DataPlan) -> Rewrite:
    """The plan with the examples left out that fill no whole batch at an epoch's end.

    :raises PluginRefused: if that would leave none.
    """
    found = _partial_batch(plan)
    if isinstance(found, str):
        return Rewrite(plan, reason=found)
    place, stage = found
    count = plan.upto(place).cardinality
    if count is not None and count < stage.size:
        raise PluginRefused(
            f"an epoch has {count:,} examples, fewer than a batch of {stage.size:,}; set "
            'last = "pad", or smaller batches'
        )
    lost = f"up to {stage.size - 1:,}" if count is None else f"{count % stage.size:,}"
    return Rewrite(
        plan.replace(place, attrs.evolve(stage, drop_remainder=True)),
        done=f"drops {lost} examples an epoch, the last that fill no batch of {stage.size:,}",
    )


def with_last_batch_padded(plan: DataPlan) -> Rewrite:
    """The plan with a last batch filled up to full size, by examples of weight zero."""
    found = _partial_batch(plan)
    if isinstance(found, str):
        return Rewrite(plan, reason=found)
    size = plan.batch_size
    if size is None:
        return Rewrite(plan, reason="the size of a batch is unknown")
    unfit = unfit_for_padding(element_spec(plan))
    if unfit:
        return Rewrite(plan, reason=unfit)
    count = plan.upto(found[0]).cardinality
    filled = "" if count is None else f" by {size - count % size:,} examples of weight 0"
    function = padding(size)
    # core then refuses to change the size of the batches before it
    function.filled_to = size  # type: ignore[attr-defined]
    stage = MapBatches(function=function, deterministic=True)
    return Rewrite(plan.append(stage), done=f"pads the last batch{filled} to {size:,}, weighted")


def _partial_batch(plan: DataPlan) -> tuple[int, BatchStage] | str:
    """Return where examples are put into batches, or why there is no partial batch to change."""
    if plan.batching is None:
        return "the workload's batches are made where tfopt does not see it"
    place, stage = plan.batching
    count = plan.upto(place).cardinality
    if stage.drop_remainder:
        return "the workload drops the remainder itself"
    if count is not None and count % stage.size == 0:
        return f"every batch is full: {count:,} examples in batches of {stage.size:,}"
    return place, stage


@attrs.frozen(kw_only=True, eq=False)
class Batch:
    """Gives the last batch of an epoch the size of the others, so that all shapes are static.

    What it does: fills the last, partial batch of the training data with examples of weight zero
    (repeated from that batch), or drops it. The weights of the others are raised so that the mean
    loss stays that of the real examples.

    Why it helps: a step that is compiled for a shape (XLA, a GPU's kernels, graphs) is not traced
    and compiled a second time for the one smaller batch.

    When it does not: where the examples fill whole batches; without compilation. Dropping trains
    on fewer examples, which is another training.

    Mixes with: xla, whose second compilation it spares. Padding is refused for a model with batch
    normalization, a loss that is a sum, or a loss for each token or pixel, and cannot go with
    class weights. Updates of the model are those without padding, but the training loss that an
    epoch logs weighs the last batch as a full one, so padding is refused where a callback acts on
    it; metrics that are not weighted count the repeated examples of the last batch too. Validation
    data stay as they are.

    Reference: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#batch
    """

    targets: ClassVar[tuple[str, ...]] = ("dispatch", "compute")
    after: ClassVar[tuple[str, ...]] = ("vectorize-map",)

    last: Last = field(
        default="pad",
        validator=validators.in_(("keep", "drop", "pad")),
        metadata={
            "help": "What becomes of the last, partial batch: pad fills it with examples of "
            "weight 0, drop leaves its examples out, keep leaves it as it is."
        },
    )

    def math(self) -> Literal["exact", "rounding", "changes"]:
        """Padding makes the same updates, up to rounding; dropping does not."""
        names: dict[Last, Literal["exact", "rounding", "changes"]] = {
            "keep": "exact", "pad": "rounding", "drop": "changes",
        }  # fmt: skip
        return names[self.last]

    def suggest(self, diagnosis: Diagnosis) -> dict[str, Any] | None:
        """Where a compiled step meets a batch of another size."""
        examples, size = diagnosis.examples, diagnosis.batch_size
        if not diagnosis.jit_compile or examples is None or size is None:
            return None
        return {} if examples > size and examples % size else None

    @hookimpl(wrapper=True)
    def build_dataset(self, run: RunContext, split: str) -> ValueHook[DataPlan]:
        """Change the last batch of the training data."""
        plan = yield
        if self.last == "keep":
            return remember(
                self, run, split, Rewrite(plan, reason='last = "keep" leaves it as it is')
            )
        if split != "train":
            # a metric over fewer examples, or over repeated ones, would be another one
            return remember(self, run, split, Rewrite(plan, reason="is evaluated whole"))
        change = with_last_batch_dropped if self.last == "drop" else with_last_batch_padded
        return remember(self, run, split, change(plan))

    @hookimpl(wrapper=True)
    def configure_training(self, run: RunContext, model: Any) -> ValueHook[TrainingOptions]:
        """Refuse padding where weights would not undo it.

        :raises PluginRefused: naming what in the model or its loss stands against it.
        """
        options = yield
        train = run.state_of(self).get("rewrites", {}).get("train")
        if self.last == "pad" and train is not None and train.done:
            _check_training(model, options.loss)
            _check_callbacks(options.callbacks)
            unfit = why_not_weighted(element_spec(train.plan), model)
            if unfit:
                raise PluginRefused(f"{unfit}; {MEND}")
        return options

    def export(self, code: PlainCode) -> None:
        """What fills the last batch; one that drops it is a stage of tf.data, which core writes."""
        for stage in code.stages():
            if isinstance(stage, MapBatches):
                code.helper(_as_float, padding)
                code.function(stage.function, f"padding({self._padded(code)})")

    @staticmethod
    def _padded(code: PlainCode) -> int:
        [plan] = [c.after for c in code.changes if c.split == "train"]
        size = plan.batch_size
        assert isinstance(size, int)
        return size

    @hookimpl
    def report_effect(self, run: RunContext) -> Effect:
        """Read back from the lowered data whether every batch has one size."""
        return effect_if(self, run, _has_static_batches, "batches of unknown size")


def _has_static_batches(dataset: Any) -> bool:
    import tensorflow as tf

    leaves = tf.nest.flatten(dataset.element_spec)
    return all(leaf.shape.rank and leaf.shape[0] is not None for leaf in leaves)


def _check_callbacks(callbacks: Sequence[Any]) -> None:
    for callback in callbacks:
        if getattr(callback, "monitor", None) == "loss":
            raise PluginRefused(
                f"the callback {type(callback).__name__} acts on the training loss, in whose mean "
                f"over an epoch a padded batch weighs as much as a full one; {MEND}"
            )


def _check_training(model: Any, loss: Any) -> None:
    import keras

    for layer in nested_layers(model):
        if isinstance(layer, keras.layers.BatchNormalization):
            raise PluginRefused(
                f'padding would move the statistics of the layer "{layer.name}"; {MEND}'
            )
    for name in ("train_step", "compute_loss"):
        own: Callable[..., Any] = getattr(type(model), name)
        if own is not getattr(keras.Model, name):
            raise PluginRefused(
                f"the model has a {name} of its own, which may ignore the weights of the "
                f"padding; {MEND}"
            )
    losses = keras.tree.flatten(loss)
    if not losses or all(one is None for one in losses):
        raise PluginRefused(f"the model adds its own loss, which knows no weights; {MEND}")
    for one in losses:
        reduction = getattr(one, "reduction", "sum_over_batch_size")
        if reduction in ("sum", "none", None):
            raise PluginRefused(
                f'the loss is reduced by "{reduction}", where padding needs a mean; {MEND}'
            )
