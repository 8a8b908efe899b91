"""Materialize: what Python yields the same in each epoch is read once and kept."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from tfopt_core.data import (
    UNKNOWN_COUNT_BUFFER,
    Batch,
    Interleave,
    MapBatches,
    MapExamples,
    Shuffle,
    Source,
    Stage,
    datasets,
    has_stage,
)
from tfopt_core.plugins import (
    DataPlan,
    Diagnosis,
    Effect,
    PluginRefused,
    Probe,
    RunContext,
    Split,
    hookimpl,
    plugin,
    setting,
)
from tfopt_core.toolkit import size_in_words, tf
from tfopt_data.cache_storage import DISK_SHARE, ROWS_SHARE, private_path, too_large
from tfopt_data.kept_rows import KeptRows, in_files, in_memory
from tfopt_data.python_epochs import (
    Epoch,
    Order,
    compared_epochs,
    epoch_of,
    order_of,
    remember_first_epoch,
    rows_of_first_epoch,
    still_yields,
)
from tfopt_data.python_source import PythonSource, Rows, python_source
from tfopt_data.rewrite import Rewrite, RewritingPlugin, effect_if, input_matters, splits_setting


@attrs.frozen(kw_only=True, eq=False)
class ShuffleBatches(Shuffle):
    """Shuffles examples in groups of `size`, each of which becomes a batch.

    A smaller last group stays last.
    """

    size: int

    def lower(self, dataset: Any) -> Any:
        """Return the examples of `dataset`, whose number must be known."""
        count = int(dataset.cardinality())
        full = count - count % self.size
        groups = super().lower(dataset.take(full).batch(self.size, drop_remainder=True))
        shuffled = groups.unbatch()
        if full < count:
            shuffled = shuffled.concatenate(dataset.skip(full))
        return shuffled.apply(tf.data.experimental.assert_cardinality(count))

    def describe(self) -> str:
        return f"shuffle: whole batches of {self.size:,}, anew each epoch"


def with_rows(
    plan: DataPlan, python: PythonSource, kept: KeptRows, order: Order, seed: int, *, mapped: bool
) -> DataPlan:
    """Return the plan that reads what is kept instead of its source.

    Batches of the source are made again of the same examples. All later stages stay.

    :param order: "kept", or what is drawn anew each epoch.
    :param mapped: whether the rows are read by their number from files.
    """
    count, size = kept.count, kept.batch_size
    source = Source(value=kept.value, origin="arrays", count=count)
    if mapped:
        source = Source(value=(0, count, 1), origin="range", count=count)
    stages: list[Stage] = [source]
    behind = [_as_before(stage, count, python) for stage in python.behind]
    if python.source.batched:
        if order == "batches":
            stages.append(ShuffleBatches(size=size, seed=seed))
        elif order == "examples":
            stages.append(Shuffle(seed=seed))
        stages.append(Batch(size=size))
        if mapped:
            stages.append(MapBatches(function=kept.at, deterministic=True))
    else:
        if mapped:
            stages.append(MapExamples(function=kept.at, deterministic=True))
        if order == "examples" and not any(isinstance(stage, Shuffle) for stage in behind):
            stages.append(Shuffle(seed=seed))
    return plan.with_stages((*stages, *behind))


def _as_before(stage: Stage, count: int, python: PythonSource) -> Stage:
    """Return a shuffle with the buffer that it had while nobody knew the number of examples."""
    if not isinstance(stage, Shuffle) or stage.buffer_size is not None:
        return stage
    if python.source.count is not None or count <= UNKNOWN_COUNT_BUFFER:
        return stage
    return attrs.evolve(stage, buffer_size=UNKNOWN_COUNT_BUFFER)


@plugin
class Materialize(RewritingPlugin):
    """Reads a PyDataset or Python generator once, where each of its epochs holds the same examples.

    What it does: two epochs are compared by digests of their examples before anything is timed. If
    they are the same, each run reads one epoch into memory, or into a file for each array, and
    tf.data takes the batches from there. Batches hold the examples that they held; their order is
    drawn anew where Keras draws it. Where the PyDataset itself exchanges examples between batches
    in on_epoch_end, single examples are shuffled. Epochs of other examples are refused.

    Why it helps: Python computes an example once instead of once an epoch, and the loops that need
    tf.data or data in memory (chunked, resident) can stand on it.

    When it does not: for one epoch, and where a step waits for the model rather than for its input.
    Random augmentation in Python is refused. Equal epochs are no proof of a further one: a
    measurement compares two, and further ones for a second; where a callback has changed what
    is read first, or set an attribute of a PyDataset whose order is kept, the training ends in an
    error. Only examples of one shape are kept.
    on_epoch_begin and on_epoch_end are not called in training.

    Mixes with: resident, chunked, prefetch and cache, all of which stand behind it. Not with a
    generator that `fit` is given without steps_per_epoch: it is read once in any case. Files are
    read by Python, which XLA cannot compile into a resident loop.

    Reference: https://keras.io/api/utils/python_utils/#pydataset-class
    """

    targets = ("input", "dispatch")
    before = (
        "batch", "cache", "chunked", "data-service", "prefetch", "prefetch-to-device", "resident",
        "shard", "shuffle",
    )  # fmt: skip

    storage: Literal["auto", "memory", "disk"] = setting(
        default="auto",
        help="Where examples are kept; disk is the run's own folder; auto takes memory if they "
        "take at most a quarter of what is free, else the disk.",
    )
    order: Literal["auto", "kept", "batches", "examples"] = setting(
        default="auto",
        help="What is drawn anew each epoch: nothing (kept), the order of whole batches or that "
        "of single training examples; auto does what the source and Keras do.",
    )
    compared: bool = setting(
        default=False,
        help="Whether two epochs were compared already, as a measurement does before its runs; "
        "false compares them before each training.",
    )
    splits: tuple[Split, ...] = splits_setting(
        ("train", "validation"),
        "Which data are materialized: the training data, the validation data or both.",
    )

    def equivalence(self) -> Literal["exact", "order"]:
        """The same examples; in the same order where nothing is drawn anew."""
        return "exact" if self.order == "kept" else "order"

    def suggest(self, diagnosis: Diagnosis) -> dict[str, Any] | None:
        """Where Python yields the examples in more than one epoch, and the steps wait for it."""
        plan = diagnosis.plans.get("train")
        if plan is None or diagnosis.epochs < 2 or not input_matters(diagnosis):
            return None
        python = diagnosis.found("python-generator") or plan.source.origin == "generator"
        return {} if python or plan.source.origin == "pydataset" else None

    def resolve(self, probe: Probe) -> Materialize:
        """Compare two epochs of each split, and decide where one of them is kept.

        :raises PluginRefused: if the epochs differ, or one fits nowhere.
        """
        if self.compared and "auto" not in (self.storage, self.order):
            return self
        needed, order, compared = 0, self.order, True
        for split in self.splits:
            try:
                plan = probe.plan(split)
            except ValueError:
                continue
            python = python_source(plan, None)
            if isinstance(python, str):
                # a run knows how many batches fit takes of an epoch, and so may read it
                compared = compared and (split, plan.source.origin) != ("train", "dataset")
                continue
            found, first = compared_epochs(python, probe.epochs)
            needed += first.size_bytes
            if split == "train":
                order = _allowed(order, _drawn(python, found))
        storage = self.storage
        free, room = probe.available_memory_bytes(), probe.available_disk_bytes()
        if storage == "auto":
            storage = "memory" if needed <= ROWS_SHARE * free else "disk"
        _check_room(storage, needed, free, room)
        order = "kept" if order == "auto" else order
        return attrs.evolve(self, storage=storage, order=order, compared=compared)

    def _rewritten(self, run: RunContext, split: Split, plan: DataPlan) -> Rewrite:
        steps = run.steps_per_epoch if split == "train" else None
        python = python_source(plan, steps)
        if isinstance(python, str):
            return Rewrite(plan, reason=python)
        order: Order = "kept" if split != "train" or self.order == "auto" else self.order
        first: Epoch | None = None
        if not self.compared:
            found, first = compared_epochs(python)
            if split == "train":
                order = _allowed(self.order, _drawn(python, found))
        before = _attributes(python)
        kept = self._read(python, run, split)
        if first is not None:
            order_of(python, first, epoch_of(kept), 3)
        after = _attributes(python)
        by_reading = {name for name, value in after.items() if before.get(name) is not value}
        run.state_of(self).setdefault("kept", []).append((python, kept, after, by_reading))
        place = "on disk" if self.storage == "disk" else "in memory"
        # without the seconds, or each run would have another effect
        done = (
            f"{place}, {kept.count:,} examples of {python.name} ({size_in_words(kept.size_bytes)}) "
            f"read once, {_IN_WORDS[order]}"
        )
        return Rewrite(
            with_rows(
                plan, python, kept, order, run.seed + run.fit_index, mapped=self.storage == "disk"
            ),
            done=done,
            confirmed=lambda dataset: _is_off_python(dataset, python),
        )

    def _read(self, python: PythonSource, run: RunContext, split: Split) -> KeptRows:
        kept = rows_of_first_epoch(python)
        if kept is None:
            rows = Rows(python, next(python.epochs()))
            if self.storage == "disk":
                kept = in_files(rows, private_path(run, f"rows-{split}"))
            else:
                kept = in_memory(rows)
            remember_first_epoch(python, kept)
        return kept

    @hookimpl
    def report_effect(self, run: RunContext) -> Effect:
        """Read back from the lowered data whether Python still yields them.

        :raises PluginRefused: where it no longer yields what it yielded before the training, or a
            callback has set an attribute of a PyDataset whose order is kept.
        """
        for python, kept, before, by_reading in run.state_of(self).get("kept", []):
            now = _attributes(python).items()
            was_set = {name for name, value in now if before.get(name) is not value} - by_reading
            if (self.order == "kept" and was_set) or not still_yields(python, kept):
                raise PluginRefused(
                    f"{python.name} was changed in the training, which trained on what it yielded "
                    "before; leave materialize out of the stack"
                )
        found = effect_if(self, run, lambda dataset: True, "what Python yields")
        if found.applied and run.epochs == 1:
            # its order may be another one all the same
            return Effect.applied_as(f"{found.detail}; of one epoch nothing is read twice")
        return found

    def by_hand(self) -> str:
        """The same in plain code."""
        drawn = {"kept": False, "batches": "batch"}.get(self.order, True)
        return (
            "# read what Python yields once, where each epoch yields the same\n"
            "x, y = map(np.concatenate, zip(*batches))\n"
            f"model.fit(x, y, batch_size, shuffle={drawn!r})"
        )


_IN_WORDS: dict[Order, str] = {
    "kept": "in their order",
    "batches": "whole batches shuffled anew each epoch",
    "examples": "examples shuffled anew each epoch",
}


def _attributes(python: PythonSource) -> dict[str, Any]:
    """Return the attributes of a PyDataset but for numbers, which may only count."""
    if python.source.origin != "pydataset":
        return {}
    every = vars(python.source.value).items()
    return {name: value for name, value in every if not isinstance(value, int | float)}


def _drawn(python: PythonSource, found: Order) -> Order:
    """What is to be drawn anew: what the source does itself, and what Keras does to its batches."""
    return "batches" if found == "kept" and python.source.redrawn else found


def _allowed(asked: Order | Literal["auto"], drawn: Order) -> Order:
    """Return the order that is asked for, or that the source has.

    :raises PluginRefused: where an order would be kept that is drawn anew.
    """
    if asked == "kept" and drawn != "kept":
        raise PluginRefused(
            f"each epoch has its {drawn} in another order, so that none can be kept; set order = "
            '"auto"'
        )
    return drawn if asked == "auto" else asked


def _check_room(storage: str, needed: int, free: int, room: int) -> None:
    if storage == "memory" and needed > ROWS_SHARE * free:
        raise PluginRefused(
            f"the examples need {size_in_words(needed)}, more than {ROWS_SHARE:.0%} of the "
            f'{size_in_words(free)} of memory that are free; set storage = "auto" or "disk"'
        )
    where = "are free on the disk of the runs"
    reason = too_large("the examples need", needed, room, where, DISK_SHARE)
    if storage == "disk" and reason:
        raise PluginRefused(f"{reason}; leave materialize out of the stack")


def _is_off_python(dataset: Any, python: PythonSource) -> bool:
    """Whether a lowered data set no longer reads the source."""
    if not isinstance(dataset, tf.data.Dataset):
        return False
    if any(part is python.source.value for part in datasets(dataset)):
        return False
    own = any(isinstance(stage, Interleave) for stage in python.behind)
    return own or not has_stage(dataset, "FlatMap")  # which a generator is lowered to
