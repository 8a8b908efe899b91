"""Export a script: its own text, edited where the stack changes its training."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

import attrs

from tfopt_core.data import DataPlan
from tfopt_core.errors import WorkloadError
from tfopt_core.export.data_code import DataCode
from tfopt_core.export.names import WorkloadNames
from tfopt_core.export.script_text import NoPlace, ScriptText
from tfopt_core.export.stack_view import StackView, versions
from tfopt_core.export.start import environment, start
from tfopt_core.export.training import in_dict
from tfopt_core.hooks.code.layout import wrapped_all
from tfopt_core.hooks.code.literals import literal
from tfopt_core.hooks.code.plain_code import NoPlainForm
from tfopt_core.records.program import Program
from tfopt_core.training.build import Built
from tfopt_core.training.scripts.fit_data import unchanged

# The names and order of the arguments of `fit` (Keras 3.15).
FIT = (
    "x", "y", "batch_size", "epochs", "verbose", "callbacks", "validation_split",
    "validation_data", "shuffle", "class_weight", "sample_weight", "initial_epoch",
    "steps_per_epoch", "validation_steps", "validation_batch_size", "validation_freq",
)  # fmt: skip
DATA = "data"


@attrs.define(eq=False)
class ScriptNames(WorkloadNames):
    """Names within a function whose argument `data` holds a split's data."""

    split: str = "train"

    def data(self, split: str) -> str:
        return DATA

    def source(self, value: Any) -> str | None:
        return None

    def load(self, place: str) -> str:
        raise NoPlainForm(None, "a script's file would import its function from elsewhere")

    def _plans(self) -> Any:
        return iter(())

    def _datasets(self) -> Any:
        given = self.plans[self.split].given
        return iter([(DATA, given[-1][1])] if given else [])


@attrs.frozen(kw_only=True)
class CallPlace:
    """The call of `fit` in a script: the script's text, and the line; None in another file.

    `global_seed` is TensorFlow's at that moment, None if there was none.
    """

    text: str
    line: int | None
    global_seed: int | None


def script_program(built: Built, place: CallPlace, left_out: Mapping[str, str]) -> Program:
    """Return the script's text with the changes of its stack to one fit.

    :raises NoPlainForm: naming a plugin that has no plain form.
    :raises WorkloadError: if the script cannot be edited.
    """
    if place.line is None:
        raise WorkloadError(
            "fit is called in another file than the script, so the script cannot be edited"
        )
    try:
        return _ScriptWriter(built, place, left_out).program()
    except NoPlace as error:
        raise WorkloadError(f"the script cannot be edited safely: {error}") from error


