"""The methods of Keras that a session stands in for, and signs of trainings that it cannot."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from typing import Any

import attrs

OnCompile = Callable[[Any, Callable[..., Any], dict[str, Any]], Any]
OnFitCall = Callable[[Any, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


@attrs.define(eq=False)
class Surface:
    """Takes the place of `keras.Model.compile` and `fit`, and gives it back.

    A model with methods of its own that call `super()` passes through here too.

    :param tapes: how often a `tf.GradientTape` was entered outside of `fit`.
    :param batches_alone: how often `train_on_batch` was called there.
    """

    on_compile: OnCompile
    on_fit: OnFitCall
    tapes: int = 0
    batches_alone: int = 0
    threads: set[str] = attrs.field(factory=set)
    _put_back: list[Callable[[], None]] = attrs.field(factory=list)
    _depth: threading.local = attrs.field(factory=threading.local)

    def install(self) -> None:
        """Stand in from now on."""
        import keras
        import tensorflow as tf

        compile_, fit = keras.Model.compile, keras.Model.fit
        signature = inspect.signature(compile_)

        @functools.wraps(compile_)
        def standing_in_for_compile(model: Any, *given: Any, **named: Any) -> Any:
            bound = signature.bind(model, *given, **named)
            bound.apply_defaults()
            arguments = dict(list(bound.arguments.items())[1:])
            return self.on_compile(model, compile_, arguments)

        @functools.wraps(fit)
        def standing_in_for_fit(model: Any, *given: Any, **named: Any) -> Any:
            thread = threading.current_thread()
            if thread is not threading.main_thread():
                self.threads.add(thread.name)
            with self._within_fit():
                return self.on_fit(model, fit, given, named)

        self._replace(keras.Model, "compile", standing_in_for_compile)
        self._replace(keras.Model, "fit", standing_in_for_fit)
        alone, enter = keras.Model.train_on_batch, tf.GradientTape.__enter__

        @functools.wraps(alone)
        def counted_train_on_batch(model: Any, *given: Any, **named: Any) -> Any:
            self.batches_alone += not self._in_fit
            with self._within_fit():
                return alone(model, *given, **named)

        @functools.wraps(enter)
        def counted_enter(tape: Any) -> Any:
            self.tapes += not self._in_fit
            return enter(tape)

        self._replace(keras.Model, "train_on_batch", counted_train_on_batch)
        self._replace(tf.GradientTape, "__enter__", counted_enter)

    def remove(self) -> None:
        """Give everything back."""
        while self._put_back:
            self._put_back.pop()()

    @property
    def _in_fit(self) -> bool:
        return bool(getattr(self._depth, "fits", 0))

    def _within_fit(self) -> _Within:
        return _Within(self._depth)

    def _replace(self, owner: type[Any], name: str, method: Any) -> None:
        # where it is defined: Keras asks whether a model has a `compile` that is not this one
        defining = next(one for one in owner.__mro__ if name in vars(one))
        before = vars(defining)[name]
        setattr(defining, name, method)
        self._put_back.append(lambda: setattr(defining, name, before))


class _Within:
    """Counts how deep the thread is in trainings that Keras drives."""

    def __init__(self, depth: threading.local) -> None:
        self._depth = depth

    def __enter__(self) -> None:
        self._depth.fits = getattr(self._depth, "fits", 0) + 1

    def __exit__(self, *_: object) -> None:
        self._depth.fits -= 1
