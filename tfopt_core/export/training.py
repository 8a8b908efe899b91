"""Write a training's precision, its `compile` call and its train function as statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from tfopt_core.export.literals import keras_object
from tfopt_core.hooks import TrainingOptions
from tfopt_core.hooks.code.literals import call, literal
from tfopt_core.hooks.code.plain_code import NoPlainForm, Written
from tfopt_core.hooks.code.source import plain_source
from tfopt_core.training.build import Built
from tfopt_core.training.defaults import made_by
from tfopt_core.training.layers import nested_layers
from tfopt_core.training.loops import graph_steps, stacking
from tfopt_core.training.loops import plain as plain_loops
from tfopt_core.training.loops.loop import Loop
from tfopt_core.training.loops.train_functions import loop_of
from tfopt_core.training.precision import named_layers, output_layers

_STEPS = (
    graph_steps.one_step, graph_steps.logs_spec, graph_steps.no_logs, graph_steps.shapes_of_logs,
    graph_steps._without_optionals,
)  # fmt: skip
# The functions that each train function calls.
_HELPERS: dict[Any, tuple[Any, ...]] = {
    plain_loops.chunked: (*_STEPS, plain_loops.one_by_one, plain_loops.train_function_of),
    plain_loops.compiled_chunks: (
        *_STEPS, graph_steps.repeated, plain_loops.one_by_one, plain_loops.train_function_of,
        plain_loops.whole_batch, stacking.sizes_of, stacking.stacked, stacking._with_shape,
    ),
    plain_loops.resident: (*_STEPS, graph_steps.repeated),
}  # fmt: skip
# The fields of `TrainingOptions` that are passed to `compile` unchanged.
_PASSED = ("loss", "metrics", "weighted_metrics", "loss_weights")


def rebuilt(part: Any) -> Any:
    """Return an optimizer or metric whose variables belong to the active scope."""
    return type(part).from_config(part.get_config())


def in_dict(values: Mapping[str, str]) -> str:
    """Return the items of a dictionary as code."""
    return ", ".join(f'"{key}": {value}' for key, value in values.items())


@attrs.define(eq=False)
class Training:
    """The statements for a built training's options.

    :param to_blame: returns the last plugin that changed a field of the options.
    """

    built: Built
    before: TrainingOptions
    written: Written
    to_blame: Callable[[str], str | None]
    helpers: dict[str, None] = attrs.field(factory=dict)
    imports: dict[str, None] = attrs.field(factory=dict)

    @property
    def loop(self) -> Loop:
        """The loop that trains."""
        return loop_of(self.built)

    def precision(self) -> list[str]:
        """Return statements that keep layers of the built model in float32."""
        policy, lines = self.built.precision, []
        if policy.policy in ("float32", "float64"):
            return []
        if policy.scope == "layers":
            return self._policy_by_layer()
        if policy.float32_outputs:
            self._help(output_layers)
            lines.append("# the outputs stay in float32: a loss loses digits in 16 bits")
            lines.append("for layer in output_layers(model):")
            lines.append('    layer.dtype_policy = "float32"')
        kept = named_layers(self.built.model, policy.float32_layers, policy.float32_types)
        if kept:
            names = literal(tuple(dict.fromkeys(layer.name for layer in kept)))
            lines.append("for layer in model._flatten_layers(include_self=False):")
            lines.append(f"    if layer.name in {names}:")
            lines.append('        layer.dtype_policy = "float32"')
        return lines

    def _policy_by_layer(self) -> list[str]:
        """Return statements that set the policy on the layers of the model that is built.

        :raises NoPlainForm: for float16, whose loss scale Keras leaves out then.
        """
        policy, model = self.built.precision.policy, self.built.model
        if policy == "mixed_float16":
            changes = self.built.stack.all_changes
            raise NoPlainForm(
                next((c.plugin for c in changes if c.hook == "configure_precision"), None),
                'float16 with scope = "layers" has no plain form; take scope = "global"',
            )
        parts = [model, *nested_layers(model)]
        dtype = policy.removeprefix("mixed_")
        names = dict.fromkeys(part.name for part in parts if part.compute_dtype == dtype)
        return [
            "for layer in model._flatten_layers():",
            f"    if layer.name in {literal(tuple(names))}:",
            f"        layer.dtype_policy = {literal(policy)}",
        ]

    def compiled(self) -> list[str]:
        """Return the statements from the optimizer to `model.compile(...)`.

        :raises NoPlainForm: naming the plugin whose change cannot be written.
        """
        lines, optimizer = self._optimizer()
        arguments = {"optimizer": optimizer} | {name: self._passed(name) for name in _PASSED}
        options, loop = self.built.training, self.loop
        self._check_replicas()
        for name in ("wrap_train_step", "wrap_test_step"):
            if getattr(options, name) is not None:
                raise self._unknown(name)
        if options.jit_compile != "auto":
            arguments["jit_compile"] = repr(options.jit_compile)
        if loop.steps > 1 and loop.kind != "resident":
            arguments["steps_per_execution"] = str(loop.steps)
        policy = self.built.precision
        if policy.policy == "mixed_float16" and policy.loss_scale != "dynamic":
            arguments["auto_scale_loss"] = "False"
        given = {key: value for key, value in arguments.items() if value}
        return [*lines, call("model.compile", **given, **self.written.compile)]

    def _check_replicas(self) -> None:
        """Refuse options that Keras' own loop does not support over several replicas."""
        options, replicas = self.built.training, self.built.run.replicas
        if replicas > 1 and options.steps_per_execution > 1:
            raise NoPlainForm(
                self.to_blame("steps_per_execution"),
                f"Keras' own loop makes one step a call over {replicas} replicas",
            )
        if replicas > 1 and options.jit_compile is True:
            raise NoPlainForm(
                self.to_blame("jit_compile"), f"Keras cannot use XLA over {replicas} replicas"
            )

    def train_function(self) -> list[str]:
        """Return the statement that sets a chunked train function, none for other loops.

        That of a resident loop comes from `DataCode.train_function`.
        """
        loop, size = self.loop, self.built.plans["train"].batch_size
        if loop.kind != "chunked":
            return []
        stackable = self._whole_batches(size)
        if loop.jit_compile and stackable:
            self._help(plain_loops.compiled_chunks)
            return [f"model.train_function = compiled_chunks(model, {loop.steps}, {size})"]
        self._help(plain_loops.chunked)
        more = ", jit_compile=True" if loop.jit_compile else ""
        return [f"model.train_function = chunked(model, {loop.steps}{more})"]

    def resident_function(
        self, batch_size: int, maps: list[str], class_weight: str | None, *, drop: bool
    ) -> str:
        """Return the train function over the tensors `examples`.

        :param class_weight: an expression for class weights, which `fit` cannot take then.
        """
        self._help(plain_loops.resident)
        arguments = [str(batch_size), str(self.loop.steps)]
        if class_weight is not None:
            place = "keras.src.trainers.data_adapters.tf_dataset_adapter"
            self.imports[f"from {place} import make_class_weight_map_fn"] = None
            maps = [*maps, f"make_class_weight_map_fn({class_weight})"]
        if maps:
            arguments.append(f"maps=[{', '.join(maps)}]")
        if self.loop.jit_compile:
            arguments.append("jit_compile=True")
        if drop:
            arguments.append("drop_remainder=True")
        return f"model.train_function = {call('resident', 'model', 'examples', *arguments)}"

    def callbacks(self) -> str:
        """Return the callbacks of `fit`, "" if there are none.

        :raises NoPlainForm: for callbacks that a plugin adds but does not export.
        """
        ours = self.written.callbacks
        added = len(self.built.training.callbacks) - len(self.before.callbacks)
        if added and len(ours) < added:
            raise self._unknown("callbacks")
        if not self.before.callbacks:
            return f"[{', '.join(ours)}]" if ours else ""
        return f"[*workload.callbacks(), {', '.join(ours)}]" if ours else "workload.callbacks()"

    def optimizer_changes(self) -> dict[str, str]:
        """Return the changes of the optimizer's configuration, by key.

        :raises NoPlainForm: naming the plugin whose change cannot be written.
        """
        options, policy = self.built.training, self.built.precision
        changes = {}
        if options.optimizer is not self.before.optimizer:
            changes = self._differences(options.optimizer, self.before.optimizer)
        if options.schedule is not None:
            changes["learning_rate"] = self._schedule(options.schedule)
        if options.gradient_accumulation_steps is not None:
            changes["gradient_accumulation_steps"] = str(options.gradient_accumulation_steps)
        if isinstance(policy.loss_scale, int | float):
            changes["loss_scale_factor"] = literal(float(policy.loss_scale))
        return changes

    def _differences(self, changed: Any, before: Any) -> dict[str, str]:
        """Return how an optimizer that a plugin made differs from the original."""
        import keras

        new, old = keras.optimizers.get(changed), keras.optimizers.get(before)
        if type(new) is not type(old):
            raise self._unknown("optimizer")
        known = old.get_config()
        try:
            return {
                key: literal(value)
                for key, value in new.get_config().items()
                if value != known.get(key)
            }
        except NoPlainForm as error:
            raise self._unknown("optimizer") from error

    def _optimizer(self) -> tuple[list[str], str]:
        """Return statements before `compile`, and its argument."""
        expression = self._made("workload.optimizer", self.built.workload.optimizer)
        if "optimizer" in self.written.compile:
            return [], ""
        changes = self.optimizer_changes()
        if not changes:
            return [], expression
        return [
            f"optimizer = keras.optimizers.get({expression})",
            f"config = {{**optimizer.get_config(), {in_dict(changes)}}}",
            "optimizer = type(optimizer).from_config(config)",
        ], "optimizer"

    def _schedule(self, schedule: Any) -> str:
        if self.written.schedule is not None:
            return self.written.schedule
        try:
            return keras_object(schedule, "keras.optimizers.schedules")
        except NoPlainForm as error:
            raise self._unknown("schedule") from error

    def _passed(self, name: str) -> str:
        """Return an argument of `compile` that is the workload's own, "" if it is None."""
        if name in self.written.compile:
            return ""
        new, old = getattr(self.built.training, name), getattr(self.before, name)
        if new is not old and new != old:
            raise self._unknown(name)
        own = getattr(self.built.workload, name)
        if own is None or (name.endswith("metrics") and not own):
            return ""
        if not name.endswith("metrics"):
            return f"workload.{name}"
        made = self._made(f"workload.{name}", own)
        return f"list({made})" if isinstance(own, tuple) and made == f"workload.{name}" else made

    def _made(self, expression: str, part: Any) -> str:
        """Return code for what `training.defaults.rebuilt` makes of a part of the workload."""
        import keras

        kinds = keras.optimizers.Optimizer | keras.metrics.Metric
        if isinstance(part, kinds):
            if self.built.run.strategy is None or self.written.strategy is None:
                return expression
            self.helpers[plain_source(rebuilt)] = None
            return f"rebuilt({expression})"
        if isinstance(part, list | tuple):
            made = [self._made(f"{expression}[{i}]", one) for i, one in enumerate(part)]
            as_they_are = [f"{expression}[{i}]" for i in range(len(part))]
            return expression if made == as_they_are else f"[{', '.join(made)}]"
        return f"{expression}()" if callable(part) and made_by(part) is not None else expression

    def _whole_batches(self, size: int | None) -> bool:
        """Return whether batches can be stacked, and the shape of a full batch is known."""
        spec = self.built.run.element_spec
        if size is None or stacking.why_not_stacked(spec):
            return False
        return stacking.sized(spec, size) is not None

    def _help(self, function: Any) -> None:
        things = (*_HELPERS.get(function, ()), function)
        self.helpers.update((plain_source(thing), None) for thing in things)

    def _unknown(self, field: str) -> NoPlainForm:
        return NoPlainForm(self.to_blame(field), f"it does not say how its {field} is written")