class _ScriptWriter:
    def __init__(self, built: Built, place: CallPlace, left_out: Mapping[str, str]) -> None:
        self.built, self.left_out = built, left_out
        self.workload: Any = built.workload
        assert place.line is not None
        self.script = ScriptText(place.text)
        self.fit = self.script.method_call("fit", place.line)
        self.names = ScriptNames(self.workload, built.plans, built.job.recipe.directory)
        self.stack = StackView(built, self.names)
        self.stack.ask()
        self.written = self.stack.written
        self.data = DataCode.of(self.stack, self.names, seed=None, global_seed=place.global_seed)
        self.training = self.data.training
        self.before_fit: list[str] = []
        self.functions: list[str] = []

    def program(self) -> Program:
        self._compile()
        self._fit()
        runtime = self.built.job.runtime
        on_top = [line for line in environment(runtime) if "KERAS_BACKEND" not in line]
        if on_top:
            self.script.insert_on_top(["import os", "", *on_top])
        self.script.insert_before(self.fit, self.before_fit)
        block = self._block(list(start(runtime)))
        if block:
            self.script.insert_behind_imports(block)
        return Program(
            recipe=self.built.job.recipe.name,
            seed=self.built.job.seed,
            epochs=self.built.run.epochs,
            versions=versions(),
            plugins=self.stack.exported_plugins(self.left_out),
            script=self.script.result,
        )

    def _block(self, start: list[str]) -> list[str]:
        """Return the lines to insert after the script's imports."""
        lines, policy = start, self.built.precision.policy
        if policy != "float32" and self.built.precision.scope == "global":
            lines.append(f"keras.config.set_dtype_policy({literal(policy)})")
        if self.written.strategy is not None:
            lines.append(f"tf.distribute.experimental_set_strategy({self.written.strategy})")
        lines += self.written.before_data
        helpers = [*self.names.helpers, *self.training.helpers, *self.written.helpers]
        helpers += self.functions
        everything = "\n".join([*lines, *helpers, *self.before_fit])
        imports = [*self.written.imports, *self.data.pipelines.imports, *self.training.imports]
        if "keras." in everything:
            imports.append("import keras")
        if "tf." in everything:
            imports.append("import tensorflow as tf")
        missing = [line for line in imports if not self.script.binds(line)]
        blocks = [f"\n\n{helper}" for helper in helpers]
        return [*missing, *([""] if missing and lines else []), *lines, *blocks]

    # compile

    def _compile(self) -> None:
        """Change the arguments of `compile`, and the model before it."""
        arguments: dict[str, str | None] = {}
        options, before = self.built.training, self.training.before
        if options.jit_compile != before.jit_compile:
            arguments["jit_compile"] = repr(options.jit_compile)
        loop = self.training.loop
        if loop.kind != "resident" and loop.steps != before.steps_per_execution:
            arguments["steps_per_execution"] = str(loop.steps)
        policy = self.built.precision
        if policy.policy == "mixed_float16" and policy.loss_scale != "dynamic":
            arguments["auto_scale_loss"] = "False"
        changes = self.training.optimizer_changes()
        if changes:
            self.training.helpers[_changed(changes)] = None
        precision = [self._on_model(line) for line in self.training.precision()]
        if not (arguments or changes or precision):
            return
        try:
            call = self.script.compile_of(self.fit)
        except NoPlace as error:
            self._instead_of_compile(arguments, changes, precision, str(error))
            return
        if changes:
            given = self.script.arguments(call, ("optimizer",)).get("optimizer", '"rmsprop"')
            arguments["optimizer"] = f"changed({given})"
            if call.args:
                self.script.replace_first(call, arguments.pop("optimizer") or "")
        self.script.insert_before(call, precision)
        self.script.set_arguments(call, arguments)

    def _instead_of_compile(
        self, arguments: Mapping[str, str | None], changes: Mapping[str, str], precision: list[str],
        why: str,
    ) -> None:  # fmt: skip
        """Change the compiled model instead, right before `fit`."""
        model = self.script.receiver(self.fit)
        self.before_fit.append(f"# here, since {why}")
        self.before_fit += precision
        if changes:
            self.before_fit.append(f"{model}.optimizer = changed({model}.optimizer)")
        for name in ("jit_compile", "steps_per_execution"):
            if name in arguments:
                self.before_fit.append(f"{model}.{name} = {arguments[name]}")

    def _on_model(self, line: str) -> str:
        """Return a statement on `model` with the script's name for it."""
        name = self.script.receiver(self.fit)
        if name == "model":
            return line
        tree = ast.parse(line.strip() if not line.rstrip().endswith(":") else f"{line} pass")
        renamed = ast.unparse(_Renamed(name).visit(tree)).replace("\n    pass", "")
        return line[: len(line) - len(line.lstrip())] + renamed

    # fit

    def _fit(self) -> None:
        """Change the data, the loop and the callbacks of `fit`."""
        arguments: dict[str, str | None] = {}
        changed = [split for split, plan in self.built.plans.items() if self._changes(split, plan)]
        for split in changed:
            arguments |= self._split(split)
        self.before_fit += [self._on_model(line) for line in self.written.on_model]
        self.before_fit += [self._on_model(line) for line in self.training.train_function()]
        if self.data.gathered is not None:
            weight = self._given().get("class_weight")
            self.before_fit.append(self._on_model(self.data.train_function(weight)))
            arguments["class_weight"] = None
        if self.written.callbacks:
            own = self._given().get("callbacks")
            ours = ", ".join(self.written.callbacks)
            arguments["callbacks"] = f"[{ours}]" if own in (None, "None") else f"[*{own}, {ours}]"
        positions = FIT[: len(self.fit.args)]
        if any(name in arguments for name in positions[1:]):
            given = {key: value for key, value in self._given().items() if key not in arguments}
            given |= {key: value for key, value in arguments.items() if value is not None}
            ordered = {key: given[key] for key in FIT if key in given}
            self.script.replace_arguments(self.fit, ordered)
            return
        if positions and arguments.get("x") is not None:
            self.script.replace_first(self.fit, arguments.pop("x") or "")
        self.script.set_arguments(self.fit, arguments)

    def _given(self) -> dict[str, str]:
        return self.script.arguments(self.fit, FIT)

    def _changes(self, split: str, plan: DataPlan) -> bool:
        return not unchanged(plan, getattr(self.workload, split))

    def _split(self, split: str) -> dict[str, str | None]:
        """Return the arguments of `fit` for a split, and add the function that makes its data."""
        self.names.split = split
        given, plan = self._given(), self.built.plans[split]
        if plan.source.origin == "pydataset":
            raise NoPlainForm(self._blamed(split), "a PyDataset is read by Keras itself")
        arrays = plan.source.origin == "arrays" and _is_later(plan)
        if arrays and (given.keys() & {"validation_split", "sample_weight"}):
            raise NoPlainForm(
                self._blamed(split),
                "with validation_split or sample_weight `fit` itself takes the arrays apart",
            )
        gathered = split == "train" and self.data.gathered is not None
        lines = self.data.lines(split, DataPlan(plan.stages) if arrays else None)
        returned = "examples, train" if gathered else split
        indented = (f"    {line}" if line else "" for line in [*lines, f"return {returned}"])
        body = "\n".join(wrapped_all(indented))
        self.functions.append(
            f'def {split}_data({DATA}):\n    """Return the data for `fit`."""\n{body}'
        )
        if split == "validation":
            return {"validation_data": f"validation_data({given['validation_data']})"}
        both = [given[key] for key in ("x", "y") if key in given]
        own = f"({', '.join(both)})" if arrays and len(both) > 1 else both[0]
        arguments: dict[str, str | None] = {"x": f"train_data({own})"}
        if gathered:
            self.before_fit.append(f"examples, order = train_data({own})")
            arguments["x"] = "order"
        if arrays:
            arguments |= {"y": None, "batch_size": None, "shuffle": None}
            if "batch_size" in given and "validation_data" in given:
                arguments["validation_batch_size"] = given.get(
                    "validation_batch_size", given["batch_size"]
                )
        return arguments

    def _blamed(self, split: str) -> str | None:
        """Return the last plugin that changed a split's data."""
        plugins = [
            change.plugin
            for change in self.stack.changes
            if change.hook == "build_dataset" and change.split == split and change.changed
        ]
        return plugins[-1] if plugins else None


class _Renamed(ast.NodeTransformer):
    """Replaces `model` by the script's name for it."""

    def __init__(self, name: str) -> None:
        self.new = ast.parse(name, mode="eval").body

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.new if node.id == "model" else node


def _changed(changes: Mapping[str, str]) -> str:
    return (
        "def changed(optimizer):\n"
        '    """Return the optimizer with a changed configuration."""\n'
        "    optimizer = keras.optimizers.get(optimizer)\n"
        f"    config = {{**optimizer.get_config(), {in_dict(changes)}}}\n"
        "    return type(optimizer).from_config(config)"
    )


def _is_later(plan: DataPlan) -> bool:
    """Return whether the arrays were given to `fit` itself, not to a data set."""
    import tensorflow as tf

    return not any(isinstance(dataset, tf.data.Dataset) for _, dataset in plan.given)
