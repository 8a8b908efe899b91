"""Shard: each of several workers reads its own part of the data."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Literal

import attrs

from tfopt_core.data import Shard as ShardStage
from tfopt_core.plugins import DataPlan, PluginRefused, Probe, RunContext, Split, plugin, setting
from tfopt_core.toolkit import number_or
from tfopt_data.rewrite import Rewrite, RewritingPlugin, splits_setting


def with_shard(plan: DataPlan, count: int, index: int) -> Rewrite:
    """The plan with every `count`-th element of its source, beginning with that at `index`.

    It stands before everything else, so that no worker shuffles or computes what others read.

    :raises PluginRefused: if there is no element for each.
    """
    if count == 1:
        return Rewrite(plan, reason="there is one worker, so it reads everything")
    if plan.source.origin == "pydataset":
        return Rewrite(plan, reason="a PyDataset is read by Keras itself, not by tf.data")
    there = plan.source.count
    if there is not None and there < count:
        raise PluginRefused(
            f"the source has {there:,} elements, too few for {count} workers; split the data into "
            "more files"
        )
    stage = ShardStage(count=count, index=index)
    return Rewrite(plan.insert(1, stage), done=stage.describe())


def worker_of(environment: Mapping[str, str]) -> tuple[int, int]:
    """How many workers train together and which of them this is, by TensorFlow's TF_CONFIG.

    Without it there is one. The chief comes first; evaluators and parameter servers read nothing.

    :raises PluginRefused: for a TF_CONFIG that does not say.
    """
    text = environment.get("TF_CONFIG")
    if not text:
        return 1, 0
    try:
        config = json.loads(text)
        cluster = config.get("cluster", {})
        workers = [*(("chief", i) for i, _ in enumerate(cluster.get("chief", ())))]
        workers += [("worker", i) for i, _ in enumerate(cluster.get("worker", ()))]
        task = config.get("task", {})
        return max(1, len(workers)), workers.index((task.get("type"), int(task.get("index"))))
    except (AttributeError, TypeError, ValueError) as error:
        raise PluginRefused(
            'TF_CONFIG does not say which worker this is; set "count" and "index"'
        ) from error


@plugin
class Shard(RewritingPlugin):
    """Gives each of several workers a part of the data of its own.

    What it does: takes every n-th element of the source, for n workers, before anything else.

    Why it helps: each worker reads and decodes one n-th of the data, and no example is trained on
    twice in an epoch.

    When it does not: for one worker, which would leave the rest of the data out; where a source
    has few files of very different sizes, since some workers then wait for others.

    Mixes with: cache and shuffle, which then hold a part each. A distribution strategy that shards
    the data itself must be told not to.

    Reference: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#shard
    """

    targets = ("input", "communication")
    _sign = "Shard"
    # a cache in part becomes the source, and would keep what others read
    before = ("cache",)

    count: int | Literal["auto"] = number_or(
        "auto", "How many workers share the data; auto reads TF_CONFIG."
    )
    index: int | Literal["auto"] = setting(
        default="auto",
        help="Which of them this is, from 0; auto reads TF_CONFIG.",
    )
    splits: tuple[Split, ...] = splits_setting(
        ("train",), "Which data are shared out: the training data, the validation data."
    )

    @index.validator
    def _check_index(self, _: Any, value: int | str) -> None:
        if isinstance(value, int) and value < 0:
            raise ValueError(f'index must be at least 0 or "auto", got {value}')

    def __attrs_post_init__(self) -> None:
        if isinstance(self.count, int) and isinstance(self.index, int) and self.index >= self.count:
            raise ValueError(f"index must be below count ({self.count}), got {self.index}")

    def equivalence(self) -> Literal["exact", "changes"]:
        """A worker alone trains on a part of the data, unless there is but one."""
        try:
            count, _ = self._place()
        except PluginRefused:  # `resolve` says it, with what to do
            return "changes"
        return "exact" if count == 1 else "changes"

    def resolve(self, probe: Probe) -> Shard:
        """Read from TF_CONFIG which worker this is.

        :raises PluginRefused: if it does not say, or contradicts the settings.
        """
        count, index = self._place()
        return attrs.evolve(self, count=count, index=index)

    def _place(self) -> tuple[int, int]:
        """How many shards there are, and which one is read."""
        count, index = self.count, self.index
        if count != "auto" and index != "auto":
            return count, index
        workers, own = worker_of(os.environ)
        count = workers if count == "auto" else count
        index = own if index == "auto" else index
        if index >= count:
            raise PluginRefused(
                f"there are {count} shards, so there is none of index {index}; set both "
                '"count" and "index"'
            )
        return count, index

    def _rewritten(self, run: RunContext, split: Split, plan: DataPlan) -> Rewrite:
        return with_shard(plan, *self._place())

    def by_hand(self) -> str:
        """The same in plain code."""
        count = "workers" if self.count == "auto" else self.count
        index = "this_worker" if self.index == "auto" else self.index
        return "\n".join(
            f"{split} = {split}.shard({count}, {index})  # before the shuffle"
            for split in self.splits
        )
