"""Apply a stack to a script's training, from its import of Keras to its end."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakSet

import attrs

from tfopt_core.errors import CannotShare, PluginRefused, WorkloadError
from tfopt_core.hooks.context import RunContext
from tfopt_core.hooks.contract import implementations
from tfopt_core.hooks.stack import Stack
from tfopt_core.hooks.values import Change, PrecisionPolicy
from tfopt_core.lazy import keras, tf
from tfopt_core.scripts.call import FitCall
from tfopt_core.scripts.compiled import compiled_of, let_go
from tfopt_core.scripts.fit_data import FitData
from tfopt_core.scripts.fit_workload import FitWorkload
from tfopt_core.scripts.keras_patches import KerasPatches, replace
from tfopt_core.scripts.limits import cut_short
from tfopt_core.scripts.seeding import Seeding
from tfopt_core.training.clock import running_ns
from tfopt_core.training.input.shuffle_draws import ShuffleDraws
from tfopt_core.training.job import Job
from tfopt_core.training.model.loss_scaling import scaling_optimizer
from tfopt_core.training.model.precision import keep_in_float32, set_policy
from tfopt_core.training.strategy import apart_from_earlier_strategies, hide_one_device

# The hooks that act before `fit`, or on the model itself.
BEFORE_FIT = {"configure_precision", "build_strategy", "wrap_model"}
# Called with each call of `fit` and its start in nanoseconds; returns the result for the script.
OnFit = Callable[[FitWorkload, int], Any]


@attrs.define(eq=False)
class Session:
    """Applies a stack to a process that trains with Keras: policy, strategy, `compile`, `fit`.

    Begin it once Keras is imported and no model is built; end it to leave Keras as it was.

    :param on_fit: carries out each call of `fit`.
    :param seeding: replaces the seeds that the script sets; None leaves them.
    :param stack_strategy: the strategy that a plugin has built; None without one.
    :param run: the context from which each fit derives its own, once the session has begun.
    :param patches: the replaced methods of Keras, and the counts of their calls.
    """

    job: Job
    on_fit: OnFit
    seeding: Seeding | None = None
    precision: PrecisionPolicy = attrs.field(factory=PrecisionPolicy)
    default_policy: Any = None
    changes: tuple[Change, ...] = ()
    shuffle_draws: ShuffleDraws = attrs.field(factory=ShuffleDraws)
    calls: int = 0
    stack_strategy: Any = None
    run: RunContext = attrs.field(init=False)
    patches: KerasPatches = attrs.field(
        default=attrs.Factory(lambda self: KerasPatches(self._compile, self._fit), takes_self=True)
    )
    _models: WeakSet[Any] = attrs.field(factory=WeakSet)
    _scope: Any = None
    _inside: threading.local = attrs.field(factory=threading.local)
    _scopes: contextlib.ExitStack = attrs.field(factory=contextlib.ExitStack)

    def begin(self) -> None:
        """Set policy and strategy, and replace `compile` and `fit`.

        :raises PluginError, PluginRefused: naming the plugin that failed.
        """
        job = self.job
        stack = Stack(job.plugins, job.runtime_changes)
        self.run = job.context(stack)
        self.precision = stack.configure_precision(self.run)
        if self.precision != PrecisionPolicy():
            # only here: to read it makes it float32 for good, also for a script that sets floatx
            before = keras.config.dtype_policy()
            self.default_policy = set_policy(self.precision)
            self._scopes.callback(keras.config.set_dtype_policy, before)
        apart_from_earlier_strategies()
        default = tf.distribute.get_strategy()
        strategy = stack.build_strategy(self.run, default, tf.distribute.Strategy)
        self.run = attrs.evolve(self.run, strategy=strategy, replicas=strategy.num_replicas_in_sync)
        if strategy is not default:
            self.stack_strategy = strategy
            self._allow_no_other(strategy, default, str(stack.all_changes[-1].plugin))
            self.patches.scope = strategy if self.run.replicas == 1 else None
            self._enter_scope()
            self._scopes.callback(self._leave_scope)
            reset = tf.compat.v1.reset_default_graph
            reset_outside = functools.partial(self._reset_graph, reset)
            replace(self._scopes, tf.compat.v1, "reset_default_graph", reset_outside)
        self.changes = stack.all_changes
        if self.seeding is not None:
            self.seeding.begin(job.seed, self._scopes)
        self.shuffle_draws.install()
        self._scopes.callback(self.shuffle_draws.remove)
        self.patches.install(self._scopes)

    def _allow_no_other(self, strategy: Any, default: Any, plugin: str) -> None:
        """Refuse the plugin of a strategy in a script that has one of its own."""
        scope = tf.distribute.Strategy.scope

        def scope_of_stack(other: Any) -> Any:
            if other not in (strategy, default):
                kind = type(other).__name__
                raise PluginRefused(f"the script has a strategy of its own, {kind}", plugin)
            return scope(other)

        replace(self._scopes, tf.distribute.Strategy, "scope", scope_of_stack)
        replace(self._scopes, tf.distribute, "experimental_set_strategy", scope_of_stack)
        for owner, name in (
            (tf.config, "set_logical_device_configuration"),
            (tf.config, "set_visible_devices"),
            (tf.config.experimental, "set_memory_growth"),
        ):
            replace(self._scopes, owner, name, _before_devices(getattr(owner, name), plugin))

    def take(self, job: Job) -> None:
        """Go on with the stack of another job, in a fit that is made again.

        :raises CannotShare: if its plugins act before `fit`, where the script has passed already.
        """
        if job.runtime != self.job.runtime:
            raise CannotShare("the stack changes how TensorFlow starts")
        for stacked in job.plugins:
            own = BEFORE_FIT & set(implementations(type(stacked.plugin)))
            if own or stacked.plugin.model_change != "none":
                raise CannotShare(f'plugin "{stacked.name}" changes the model')
        settings = {stacked.name: stacked.settings for stacked in job.plugins}
        self.job, self.changes = job, tuple(job.runtime_changes)
        self.run = attrs.evolve(
            self.run, seed=job.seed, variant=job.variant, folder=job.folder, settings=settings
        )

    @contextlib.contextmanager
    def outside_scope(self) -> Iterator[None]:
        """Leave the scope of a strategy over replicas for a while: core distributes a fit over
        them, and Keras must take it for a local one."""
        if self._scope is None or self.run.replicas == 1:
            yield
            return
        self._leave_scope()
        try:
            yield
        finally:
            self._enter_scope()

    def _reset_graph(self, original: Callable[[], None]) -> None:
        """Reset the default graph, as `keras.backend.clear_session` does, outside of the scope: the
        graph holds the scopes that are entered."""
        within = self._scope is not None
        self._leave_scope()
        try:
            original()
        finally:
            if within:
                self._enter_scope()

    def _enter_scope(self) -> None:
        self._scope = self.run.strategy.scope()
        self._scope.__enter__()

    def _leave_scope(self) -> None:
        scope, self._scope = self._scope, None
        if scope is not None:
            scope.__exit__(None, None, None)

    def end(self) -> None:
        """Restore Keras and the script's models."""
        for model in list(self._models):
            let_go(model)
        self._scopes.close()

    # Replacements of Keras' own methods.

    def _compile(self, model: Any, original: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        self._models.add(model)
        compiled_of(model).compiled_with(dict(arguments))
        if self.precision.scope == "layers":
            result = original(model, **arguments)  # it may compute with it until it calls fit
            hide_one_device(model, self.run.strategy)
            return result
        if self.precision.policy == "mixed_float16":
            arguments["auto_scale_loss"] = self.precision.loss_scale == "dynamic"
        keep_in_float32(model, self.precision)
        result = original(model, **arguments)
        hide_one_device(model, self.run.strategy)
        model.optimizer = scaling_optimizer(model.optimizer, self.precision)
        return result

    def _fit(
        self, model: Any, original: Callable[..., Any], given: Any, named: dict[str, Any]
    ) -> Any:
        # a fit within this one, by Keras or by a callback
        if getattr(self._inside, "fit", False):
            return original(model, *given, **named)
        started = running_ns()
        call = FitCall.of(model, original, given, named, self.calls + 1)
        current, arguments = self.shuffle_draws.current, dict(call.arguments)
        arguments |= {name: current(arguments[name]) for name in ("x", "validation_data")}
        call = attrs.evolve(call, arguments=arguments)
        self.calls += 1
        self._inside.fit = True
        try:
            with self.outside_scope():
                return self.on_fit(self._workload(call), started)
        finally:
            self._inside.fit = False
            self.shuffle_draws.note_fit(arguments["x"], arguments["validation_data"])
            if self.precision.scope == "layers":
                keras.config.set_dtype_policy(self.default_policy)

    def _workload(self, call: FitCall) -> FitWorkload:
        spec = self.job.recipe.workload
        if not call.model.compiled:
            raise WorkloadError(
                f"fit {call.number}: the {type(call.model).__name__} is not compiled; call "
                "compile() before fit()"
            )
        if spec.max_epochs is not None or spec.max_steps is not None:
            call.cut = cut_short(spec, FitData(call, 0, self.shuffle_draws).steps_per_epoch())
        self._models.add(call.model)
        return FitWorkload.of(self, call)


def _before_devices(configure: Callable[..., Any], plugin: str) -> Callable[..., Any]:
    """Return a function of `tf.config` that is refused once a plugin has opened the devices."""

    @functools.wraps(configure)
    def refused(*given: Any, **named: Any) -> Any:
        try:
            return configure(*given, **named)
        except RuntimeError as error:
            name = configure.__name__
            reason = f"it opens the devices before the script does, whose {name} fails: {error}"
            raise PluginRefused(reason, plugin) from error

    return refused
