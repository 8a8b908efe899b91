"""How a script compiled its models, and what a stack changes on them during a fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from tfopt_core.data import ModelStage
from tfopt_core.errors import WorkloadError
from tfopt_core.hooks.values import PrecisionPolicy, TrainingOptions
from tfopt_core.lazy import keras
from tfopt_core.private_api import why_without
from tfopt_core.training.loops.graph_steps import FunctionCache
from tfopt_core.training.model.loss_scaling import scaling_optimizer, with_changes

# Options that a stack cannot change, since the script has compiled its model already.
ATTRIBUTE = "_tfopt_compiled"
SETTLED = ("loss", "metrics", "weighted_metrics", "loss_weights")


@attrs.define(eq=False)
class Compiled:
    """A model as the script compiled it.

    :param given: the arguments of `compile`; None if the call was not seen (the model was compiled
        before, or loaded).
    :param function_cache: the train functions of its earlier fits.
    :param model_stages: the stages of the data that compute with the model in this fit.
    """

    given: Mapping[str, Any] | None = None
    function_cache: FunctionCache = attrs.field(factory=FunctionCache)
    model_stages: tuple[ModelStage, ...] = ()
    _own_optimizer: Any = None
    _made_optimizer: Any = None
    _own_jit_compile: Any = None

    def compiled_with(self, given: Mapping[str, Any]) -> None:
        """Record a call of `compile`, and forget what came from earlier ones, but for the optimizer
        that trained in the place of the script's own: with that it may compile again."""
        self.given = given
        self.function_cache.forget()
        self._own_jit_compile = None

    def options(self, model: Any, callbacks: Sequence[Any]) -> TrainingOptions:
        """Return the training options of the script, for the plugins."""
        given = self.given or {}
        jit_compile = given.get("jit_compile", model.jit_compile)
        return TrainingOptions(
            optimizer=self._optimizer_of_script(model),
            loss=given.get("loss", model.loss if model.compiled else None),
            metrics=_listed(given.get("metrics")),
            weighted_metrics=_listed(given.get("weighted_metrics")),
            loss_weights=given.get("loss_weights"),
            jit_compile="auto" if jit_compile == "auto" else bool(jit_compile),
            steps_per_execution=int(model.steps_per_execution),  # may have been set since `compile`
            callbacks=tuple(callbacks),
        )

    def apply(
        self,
        model: Any,
        before: TrainingOptions,
        options: TrainingOptions,
        precision: PrecisionPolicy,
    ) -> None:
        """Set the changes of the stack on the model.

        :raises WorkloadError: for a change that is no longer possible.
        """
        for name in SETTLED:
            given, own = getattr(options, name), getattr(before, name)
            if given is not own and given != own:
                raise WorkloadError(
                    f"the stack changes {name}, but the script has already compiled its model; "
                    "use a factory for such a plugin"
                )
        self._own_jit_compile = model.jit_compile
        self._use_optimizer(model, before, options, precision)
        if precision.scope == "layers":
            model.optimizer = scaling_optimizer(model.optimizer, precision)
        if options.jit_compile != before.jit_compile:
            if options.jit_compile == "auto" and why_without("xla-choice"):
                raise WorkloadError(why_without("xla-choice"))
            auto = options.jit_compile == "auto"
            _compile_by(model, model._resolve_auto_jit_compile() if auto else options.jit_compile)

    def put_back(self, model: Any) -> None:
        """Restore the model as the script compiled it; an optimizer that has trained stays."""
        for stage in self.model_stages:
            stage.release(model)
        self.model_stages = ()
        if self._own_jit_compile is not None:
            _compile_by(model, self._own_jit_compile)
        self._own_jit_compile = None

    def forget_fits(self) -> None:
        """Forget the optimizer and the functions of earlier fits, for one that starts as if none
        was made before."""
        self._own_optimizer = self._made_optimizer = None
        self.function_cache.forget()

    def _optimizer_of_script(self, model: Any) -> Any:
        """Return the optimizer that the script compiled with, even if another replaces it."""
        if self._made_optimizer is not None and model.optimizer is self._made_optimizer:
            return self._own_optimizer
        return model.optimizer

    def _use_optimizer(
        self,
        model: Any,
        before: TrainingOptions,
        options: TrainingOptions,
        precision: PrecisionPolicy,
    ) -> None:
        own = model.optimizer
        if self._made_optimizer is not None and _inner(own) in (
            _inner(self._made_optimizer), _inner(self._own_optimizer),
        ):  # fmt: skip
            model.optimizer = self._made_optimizer  # an earlier fit has trained it: keep it
            return
        made = with_changes(options, precision, scaled=False)
        if made is own or made is before.optimizer:
            return
        if own is not None and int(own.iterations.numpy()) > 0:
            raise WorkloadError(
                "the stack changes the optimizer, which has trained before this fit, and what it "
                "has learned would be lost; leave out the plugin that changes it or its rate"
            )
        if isinstance(own, keras.optimizers.LossScaleOptimizer) and not isinstance(
            made, keras.optimizers.LossScaleOptimizer
        ):
            made = keras.optimizers.LossScaleOptimizer(made, name="loss_scale_optimizer")
        self._own_optimizer, self._made_optimizer = own, made
        model.optimizer = made


def _inner(optimizer: Any) -> Any:
    """Return what `compile` has wrapped to scale the loss, each time anew; other optimizers as they
    are."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def compiled_of(model: Any) -> Compiled:
    """Return how the script compiled this model; it is kept as an attribute of the model."""
    # through vars(): a Keras layer would track the attribute and save it
    compiled: Compiled = vars(model).setdefault(ATTRIBUTE, Compiled())
    return compiled


def let_go(model: Any) -> None:
    """Restore a model as the script compiled it, and keep nothing on it."""
    compiled = compiled_of(model)
    compiled.put_back(model)
    if model.train_function is compiled.function_cache.left:
        model.train_function = None
    del vars(model)[ATTRIBUTE]


def _listed(metrics: Any) -> tuple[Any, ...]:
    """Return metrics as a tuple; a dictionary of metrics by output counts as one."""
    if metrics is None:
        return ()
    return tuple(metrics) if isinstance(metrics, list | tuple) else (metrics,)


def _compile_by(model: Any, jit_compile: Any) -> None:
    """Set whether XLA compiles what is traced from now on; `evaluate` is traced anew."""
    if model.jit_compile != jit_compile:
        model.jit_compile = jit_compile
        model.test_function = model.predict_function = None
