"""Write training checkpoints and resume from them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any

import attrs

from tfopt_core.errors import InputError
from tfopt_core.files import Disk
from tfopt_core.private_api import why_without
from tfopt_core.records.messages import Note, Tell
from tfopt_core.training.checkpoints import variables
from tfopt_core.training.checkpoints.callback_state import (
    capture_callbacks,
    not_kept,
    restore_callbacks,
)
from tfopt_core.training.checkpoints.config import CheckpointConfig
from tfopt_core.training.checkpoints.data_order import (
    epochs_drawn,
    make_iterators,
    remembers_epochs,
    without_steps_done,
)
from tfopt_core.training.checkpoints.file import Checkpoint, read_file
from tfopt_core.training.checkpoints.folder import Writer, writing_alone
from tfopt_core.training.checkpoints.random_state import (
    capture_random,
    restore_random,
    unreadable_ops,
)
from tfopt_core.training.checkpoints.segments import begin_anew
from tfopt_core.training.distributed.gathering import of_every_worker, of_this_worker
from tfopt_core.training.fit_monitor import FitMonitor
from tfopt_core.training.loops.resident import ResidentFunction


@attrs.define(eq=False)
class Checkpointer:
    """Writes the checkpoints of one training, and restores its state from one.

    :param writes: whether this process writes them; of several that train together, one does.
    :param start: the checkpoint to go on from, with all that it holds.
    """

    keeping: CheckpointConfig
    tell: Tell
    writes: bool = True
    disk: Disk = attrs.field(factory=Disk)
    start: Checkpoint | None = attrs.field(init=False)
    _monitor: FitMonitor = attrs.field(init=False)
    _writer: Writer = attrs.field(init=False)
    _locks: contextlib.ExitStack = attrs.field(factory=contextlib.ExitStack)
    _random_at_epoch_begin: dict[str, Any] = attrs.field(factory=dict)
    _steps_before: int = 0
    _since: int = 0
    _told: set[str] = attrs.field(factory=set)
    _built_with: dict[str, dict[str, Any]] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        keeping = self.keeping
        valid = [] if keeping.start is None else [keeping.start]
        self.start = None if keeping.start is None else read_file(keeping.folder / keeping.start)
        self._writer = Writer(keeping.folder, valid, self.disk)

    @property
    def finished(self) -> bool:
        """Whether the training had been finished when the checkpoint was written."""
        return self.start is not None and bool(self.start.values["finished"])

    @property
    def initial_epoch(self) -> int:
        """The epoch from which `fit` begins; past the last one if nothing is left to train."""
        if self.start is None:
            return 0
        if self.start.values["stopped"]:
            return int(self._monitor.built.run.epochs)
        return int(self.start.values["epochs"])

    def before_fit(self, monitor: FitMonitor) -> None:
        """The model is compiled and its train function made; `fit` is called next.

        :raises InputError: if another process keeps its checkpoints in the folder.
        """
        self._monitor = monitor
        states = monitor.built.run.owner.states
        self._built_with = {plugin: dict(state) for plugin, state in states.items()}
        if self.writes:
            self._locks.enter_context(writing_alone(self.keeping.folder))
        for name in not_kept(monitor.built.training.callbacks):
            self._note(f"a state that the callback {name} may have is in no checkpoint")
        missing = why_without("keras-random-state")
        if missing:
            self._note(missing)
        if remembers_epochs(monitor.built.run.datasets["train"]):
            self._note("what on_epoch_end of the data changes is in no checkpoint")
        if self.start is None:
            return
        values = self.start.values
        monitor.epochs_done, monitor.stop_reason = values["epochs"], values["stop_reason"]
        monitor.history.update({name: list(kept) for name, kept in values["history"].items()})
        if self.finished:
            self._restore_variables(self.start)
            self._restore_plugins(values)
            return
        make_iterators(monitor.built, values["epochs"])
        function = monitor.timed.of_stack
        if isinstance(function, ResidentFunction):
            function.data.orders.skip(epochs_drawn(monitor.built, values["epochs"]))

    def begin_training(self) -> None:
        """Every callback has begun the training; no epoch has begun."""
        if self.start is None:
            return
        built, values = self._monitor.built, self.start.values
        begin_anew(built)
        self._restore_variables(self.start)
        self._restore_states()
        restore_random(values["random"])

    def begin_epoch(self, epoch: int) -> None:
        """An epoch's first step is about to fetch its input; metrics were reset."""
        monitor, start = self._monitor, self.start
        self._steps_before = 0
        self._random_at_epoch_begin = capture_random()
        if start is None or epoch != start.values["epochs"]:
            return
        monitor.built.model.history.history.update(
            {name: list(kept) for name, kept in start.values["history"].items()}
        )
        steps = start.values["steps"]
        if not steps:
            return
        model, function = monitor.built.model, monitor.timed.of_stack
        self._random_at_epoch_begin = start.values["random_at_epoch_begin"]
        restore_random(self._random_at_epoch_begin)
        # what callbacks did at the epoch's begin, to the learning rate say, they had done before
        self._restore_variables(start)
        monitor.clock.begin_within(steps)
        self._steps_before = steps
        resident = isinstance(function, ResidentFunction)
        if isinstance(function, ResidentFunction):
            function.begin_within(steps)
        if monitor.timed.shared is not None:
            monitor.timed.shared.begin_within(steps)
        model.train_function = without_steps_done(
            model.train_function,
            steps=steps,
            steps_per_call=model.steps_per_execution,
            reads=not resident,
            logs=self._logs_within,
            skipped=self._after_skipping,
            goes_on=self._before_first_step,
        )

    def after_call(self, done: int) -> None:
        """So many steps of the epoch are done."""
        self._since += done - self._steps_before
        self._steps_before = done
        every = self.keeping.every
        if every is None or self._since < every or done == self._monitor.built.run.steps_per_epoch:
            return  # (the end of an epoch writes one anyway)
        self.write(done)

    def end_epoch(self) -> None:
        """The epoch is done, its validation and the plugins' notifications included."""
        self.write(0)

    def finish(self) -> None:
        """The training is over, and the model is as it will stay."""
        if not self.finished:
            self.write(0, finished=True)
        self._locks.close()

    def refuse(self, what: str) -> None:
        """A plugin does what no checkpoint can hold.

        :raises InputError: always.
        """
        raise InputError(
            f"a plugin {what} while the training runs, which no checkpoint can hold; train without "
            "--resume and --checkpoint-every"
        )

    def traced(self) -> None:
        """The step was traced just now: look for what no checkpoint can hold."""
        import tensorflow as tf

        ops = unreadable_ops(tf.compat.v1.get_default_graph())
        if ops:
            self._note(
                f"the training step draws random numbers by {', '.join(ops)}, whose state no "
                "checkpoint can hold: a training that goes on draws others; use keras.random with "
                "a keras.random.SeedGenerator"
            )

    def write(self, steps: int, *, finished: bool = False) -> str | None:
        """Write a checkpoint. Return its name, or None if another process writes.

        Workers that train together all call it: what differs among them is gathered.

        :param steps: how many steps of the epoch under way are done.
        :raises StoreError: if it cannot be written.
        """
        self._since = 0
        monitor = self._monitor
        built, model = monitor.built, monitor.built.model
        cluster = built.run.cluster
        together = cluster is not None and not cluster.coordinated
        if not self.writes and not together:
            return None
        groups = variables.groups_of(model, metrics=steps > 0)
        values, listed = variables.capture(groups, built.run.strategy, merged=not together)
        if together:
            values = of_every_worker(built.run.strategy, values)
        if not self.writes:
            return None
        states, arrays = capture_callbacks(built.training.callbacks)
        return self._writer.write(
            Checkpoint(
                {
                    "about": self.keeping.about,
                    "seed": built.run.seed,
                    "epochs": monitor.epochs_done,
                    "steps": steps,
                    "finished": finished,
                    "stopped": not steps and bool(model.stop_training),
                    "stop_reason": monitor.stop_reason,
                    "history": monitor.history,
                    "callbacks": states,
                    "plugins": self._plugin_states(),
                    "variables": listed,
                    "random": capture_random(),
                    "random_at_epoch_begin": self._random_at_epoch_begin,
                },
                {**values, **arrays},
            )
        )

    def _restore_variables(self, start: Checkpoint, *, metrics: bool = False) -> None:
        built, listed = self._monitor.built, start.values["variables"]
        variables.make_variables(built, listed)
        wanted = {group: kept for group, kept in listed.items() if metrics == (group == "metrics")}
        groups = variables.groups_of(built.model, metrics=metrics)
        with built.run.strategy.scope():
            variables.restore(groups, self._arrays(start), wanted, built.run.strategy)

    def _arrays(self, start: Checkpoint) -> Mapping[str, Any]:
        cluster = self._monitor.built.run.cluster
        if cluster is None or cluster.coordinated:
            return start.arrays
        return of_this_worker(start.arrays, cluster.rank)

    def _restore_plugins(self, values: Mapping[str, Any]) -> None:
        states = self._monitor.built.run.owner.states
        for plugin, state in values["plugins"].items():
            states.setdefault(plugin, {}).update(state)  # hooks and callbacks may hold the dict

    def _plugin_states(self) -> dict[str, Any]:
        kept = {}
        for plugin, state in self._monitor.built.run.owner.states.items():
            kept[plugin] = {key: value for key, value in state.items() if _is_plain(value)}
            # what it noted while it built is noted again by a training that goes on
            before = self._built_with.get(plugin, {})
            since = {key for key, value in state.items() if before.get(key) is not value}
            if since - set(kept[plugin]):
                self._note(f'what plugin "{plugin}" notes of a training is in no checkpoint')
        return kept

    def _logs_within(self) -> Any:
        return self._monitor.built.model.get_metrics_result()

    def _after_skipping(self) -> None:
        """The batches that were trained on have been read again."""
        assert self.start is not None
        self._restore_variables(self.start, metrics=True)
        # a global generator that is drawn from while data are read is by now where it was; the
        # others only callbacks, or the steps themselves, may have drawn from
        before, kept = self._random_at_epoch_begin, self.start.values["random"]
        now = capture_random()
        restore_random({name: kept[name] for name in kept if now[name] == before[name]})

    def _before_first_step(self) -> None:
        """Keras has called the callbacks for each step that was made before the stop."""
        self._restore_states()
        self._monitor.clock.restart_block()

    def _restore_states(self) -> None:
        """Of callbacks and plugins."""
        assert self.start is not None
        built, values = self._monitor.built, self.start.values
        restore_callbacks(
            built.training.callbacks, built.model, values["callbacks"], self.start.arrays
        )
        self._restore_plugins(values)

    def _note(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self.tell(Note(text))


def _is_plain(value: Any) -> bool:
    """Return whether JSON gives back what it was given."""
    try:
        return bool(json.loads(json.dumps(value)) == value)
    except (TypeError, ValueError):
        return False
