"""A drawn case as plain data, and the script that it stands for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

# The plugins of a stack in recipe order, as a recipe's tables.
Stack = tuple[Mapping[str, Any], ...]
# What decides by values how long a training is, so that another order changes it.
_BY_VALUE = ("EarlyStopping", "NaN", "ReduceLR")
# What a callback reads the first batches of, which other orders make others.
_BY_FIRST_BATCHES = "'evaluate(train, steps="
_READ_AHEAD = re.compile(r"\.shuffle\(.*\.(repeat|cache)\(")
# Maps whose draws go on where the last reading left them.
_DRAWS_ON = re.compile(r"with_noise|with_generator|drawing_in_python")


@attrs.frozen
class Fit:
    """One call of `fit` and what stands before it; all are lines or expressions of Python.

    :param data: the positional arguments.
    :param arguments: the named ones but for the callbacks.
    """

    data: str
    arguments: tuple[str, ...] = ()
    callbacks: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    callback_list: bool = False


@attrs.frozen
class Case:
    """Model, data and calls of `fit`.

    :param rows: the arguments of `rows` for the training data.
    :param train: an expression that makes the training data of the rows; "" for the arrays.
    :param validation: the same for validation data.
    :param again: whether each fit makes its training data anew.
    :param replicas: those of a strategy of the script's own; 0 without one.
    :param base: plugins that change the training, under which both sides train.
    """

    model: str
    compile: tuple[str, ...]
    fits: tuple[Fit, ...]
    rows: str = "40"
    convert: str = ""
    train: str = ""
    validation: str = ""
    again: bool = False
    seed: int = 1
    floatx: str = ""
    replicas: int = 0
    base: Stack = ()

    @property
    def shuffles_arrays(self) -> bool:
        """Whether Keras itself draws the order of arrays."""
        return not self.train and any("shuffle=False" not in one.arguments for one in self.fits)

    @property
    def order_by_readers(self) -> bool:
        """Whether the order of a reading hangs on earlier ones: behind a shuffle a pass that
        tf.data begins ahead of a repeat draws the seed that the next iterator would get, and a
        cache keeps the order of who reads first."""
        data = (self.train, self.validation)
        return self._reads_again and any(_READ_AHEAD.search(one) for one in data)

    @property
    def why_unsteady(self) -> str:
        """Why plain Keras may differ from itself, by what is ahead; "" if it does not."""
        if self.replicas and "LossScaleOptimizer" in str(self.compile):
            return "replicas change one loss scale while others read it"
        data = f"{self.train} {self.validation}"
        if self._reads_again and "endless=True" in data:
            return "several readings share a generator"
        if "endless=True, fresh=True" in data:
            return "a generator that never ends draws as far as it is read ahead"
        given = " ".join(argument for one in self.fits for argument in one.arguments)
        cut = re.search(r"(steps_per_epoch|validation_steps)=", given)
        if "mixed=True" in data and cut:
            return "a pass that ends within an epoch exchanges examples while they are read ahead"
        if self._reads_again and cut and _DRAWS_ON.search(data):
            return "a pass that ends within an epoch leaves a generator where it was read ahead to"
        return ""

    @property
    def _reads_again(self) -> bool:
        return len(self.fits) > 1 or "evaluate(" in str(self.fits)

    @property
    def depends_on_order(self) -> bool:
        """Whether the order of the examples may decide how many batches are trained on, or which
        ones a callback reads."""
        return any(name in str(self.fits) for name in (*_BY_VALUE, _BY_FIRST_BATCHES))


def script_of(case: Case, stack: Stack | None) -> str:
    """Return the script of a case under a stack; None is plain Keras.

    Run by hand (`PYTHONPATH=tests .venv/bin/python FILE [plain]`) it prints what it notes.
    """
    lines = [f"keras.utils.set_random_seed({case.seed})"]
    if case.floatx:
        lines.insert(0, f'keras.backend.set_floatx("{case.floatx}")')
    if case.replicas:
        lines.insert(0, f"mirror({case.replicas})")
    lines += [f"x, y, w = rows({case.rows})", f"vx, vy, vw = rows({_validation(case.rows)})"]
    if case.convert:
        lines += [f"x, y = {case.convert}(x), {case.convert}(y)",
                  f"vx, vy = {case.convert}(vx), {case.convert}(vy)"]  # fmt: skip
    for name, expression in (("train", case.train), ("validation", case.validation)):
        if expression:
            lines += [f"make_{name} = lambda: {expression}", f"{name} = make_{name}()"]
    lines += [f"model = {case.model}", f"model.compile({', '.join(case.compile)})"]
    for number, one in enumerate(case.fits, 1):
        lines += one.before
        if number > 1 and case.again and case.train:
            lines.append("train = make_train()")
        lines.append(_fit_line(number, one))
    lines.append("finish(model)")
    body = "\n".join(f"    {line}" for line in lines)
    head = "from support.drawn_fits.names import *"
    shown = None if stack is None else list(stack)
    return f"{head}\n\nwith under({shown!r}):\n{body}\n"


def _fit_line(number: int, one: Fit) -> str:
    callbacks = f"[{', '.join(one.callbacks)}]"
    if one.callback_list:
        callbacks = f"keras.callbacks.CallbackList({callbacks}, add_history=True, model=model)"
    given: Sequence[str] = (one.data, *one.arguments)
    if one.callbacks or one.callback_list:
        given = (*given, f"callbacks={callbacks}")
    return f'fit("fit {number}", model, {", ".join(given)})'


def _validation(rows: str) -> str:
    """Return the arguments for rows of the same kind, fewer and others."""
    return ", ".join(("20", *rows.split(", ")[1:], "seed=1"))
