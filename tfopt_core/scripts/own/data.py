"""Rewrite the data sets over which a script's own training loop iterates, and time its waiting."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import attrs

from tfopt_core.data import DataPlan
from tfopt_core.data.lower import lower
from tfopt_core.hooks.context import RunContext
from tfopt_core.hooks.stack import Stack, StackedPlugin
from tfopt_core.scripts.fit_data import unchanged
from tfopt_core.scripts.keras_patches import replace
from tfopt_core.scripts.own.update_clock import UpdateClock
from tfopt_core.scripts.session import Session
from tfopt_core.training.clock import running_ns

# Libraries that iterate over data sets themselves, as `adapt` and `evaluate` do.
LIBRARIES = ("tensorflow", "keras")
# A loop of the script's own does not say how many epochs it will make: more than one.
EPOCHS = 2
ATTRIBUTE = "_tfopt_own_data_set"
# The data sets whose effects are reported; a script may make new ones for each epoch.
MOST_SETS = 8


@attrs.define(eq=False)
class OwnDataSet:
    """A data set of the loop, and what the stack made of it.

    :param split: "train" for one that was first iterated before any update, and for those that a
        script makes in its place, at the same line; else "validation".
    :param form: the line of the script that iterates, the spec of an element, and their number.
    :param before, after: its plan without and with the stack.
    :param passes: how often the loop began to iterate over it.
    """

    split: str
    form: tuple[Any, ...]
    before: DataPlan
    after: DataPlan
    stack: Stack
    run: RunContext
    data: Any
    passes: int = 0


@attrs.define(eq=False)
class OwnData:
    """Replaces the iteration over data sets in the script's code while it is installed.

    :param plugins: returns the resolved stack, given the plan of the first data set by its split.
    :param guard: carries out what plugins do, and notes their errors, which the script may catch.
    :param begun: when the script last began to iterate before its first update, in nanoseconds.
    :param waited_ns: how long the script waited for batches.
    :param in_graph: whether a data set was iterated within a tf.function, where it is left alone.
    """

    session: Session
    clock: UpdateClock
    plugins: Callable[[dict[str, DataPlan]], tuple[StackedPlugin, ...]]
    guard: Callable[[Callable[[], Any]], Any]
    sets: list[OwnDataSet] = attrs.field(factory=list)
    begun: int | None = None
    waited_ns: int = 0
    in_graph: bool = False
    _busy: bool = False
    _timed: set[type[Any]] = attrs.field(factory=set)
    _put_back: contextlib.ExitStack = attrs.field(factory=contextlib.ExitStack)

    @property
    def updates(self) -> bool:
        """Whether an update was made so far."""
        return self.clock.started is not None

    @property
    def active(self) -> bool:
        """Whether the script itself is running, and neither a plugin nor a call of `fit`."""
        return not self._busy and not self.session.patches.within_fit

    def install(self) -> None:
        """Replace the iteration over a `tf.data.Dataset`; nothing is computed here, so that the
        script's own settings of TensorFlow take effect."""
        import tensorflow as tf

        begin, reduce = tf.data.Dataset.__iter__, tf.data.Dataset.reduce

        @functools.wraps(begin)
        def replaced_iter(dataset: Any) -> Any:
            caller = sys._getframe(1)
            if not self._is_of_the_script(caller):
                return begin(dataset)
            served = self._served(dataset, (caller.f_code, caller.f_lineno))
            if not self.updates:
                self.begun = running_ns()
            elements = begin(served)
            self._time(type(elements))
            return elements

        @functools.wraps(reduce)
        def watched_reduce(dataset: Any, *given: Any, **named: Any) -> Any:
            # what AutoGraph makes of a loop over a data set
            if self.active and not tf.executing_eagerly():
                self.in_graph = True
            return reduce(dataset, *given, **named)

        replace(self._put_back, tf.data.Dataset, "__iter__", replaced_iter)
        replace(self._put_back, tf.data.Dataset, "reduce", watched_reduce)

    def _time(self, iterator: type[Any]) -> None:
        """Time the next element of iterators of a class, which has no public name."""
        import tensorflow as tf

        if iterator in self._timed:
            return
        self._timed.add(iterator)
        following = iterator.__next__

        @functools.wraps(following)
        def timed_next(elements: Any) -> Any:
            if not self.active:
                return following(elements)
            asked = running_ns()
            try:
                return following(elements)
            finally:
                # before the first update it is the start of the pipeline
                self.waited_ns += (running_ns() - asked) * self.updates
                if self.updates and tf.executing_eagerly():
                    self.clock.boundary()

        replace(self._put_back, iterator, "__next__", timed_next)

    def remove(self) -> None:
        """Restore the methods."""
        self._put_back.close()
        self._timed.clear()

    def of(self, split: str) -> Iterator[OwnDataSet]:
        """Yield the data sets of a split, in the order in which the loop came to them."""
        return (one for one in self.sets if one.split == split)

    def _is_of_the_script(self, caller: FrameType) -> bool:
        """Return whether the script's own code begins to iterate, eagerly."""
        import tensorflow as tf

        module = str(caller.f_globals.get("__name__", ""))
        if not self.active or module.partition(".")[0] in LIBRARIES:
            return False
        if not tf.executing_eagerly():
            self.in_graph = True
            return False
        return True

    def _served(self, dataset: Any, line: tuple[Any, int]) -> Any:
        """Return what is read in the place of a data set, the same in each epoch."""
        known: OwnDataSet | None = vars(dataset).get(ATTRIBUTE)
        if known is None:
            # plugins may read the data
            self._busy = True
            try:
                known = self.guard(functools.partial(self._rewritten, dataset, line))
            finally:
                self._busy = False
            # on the data set itself: a script may make new ones for each epoch
            vars(dataset)[ATTRIBUTE] = known
            self.sets += [known] if len(self.sets) < MOST_SETS else []
        known.passes += 1
        return dataset if self.session.shuffle_draws.is_uncounted(dataset) else known.data

    def _rewritten(self, dataset: Any, line: tuple[Any, int]) -> OwnDataSet:
        session, steps = self.session, int(dataset.cardinality())
        form = (*line, dataset.element_spec, steps)
        made_anew = any(one.form == form for one in self.of("train"))
        split = "train" if made_anew or not self.updates else "validation"
        before = DataPlan.from_dataset(dataset, kept=session.shuffle_draws.begun(dataset))
        plugins = self.plugins({split: before})
        stack = Stack(plugins, session.changes)
        run = attrs.evolve(
            session.run,
            fit_index=len(self.sets),
            epochs=EPOCHS,
            batch_size=before.batch_size,
            steps_per_epoch=steps if steps > 0 else None,
            element_spec=dataset.element_spec,
            settings=stack.settings,
            states={plugin: dict(state) for plugin, state in session.run.states.items()},
        )
        after = stack.build_dataset(run, split, before)
        data = dataset
        if not unchanged(after, before):
            with stack.blamed("build_dataset"):
                data = lower(after)
            session.shuffle_draws.link(dataset, data)
        run = attrs.evolve(run, datasets={split: data})
        return OwnDataSet(split, form, before, after, stack, run, data)
