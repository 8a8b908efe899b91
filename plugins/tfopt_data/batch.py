"""Batch: the batches of an epoch get one size, or one of few shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import attrs

from tfopt_core.data import Batch as BatchStage
from tfopt_core.data import MapBatches, element_spec
from tfopt_core.plugins import (
    DataPlan,
    Diagnosis,
    Effect,
    Plugin,
    PluginRefused,
    RunContext,
    Split,
    TrainingOptions,
    hookimpl,
    plugin,
    setting,
)
from tfopt_core.toolkit import keras, nested_layers, tf
from tfopt_data.padding import (
    Lengths,
    check_lengths,
    padding,
    unfit_for_padding,
    why_not_weighted,
    with_counted_shapes,
    with_few_lengths,
)
from tfopt_data.rewrite import Rewrite, effect_if, remember, splits_setting

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


@plugin
class Batch(Plugin):
    """Gives the batches of an epoch one size, or their sequences one of few lengths.

    What it does: fills the last, partial batch of the training data with examples of weight zero
    (repeated from that batch), or drops it. The weights of the others are raised so that the mean
    loss stays that of the real examples. With pad_to, axes whose length changes from batch to
    batch, such as those of tokens, are padded to the least of a few lengths that holds them;
    nothing is cut off, and what is longer than the last is padded to its next multiple.

    Why it helps: a step that is compiled for a shape (XLA, a GPU's kernels, graphs) is not traced
    and compiled again for the one smaller batch, nor for each length of a sequence.

    When it does not: where the examples fill whole batches, or have one length; without
    compilation. Dropping trains on fewer examples, which is another training. So does pad_to: a
    layer that masks nothing computes with the padding, and a loss for each token counts it, unless
    weights in the data are 0 there. It is the same training only where a mask (mask_zero, Masking)
    hides all of it; tfopt does not prove that, so it asks for a target. Padded steps compute more.

    Mixes with: xla, whose other compilations it spares. Padding of the last batch is refused for a
    model with batch normalization, a loss that is a sum, or a loss for each token or pixel, and
    cannot go with class weights. Updates of the model are those without padding, but the training
    loss that an epoch logs weighs the last batch as a full one, so padding is refused where a
    callback acts on it; metrics that are not weighted count the repeated examples of the last batch
    too. Validation data stay as they are, unless pad_splits names them.

    Reference: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#padded_batch
    """

    targets = ("dispatch", "compute")
    after = ("vectorize-map",)

    last: Last = setting(
        default="pad",
        help="What becomes of the last, partial batch: pad fills it with examples of weight 0, "
        "drop leaves its examples out, keep leaves it as it is.",
    )
    pad_to: Lengths | None = setting(
        default=None,
        validator=check_lengths,
        help="The lengths that changing axes are padded to, ascending, such as [16, 32, 64]; "
        "left out, they stay as they are.",
    )
    pad_splits: tuple[Split, ...] = splits_setting(
        ("train",), "Which data pad_to pads; padded validation data may have another metric."
    )

    def equivalence(self) -> Literal["exact", "rounding", "changes"]:
        """Padding makes the same updates, up to rounding; dropping does not, nor do more tokens."""
        if self.pad_to is not None:
            return "changes"
        names: dict[Last, Literal["exact", "rounding", "changes"]] = {
            "keep": "exact", "pad": "rounding", "drop": "changes",
        }  # fmt: skip
        return names[self.last]

    def suggest(self, diagnosis: Diagnosis) -> dict[str, Any] | None:
        """Where a compiled step meets a batch of another size, or batches of many lengths."""
        if diagnosis.found("retracing"):
            plan = diagnosis.plans.get("train")
            if plan is not None and with_few_lengths(plan, "power-of-two").done:
                return {"last": "keep", "pad_to": "power-of-two"}
        examples, size = diagnosis.examples, diagnosis.batch_size
        if not diagnosis.jit_compile or examples is None or size is None:
            return None
        return {} if examples > size and examples % size else None

    @hookimpl
    def build_dataset(self, run: RunContext, split: Split, plan: DataPlan) -> DataPlan:
        """Pad the changing axes, and change the last batch of the training data."""
        parts = run.state_of(self).setdefault("parts", {})[split] = {}
        if self.pad_to is not None:
            parts["lengths"] = self._with_few_lengths(plan, split)
            plan = parts["lengths"].plan
        if self.last != "keep" or self.pad_to is None:
            parts["last"] = self._with_last(plan, split)
            plan = parts["last"].plan
        return remember(self, run, split, _joined(plan, list(parts.values())))

    def _with_few_lengths(self, plan: DataPlan, split: Split) -> Rewrite:
        assert self.pad_to is not None
        if split not in self.pad_splits:
            return Rewrite(plan, reason='not among "pad_splits"')
        return with_few_lengths(plan, self.pad_to)

    def _with_last(self, plan: DataPlan, split: Split) -> Rewrite:
        if self.last == "keep":
            return Rewrite(plan, reason='last = "keep" leaves it as it is')
        if split != "train":
            # a metric over fewer examples, or over repeated ones, would be another one
            return Rewrite(plan, reason="is evaluated whole")
        change = with_last_batch_dropped if self.last == "drop" else with_last_batch_padded
        return change(plan)

    @hookimpl
    def configure_training(
        self, run: RunContext, model: Any, options: TrainingOptions
    ) -> TrainingOptions:
        """Refuse padding where weights would not undo it, and dropping a batch that is asked for.

        :raises PluginRefused: naming what in the model, its loss or the call of `fit` stands
            against it.
        """
        train = run.state_of(self).get("parts", {}).get("train", {}).get("last")
        if train is None or not train.done:
            return options
        left, asked = train.plan.cardinality, run.steps_per_epoch
        if self.last == "drop" and left is not None and asked is not None and left < asked:
            raise PluginRefused(
                f"the script takes {asked:,} steps an epoch, and {left:,} whole batches are left; "
                'set last = "pad" or "keep"'
            )
        if self.last == "pad":
            _check_training(model, options.loss)
            _check_callbacks(options.callbacks)
            unfit = why_not_weighted(element_spec(train.plan), model)
            if unfit:
                raise PluginRefused(f"{unfit}; {MEND}")
        return options

    @hookimpl
    def report_effect(self, run: RunContext) -> Effect:
        """Read back from the lowered data whether batches have one size, and how many shapes."""
        for split, parts in run.state_of(self).get("parts", {}).items():
            if "lengths" in parts:
                lengths = with_counted_shapes(parts["lengths"], run.datasets[split])
                counted = [lengths, *(part for name, part in parts.items() if name == "last")]
                remember(self, run, split, _joined(lengths.plan, counted))
        return effect_if(self, run, _has_static_batches, "batches of unknown size")

    def by_hand(self) -> str:
        """The same in plain code."""
        lines = {
            "keep": [],
            "drop": ["train = train.batch(batch_size, drop_remainder=True)"],
            "pad": ["# fill the last batch by repeated examples, with sample weights of 0"],
        }[self.last]
        if self.pad_to is not None:
            named = "a power of two" if self.pad_to == "power-of-two" else f"one of {self.pad_to}"
            lines.append(f"# pad axes whose length changes to {named}, in a map behind the batch")
        return "\n".join(lines) or "# nothing: the batches stay as they are"


def _joined(plan: DataPlan, parts: Sequence[Rewrite]) -> Rewrite:
    """Return the rewrite that these made one after another."""
    done = [part for part in parts if part.done]
    if len(parts) == 1:
        return parts[0]
    reasons = "; ".join(part.reason for part in parts if part.reason)
    if not done:
        return Rewrite(plan, reason=reasons)
    checks = [part.confirmed or _has_static_batches for part in done]
    said = "; ".join([*(part.done for part in done), *([reasons] if reasons else [])])
    return Rewrite(plan, done=said, confirmed=lambda data: all(check(data) for check in checks))


def _has_static_batches(dataset: Any) -> bool:
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
