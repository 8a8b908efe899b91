"""What a drawn script notes of its trainings, plain or under a stack."""

import csv
import os
import pickle
import random as python_random
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tomlkit

import tfopt_core
from tfopt_core.errors import TfoptError

# What the running script has noted, and the effect of each plugin of its stack.
NOTES: list[tuple[str, Any]] = []
EFFECTS: dict[str, tuple[bool, str]] = {}


def note(name: str, value: Any) -> None:
    """Note a result that must be the same under each stack; a script run by hand prints it."""
    NOTES.append((name, _plain(value)))
    if sys.argv[0].endswith(".py"):
        print(f"{name}: {NOTES[-1][1]}")


def _plain(value: Any) -> Any:
    """Return a value as dictionaries, tuples, arrays, numbers and texts."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return tuple(_plain(item) for item in value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tf.RaggedTensor):
        return _plain(value.to_list())
    return np.asarray(value)


@contextmanager
def noted(name: str) -> Iterator[None]:
    """Note what is raised inside, and go on behind it."""
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        note(f"{name} raised", error_of(error))


def error_of(error: BaseException) -> str:
    """Return type and first line of an exception; those of tfopt are marked, and whole. Texts of
    TensorFlow's own name places in a graph."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    if isinstance(error, TfoptError):
        return f"tfopt {type(error).__name__}: {error}"
    if isinstance(error, tf.errors.OpError):
        return type(error).__name__
    return f"{type(error).__name__}: {(lines or [''])[0]}"


@contextmanager
def under(stack: list[dict[str, Any]] | None) -> Iterator[None]:
    """Apply a stack inside; None, or the argument `plain` of a script, is plain Keras."""
    if stack is None or "plain" in sys.argv[1:]:
        yield
        return
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        tomlkit.dump({"name": "drawn", "workload": {"use": "flights"}, "plugins": stack}, file)
        file.flush()
        with tfopt_core.stacked(file.name) as stacked:
            try:
                yield
            finally:
                for name, effect in stacked.effects.items():
                    EFFECTS[name] = effect.applied, effect.detail
                if sys.argv[0].endswith(".py"):
                    print("effects:", EFFECTS)


def fit(name: str, model: Any, *data: Any, **arguments: Any) -> None:
    """Call `fit` and note its history, the state behind it and what it raises."""
    with noted(name):
        history = model.fit(*data, verbose=0, **arguments)
        note(f"{name}.history", history.history)
        note(f"{name}.epochs", history.epoch)
        note(f"{name}.params", history.params)
    _note_state(name, model)


def _note_state(name: str, model: Any) -> None:
    """Note what later fits begin with."""
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None:
        note(f"{name}.iterations", iterations := int(optimizer.iterations.numpy()))
        if iterations:  # before, it may be built or not
            note(f"{name}.optimizer", optimizer.variables[1:])
        settings = (model.steps_per_execution, model.run_eagerly, model.jit_compile)
        note(f"{name}.settings", [*settings, model.stop_training])
    note(f"{name}.weights", model.weights)
    note(f"{name}.trainable", len(model.trainable_weights))


def finish(model: Any) -> None:
    """Note what a script leaves: its model, its files, and where the random numbers stand."""
    _note_state("end", model)
    for path in sorted(Path().rglob("*")):
        if path.is_file():
            note(f"file {path}", _content(path))
    note("random.python", python_random.random())
    note("random.numpy", np.random.random())
    note("random.tensorflow", tf.random.uniform(()))


def _content(path: Path) -> Any:
    if path.suffix == ".csv":
        return list(csv.reader(path.open()))
    if path.suffix != ".h5":
        return "a file"
    import h5py

    found: dict[str, Any] = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, item: found.update({name: item[()]}) if hasattr(
            item, "dtype") else None)  # fmt: skip
    return found


def carry_out(script: str, file: str) -> None:
    """Run a script in this process, which has imported TensorFlow, and write down what it noted."""
    sys.argv = ["drawn"]
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    ended = None
    try:
        exec(compile(script, "drawn.py", "exec"), {"__name__": "__main__"})
    except BaseException as error:
        ended = error_of(error)
    left = {"notes": tuple(NOTES), "effects": EFFECTS, "ended": ended}
    Path(file).write_bytes(pickle.dumps(left))
    os._exit(0)
