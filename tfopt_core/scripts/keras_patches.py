"""Replace methods of Keras for a session, and count training steps outside of `fit`."""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Callable
from typing import Any

import attrs

OnCompile = Callable[[Any, Callable[..., Any], dict[str, Any]], Any]
OnFitCall = Callable[[Any, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
# Called with an optimizer, the variables that it updates, and the function that does it.
OnUpdate = Callable[[Any, Any, Callable[[], Any]], Any]


@attrs.define(eq=False)
class KerasPatches:
    """Replaces `keras.Model.compile` and `fit`.

    A model that overrides them and calls `super()` uses the replacements too.

    :param updates: how often an optimizer updated variables outside of `fit`, or was traced there.
    :param batches_alone: how often `train_on_batch` was called there.
    :param on_logs: called with the results of `train_on_batch` outside of `fit`.
    :param on_update: carries out the updates outside of `fit`, those of `train_on_batch` too; None
        leaves them alone.
    :param within_fit, within_train_on_batch: how many calls are under way.
    :param scope: a strategy of one device in whose scope the whole script runs; None without one.
    """

    on_compile: OnCompile
    on_fit: OnFitCall
    updates: int = 0
    batches_alone: int = 0
    on_update: OnUpdate | None = None
    on_logs: Callable[[Any], None] = lambda logs: None
    scope: Any = None
    threads: set[str] = attrs.field(factory=set)
    within_fit: int = 0
    within_train_on_batch: int = 0

    def install(self, put_back: contextlib.ExitStack) -> None:
        """Replace the methods until `put_back` is closed."""
        import keras
        import tensorflow as tf

        compile_, fit = keras.Model.compile, keras.Model.fit
        signature = inspect.signature(compile_)

        @functools.wraps(compile_)
        def replaced_compile(model: Any, *given: Any, **named: Any) -> Any:
            bound = signature.bind(model, *given, **named)
            bound.apply_defaults()
            arguments = dict(list(bound.arguments.items())[1:])
            return self.on_compile(model, compile_, arguments)

        @functools.wraps(fit)
        def replaced_fit(model: Any, *given: Any, **named: Any) -> Any:
            thread = threading.current_thread()
            if thread is not threading.main_thread():
                self.threads.add(thread.name)
            # for all threads: a strategy's replicas are traced in threads of their own
            self.within_fit += 1
            try:
                return self.on_fit(model, fit, given, named)
            finally:
                self.within_fit -= 1

        alone, apply = keras.Model.train_on_batch, keras.optimizers.Optimizer.apply

        @functools.wraps(alone)
        def counted_train_on_batch(model: Any, *given: Any, **named: Any) -> Any:
            self.batches_alone += not self.within_fit
            self.within_train_on_batch += 1
            try:
                logs = alone(model, *given, **named)
            finally:
                self.within_train_on_batch -= 1
            if not self.within_fit:
                self.on_logs(logs)
            return logs

        @functools.wraps(apply)
        def counted_apply(optimizer: Any, *given: Any, **named: Any) -> Any:
            def update() -> Any:
                # from within the scope itself no optimizer can update a variable
                if self.scope is not None and tf.distribute.in_cross_replica_context():
                    return self.scope.run(unconverted(apply), (optimizer, *given), named)
                return apply(optimizer, *given, **named)

            self.updates += not (self.within_fit or self.within_train_on_batch)
            if self.within_fit or self.on_update is None:
                return update()
            variables = given[1] if len(given) > 1 else named.get("trainable_variables")
            return self.on_update(optimizer, variables, update)

        unconverted = tf.autograph.experimental.do_not_convert
        counted_apply = unconverted(counted_apply)
        model, optimizer = keras.Model, keras.optimizers.Optimizer
        for owner, name, method in (
            (model, "compile", replaced_compile),
            (model, "fit", replaced_fit),
            (model, "train_on_batch", counted_train_on_batch),
            (optimizer, "apply", counted_apply),
        ):
            # on the class that defines it: Keras checks whether a model overrides `compile`
            defining = next(each for each in owner.__mro__ if name in vars(each))
            replace(put_back, defining, name, method)


def replace(put_back: contextlib.ExitStack, owner: Any, name: str, value: Any) -> None:
    """Replace an attribute of a class, module or object until `put_back` is closed."""
    put_back.callback(setattr, owner, name, getattr(owner, name))
    setattr(owner, name, value)
