"""Write training checkpoints and resume from them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any

import attrs

from tfopt_core.files import Disk
from tfopt_core.private_api import why_without
from tfopt_core.training.build import Built
from tfopt_core.training.callbacks import unset_initial_epoch
from tfopt_core.training.checkpoints.folder import Checkpoint, Writer, read_file, writing_alone
from tfopt_core.training.checkpoints.state import (
    capture_callbacks,
    capture_random,
    capture_variables,
    make_iterators,
    remembers_epochs,
    restore_callbacks,
    restore_random,
    restore_variables,
    unknown_callbacks,
)
from tfopt_core.training.fit_monitor import FitMonitor
from tfopt_core.training.job import CheckpointConfig
from tfopt_core.training.loops.traces import step_draws
from tfopt_core.training.messages import Note, Tell


@attrs.define(eq=False)
class Checkpointer:
    """Writes the checkpoints of one training, and restores its state from one.

    It is the last Keras callback of a fit, so a checkpoint includes what all others have done.

    :param writes: whether this process writes them; of several that train together, one does.
    :param start: the checkpoint to resume from; None to train from the beginning.
    """

    config: CheckpointConfig
    tell: Tell
    writes: bool = True
    disk: Disk = attrs.field(factory=Disk)
    start: Checkpoint | None = attrs.field(init=False)
    _monitor: FitMonitor = attrs.field(init=False)
    _writer: Writer = attrs.field(init=False)
    _locks: contextlib.ExitStack = attrs.field(factory=contextlib.ExitStack)
    _notes: set[str] = attrs.field(factory=set)
    _built_with: dict[str, dict[str, Any]] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        config = self.config
        valid = [] if config.start is None else [config.start]
        self.start = None if config.start is None else read_file(config.folder / config.start)
        self._writer = Writer(config.folder, valid, self.disk)

    @property
    def finished(self) -> bool:
        """Whether the training was finished when the checkpoint was written."""
        return self.start is not None and bool(self.start.values["finished"])

    @property
    def initial_epoch(self) -> int:
        """The first epoch of `fit`; past the last one if nothing is left to train."""
        if self.start is None:
            return 0
        if self.start.values["stopped"]:
            return int(self._built.run.epochs)
        return int(self.start.values["epochs"])

    def before_fit(self, monitor: FitMonitor) -> None:
        """Restore the data order and the history, just before `fit` is called.

        :param monitor: whose train function is installed.
        :raises InputError: if another process writes its checkpoints to the folder.
        """
        self._monitor = monitor
        built = self._built
        self._built_with = {name: dict(state) for name, state in self._states().items()}
        if self.writes:
            self._locks.enter_context(writing_alone(self.config.folder))
        for name in unknown_callbacks(built.training.callbacks):
            self._note(f"a state that the callback {name} may have is in no checkpoint")
        missing = why_without("keras-random-state")
        if missing:
            self._note(missing)
        if remembers_epochs(built.run.datasets["train"]):
            self._note("what on_epoch_end of the data changes is in no checkpoint")
        if self.start is None:
            return
        values = self.start.values
        monitor.epochs_done, monitor.stop_reason = values["epochs"], values["stop_reason"]
        monitor.history.update({name: list(past) for name, past in values["history"].items()})
        if self.finished:
            restore_variables(built, self.start.arrays, values["variables"])
            self._restore_plugins(values)
            return
        make_iterators(built, values["epochs"])

    @property
    def _built(self) -> Built:
        return self._monitor.built

    def on_train_begin(self, logs: Any = None) -> None:
        """Restore the state, after all callbacks have begun the training."""
        start, built = self.start, self._built
        if start is None:
            return
        unset_initial_epoch(built.model, built.training.callbacks)
        restore_variables(built, start.arrays, start.values["variables"])
        restore_callbacks(
            built.training.callbacks, built.model, start.values["callbacks"], start.arrays
        )
        self._restore_plugins(start.values)
        restore_random(start.values["random"])

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Restore Keras' own history, which `fit` has begun anew."""
        if self.start is not None and epoch == self.start.values["epochs"]:
            self._built.model.history.history.update(
                {name: list(past) for name, past in self.start.values["history"].items()}
            )

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Write a checkpoint of the whole epoch, its validation and the plugins' hooks included."""
        self.write()

    def finish(self) -> None:
        """Write the last checkpoint, with the final model, and unlock the folder."""
        if not self.finished:
            self.write(finished=True)
        self._locks.close()

    def write(self, *, finished: bool = False) -> str | None:
        """Write a checkpoint. Return its name, or None if another process writes.

        :raises StoreError: if it cannot be written.
        """
        built, model, monitor = self._built, self._built.model, self._monitor
        if not self.writes:
            return None
        if ops := step_draws(model):
            self._note(
                f"the training step draws random numbers by {', '.join(ops)}, whose state no "
                "checkpoint can hold: a resumed training draws others; use keras.random with "
                "a keras.random.SeedGenerator"
            )
        values, listed = capture_variables(built)
        states, arrays = capture_callbacks(built.training.callbacks)
        return self._writer.write(
            Checkpoint(
                {
                    "about": self.config.about,
                    "seed": built.run.seed,
                    "epochs": monitor.epochs_done,
                    "finished": finished,
                    "stopped": bool(model.stop_training),
                    "stop_reason": monitor.stop_reason,
                    "history": monitor.history,
                    "callbacks": states,
                    "plugins": self._plugin_states(),
                    "variables": listed,
                    "random": capture_random(),
                },
                {**values, **arrays},
            )
        )

    def _restore_plugins(self, values: Mapping[str, Any]) -> None:
        states = self._states()
        for plugin, state in values["plugins"].items():
            states[plugin].update(state)  # hooks and callbacks may hold the dict

    def _states(self) -> dict[str, dict[str, Any]]:
        built = self._built
        return {p.name: built.run.state_of(p.plugin) for p in built.stack.plugins}

    def _plugin_states(self) -> dict[str, Any]:
        saved = {}
        for plugin, state in self._states().items():
            saved[plugin] = {key: value for key, value in state.items() if _is_plain(value)}
            # what it noted during the build is noted again when the training resumes
            before = self._built_with.get(plugin, {})
            since = {key for key, value in state.items() if before.get(key) is not value}
            if since - set(saved[plugin]):
                self._note(f'what plugin "{plugin}" notes of a training is in no checkpoint')
        return saved

    def _note(self, text: str) -> None:
        if text not in self._notes:
            self._notes.add(text)
            self.tell(Note(text))


def _is_plain(value: Any) -> bool:
    """Return whether JSON preserves the value."""
    try:
        return bool(json.loads(json.dumps(value)) == value)
    except (TypeError, ValueError):
        return False
