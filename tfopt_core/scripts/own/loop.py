"""Watch a training loop of the script's own: updates, traces, losses, and what plugins do."""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.hooks.contract import implementations
from tfopt_core.hooks.diagnosis import Finding
from tfopt_core.hooks.own_loop import why_not_reached
from tfopt_core.hooks.stack import Stack
from tfopt_core.hooks.values import Effect
from tfopt_core.scripts.keras_patches import replace
from tfopt_core.scripts.own.data import OwnData
from tfopt_core.scripts.own.update_clock import UpdateClock
from tfopt_core.scripts.session import Session
from tfopt_core.training.clock import running_ns
from tfopt_core.training.job import Job

# A function that is traced in more calls than this is traced for each new argument.
USUAL_TRACES = 4
NOT_WATCHED = (
    "the script computes its loss within a tf.function, where it is not watched for nan; its "
    "weights are checked at the end of each run"
)
NO_DATA_SET = "the script's loop iterates over no tf.data.Dataset"
IN_GRAPH = "the script iterates over its data within a tf.function, where they stay as they are"
# Libraries that call an optimizer for the script, and the folders of others.
_LIBRARIES = ("keras", "tensorflow", "tfopt_core")
_FOLDERS = frozenset({"site-packages", "dist-packages"})


@attrs.define(eq=False)
class OwnLoop:
    """Watches what a script trains outside of `fit`.

    Updates are counted by the `iterations` of each optimizer, so those in a tf.function count as
    often as they run. The time is read when a call from Python has returned: a tf.function, an
    eager update, the next batch.

    :param job: the training with the whole stack, of which not all may reach the loop.
    :param clock: reads the updates and times them.
    :param data: the data sets over which the loop iterates; whoever watches the loop sets it.
    :param last_loss: the last loss that Python was given, by an eager gradient tape or
        `train_on_batch`; None for none. It is read at the end of a run, since reading waits for the
        device. A loss of nan makes the weights nan, and with them the losses that follow.
    :param updated: the variables that were updated, by their ids.
    :param eager: the finding of the first update that was made eagerly; None if all are in graphs.
    :param ended: when the script came to its end, in nanoseconds; None before.
    :param tapes: how often a `tf.GradientTape` was entered.
    """

    session: Session
    job: Job
    clock: UpdateClock = attrs.field(init=False)
    data: OwnData = attrs.field(init=False)
    last_loss: Any = None
    updated: dict[int, Any] = attrs.field(factory=dict)
    eager: Finding | None = None
    tapes: int = 0
    ended: int | None = None
    _optimizers: dict[int, tuple[Any, int]] = attrs.field(factory=dict)
    _traced: int = 0
    _tracing_calls: dict[int, tuple[Any, int]] = attrs.field(factory=dict)
    _called: int = 0
    _taped: int | None = None
    _inside: threading.local = attrs.field(factory=threading.local)
    _put_back: contextlib.ExitStack = attrs.field(factory=contextlib.ExitStack)

    @clock.default
    def _make_clock(self) -> UpdateClock:
        return UpdateClock(self.count, lambda: self._traced)

    def install(self) -> None:
        """Replace the calls of tf.function and of a gradient tape; watch updates."""
        import tensorflow as tf

        # the class of its functions has no public name
        function = type(tf.function(_nothing))
        call, enter = function.__call__, tf.GradientTape.__enter__
        gradient, patches = tf.GradientTape.gradient, self.session.patches

        @functools.wraps(call)
        def watched_call(called: Any, *given: Any, **named: Any) -> Any:
            if patches.within_fit or getattr(self._inside, "call", False):
                return call(called, *given, **named)
            self._inside.call, traced = True, self._traced
            if self.clock.started is None:
                self._called = running_ns()
            try:
                return call(called, *given, **named)
            finally:
                self._inside.call = False
                if self._traced > traced:
                    times = self._tracing_calls.get(id(called), (called, 0))[1]
                    self._tracing_calls[id(called)] = (called, times + 1)
                self.boundary()

        @functools.wraps(enter)
        def watched_enter(tape: Any) -> Any:
            if not patches.within_fit:
                self.tapes += 1
                self._taped = self._taped or running_ns()
            return enter(tape)

        @functools.wraps(gradient)
        def watched_gradient(
            tape: Any, target: Any, sources: Any, *given: Any, **named: Any
        ) -> Any:
            if tf.executing_eagerly() and not patches.within_fit and self._trains(sources):
                self.last_loss = target
            return gradient(tape, target, sources, *given, **named)

        watched_gradient = tf.autograph.experimental.do_not_convert(watched_gradient)
        for owner, name, method in (
            (function, "__call__", watched_call),
            (tf.GradientTape, "__enter__", watched_enter),
            (tf.GradientTape, "gradient", watched_gradient),
            (patches, "on_update", self._update),
            (patches, "on_logs", self._see_logs),
        ):
            replace(self._put_back, owner, name, method)
        self.data.install()

    def remove(self) -> None:
        """Restore the methods."""
        self._put_back.close()
        self.data.remove()

    def boundary(self) -> None:
        """Read the clock if that is due."""
        import tensorflow as tf

        if self.clock.started is not None and tf.executing_eagerly():
            self.clock.boundary()

    @property
    def models(self) -> tuple[Any, ...]:
        """The built models that together have the updated variables, the largest first; all models
        if none was updated that is known.

        A model within another is left out, as is the functional model within a Sequential.
        """
        import keras

        models = [
            one
            for one in gc.get_objects()
            if issubclass(type(one), keras.Model) and _is_trained(one, self.updated)
        ]
        taken, covered = [], set[int]()
        for model in sorted(models, key=_parameters, reverse=True):
            own = {id(variable) for variable in model.trainable_variables}
            if not own <= covered:
                taken.append(model)
                covered |= own
        return tuple(taken)

    @property
    def trainable_parameters(self) -> int:
        """The number of trainable parameters of these models."""
        return sum(map(_parameters, self.models))

    def count(self) -> int:
        """Return the updates of all optimizers since each was first seen."""
        return sum(_iterations(one) - before for one, before in self._optimizers.values())

    def at_the_end(self) -> None:
        """Read the clock a last time, if the script made any update."""
        self.ended = self.clock.now()
        if self.clock.started is not None:
            self.clock.read()

    def why_diverged(self) -> str | None:
        """Return which of the last loss and the weights is not finite; None if all are."""
        import keras
        import numpy as np

        updates = self.clock.updates
        for value in () if self.last_loss is None else keras.tree.flatten(self.last_loss):
            numbers = np.asarray(value, dtype=np.float64)
            if not np.isfinite(numbers).all():
                wrong = numbers[~np.isfinite(numbers)].flat[0]
                return f"the loss was {wrong} at update {updates:,}"
        # an optimizer may update the variables that it was built with
        weights = [*self.updated.values()]
        weights = weights or [w for one in self.models for w in one.trainable_variables]
        for weight in weights:
            if not bool(keras.ops.all(keras.ops.isfinite(weight))):
                name = getattr(weight, "path", weight.name)
                return f'the weight "{name}" is not finite after update {updates:,}'
        return None

    def findings(self) -> Iterator[Finding]:
        """Yield what costs time in the loop, each with its line."""
        if self.eager is not None:
            yield self.eager
        for function, times in self._tracing_calls.values():
            if times <= USUAL_TRACES:
                continue
            code = getattr(getattr(function, "python_function", None), "__code__", None)
            yield Finding(
                kind="retracing",
                detail=f"a tf.function was traced in {times} calls within {self.clock.updates:,} "
                "updates",
                mend="pass tensors of one shape in place of Python numbers, or batch with "
                "drop_remainder=True",
                place="" if code is None else f"{code.co_filename}:{code.co_firstlineno}",
            )

    def effects(self) -> dict[str, Effect]:
        """Return the effect of each plugin of the stack, by name.

        A plugin is applied if it was on one of the trained models or data sets.

        :raises PluginError: naming the plugin that failed.
        """
        import keras

        session, sets, plugins = self.session, self.data.sets, self.job.plugins
        reaching = [one for one in plugins if one.name in session.run.settings]
        models = self.models or (keras.Sequential(),)
        places = [(one.stack, one.run) for one in sets]
        places = places or [(Stack(reaching, session.changes), session.run)]
        found = [stack.report_effects(context, models[0]) for stack, context in places]
        stack, context = places[0]
        found += [stack.report_effects(context, model) for model in models[1:]]
        effects = {}
        for one in reaching:
            each = [effects_there[one.name] for effects_there in found]
            # applied if it was on any of them
            applied = dict.fromkeys(effect.detail for effect in each if effect.applied)
            effects[one.name] = Effect.applied_as("; ".join(applied)) if applied else each[0]
            on_data = set(implementations(type(one.plugin))) <= {"build_dataset", "report_effect"}
            if on_data and not sets:
                why = IN_GRAPH if self.data.in_graph else NO_DATA_SET
                effects[one.name] = Effect.not_applied(why)
        return {
            one.name: effects.get(one.name) or Effect.not_applied(why_not_reached(type(one.plugin)))
            for one in plugins
        }

    def _update(self, optimizer: Any, variables: Any, apply: Callable[[], Any]) -> Any:
        """Carry out an update outside of `fit`, or its trace.

        The first step begins with the call from Python or the gradient tape in which its update
        lies, or with the iteration over its data: a pipeline may take long to start.
        """
        import tensorflow as tf

        if id(optimizer) not in self._optimizers:
            self._optimizers[id(optimizer)] = (optimizer, _iterations(optimizer))
        if isinstance(variables, list | tuple):
            self.updated.update((id(one), one) for one in variables)
        inside = getattr(self._inside, "call", False)
        if self.clock.started is None:
            at = self._called if inside else self._taped or running_ns()
            self.clock.begin(at if self.data.begun is None else min(at, self.data.begun))
        if not tf.executing_eagerly():
            self._traced += 1
            return apply()
        if self.eager is None:
            self.eager = _eager_step(self.session.patches.within_train_on_batch > 0)
        result = apply()
        if not inside:
            self.boundary()
        return result

    def _see_logs(self, logs: Any) -> None:
        """Take the result of `train_on_batch`: a loss, a list that begins with it, or a dict."""
        if isinstance(logs, Mapping):
            logs = logs.get("loss")
        self.last_loss = logs[0] if isinstance(logs, Sequence) and logs else logs

    def _trains(self, sources: Any) -> bool:
        """Return whether a gradient is that of variables that are trained, as far as is known."""
        each = sources if isinstance(sources, list | tuple) else [sources]
        return not self.updated or any(id(one) in self.updated for one in each)


def _nothing() -> None:
    pass


def _iterations(optimizer: Any) -> int:
    """Return how many updates an optimizer has made, also while a step is traced."""
    import keras
    import tensorflow as tf

    with tf.init_scope():
        return int(keras.ops.convert_to_numpy(optimizer.iterations))


def _eager_step(by_train_on_batch: bool) -> Finding | None:
    """Return the finding of a step that Python runs operation by operation, at the innermost line
    that is of no library; None if there is none."""
    frame = inspect.currentframe()
    while frame is not None:
        code, module = frame.f_code, str(frame.f_globals.get("__name__", ""))
        own = module.partition(".")[0] not in _LIBRARIES and not code.co_filename.startswith("<")
        if own and _FOLDERS.isdisjoint(Path(code.co_filename).parts):
            break
        frame = frame.f_back
    else:
        return None
    detail, line = "every operation of a step is started from Python", frame.f_lineno
    if by_train_on_batch:
        mend = "compile(run_eagerly=False)"
    elif code.co_name.startswith("<"):
        mend = "put the step into a function, with @tf.function above it"
    else:
        detail += f": line {line} of {code.co_name} updates the weights eagerly"
        mend, line = f"put @tf.function above def {code.co_name}", code.co_firstlineno
    place = f"{code.co_filename}:{line}"
    return Finding(kind="runs-eagerly", detail=detail, mend=mend, place=place)


def _is_trained(model: Any, variables: Collection[int]) -> bool:
    try:
        trained = model.trainable_variables if model.built else ()
    except Exception:
        # a model whose constructor raised may still be alive; it lacks attributes
        return False
    return bool(trained) and (not variables or any(id(one) in variables for one in trained))


def _parameters(model: Any) -> int:
    import numpy as np

    return sum(int(np.prod(variable.shape)) for variable in model.trainable_variables)
