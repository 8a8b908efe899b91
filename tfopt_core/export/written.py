"""Export a whole training; plugins that cannot be exported are left out and named."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from tfopt_core.errors import WorkloadError
from tfopt_core.export.data_code import DataCode
from tfopt_core.export.names import WorkloadNames
from tfopt_core.export.stack_view import StackView, versions
from tfopt_core.export.start import environment, start
from tfopt_core.hooks import RuntimeOptions
from tfopt_core.hooks.code.literals import call, keywords, literal
from tfopt_core.hooks.code.plain_code import NoPlainForm
from tfopt_core.hooks.configured_runtime import configured_runtime
from tfopt_core.records.program import Program
from tfopt_core.training.build import Built, build
from tfopt_core.training.factory import named_workloads
from tfopt_core.training.job import Job
from tfopt_core.training.workload import Workload

# A factory returns a class of tfopt, so the workload still imports it.
WORKLOAD = (
    "The workload is made by its own factory. If that imports tfopt_core, for Workload or "
    "DataPlan, it needs tfopt; types.SimpleNamespace(train=..., build_model=..., ...) can replace "
    "a Workload whose data are arrays or a tf.data.Dataset."
)
AGAIN = "keras.utils.set_random_seed(seed)  # again: no draw of the data moves a first weight"


def written(job: Job, workload: Workload) -> Program:
    """Return the program of a job whose settings are resolved.

    :raises WorkloadError: if the workload itself has no plain form.
    """

    def write(job: Job, left_out: dict[str, str]) -> Program:
        return _Writer(build(job, workload), left_out).program()

    return without_the_unwritable(job, write)


def without_the_unwritable(job: Job, write: Callable[[Job, dict[str, str]], Program]) -> Program:
    """Return the program of a job, without the plugins that have no plain form.

    :param write: takes the reasons for the plugins left out; raises NoPlainForm.
    :raises WorkloadError: if something else has no plain form.
    """
    left_out: dict[str, str] = {}
    while True:
        kept = tuple(plugin for plugin in job.plugins if plugin.name not in left_out)
        runtime, changes = configured_runtime(kept, job.machine, job.recipe)
        changed = attrs.evolve(job, plugins=kept, runtime=runtime, runtime_changes=changes)
        try:
            return write(changed, left_out)
        except NoPlainForm as error:
            if error.plugin is None or error.plugin in left_out:
                raise WorkloadError(f"it has no plain form: {error.reason}") from error
            left_out[error.plugin] = error.reason


class _Writer:
    """Exports one build. :raises NoPlainForm: at the first part without a plain form."""

    def __init__(self, built: Built, left_out: dict[str, str]) -> None:
        self.built, self.left_out = built, left_out
        self.job, self.workload = built.job, built.workload
        self.names = WorkloadNames(self.workload, built.plans, self.job.recipe.directory)
        self.stack = StackView(built, self.names)
        self.written = self.stack.written
        self.factory = self._factory()
        self.stack.ask()
        self.data = DataCode.of(
            self.stack, self.names, seed=self.job.seed, global_seed=self.job.seed
        )
        self.training = self.data.training

    def program(self) -> Program:
        """Return the whole file."""
        body = self._body()
        runtime: RuntimeOptions = self.job.runtime
        imports = {
            **self.names.imports, **self.written.imports, **self.data.pipelines.imports,
            **self.training.imports,
        }  # fmt: skip
        helpers = {**self.names.helpers, **self.training.helpers, **self.written.helpers}
        return Program(
            recipe=self.job.recipe.name,
            seed=self.job.seed,
            epochs=self.built.run.epochs,
            versions=versions(),
            plugins=self.stack.exported_plugins(self.left_out),
            notes=(WORKLOAD,),
            folders=tuple(self.names.folders),
            imports=tuple(imports),
            environment=tuple(environment(runtime)),
            start=tuple(start(runtime)),
            helpers=tuple(helpers),
            body=tuple(body),
        )

    # The body.

    def _body(self) -> list[str]:
        precision = self.built.precision
        policy = "float32" if precision.scope == "layers" else precision.policy
        lines = [
            "keras.utils.set_random_seed(seed)",
            f"workload = {call(self.factory, keywords(dict(self.job.recipe.workload.options)))}",
        ]
        if policy != "float32":
            lines.append(f"keras.config.set_dtype_policy({literal(policy)})")
        if self.written.strategy is not None:
            lines.append(f"strategy = {self.written.strategy}")
        lines += self.written.before_data
        lines += ["", "# the training data", *self.data.lines("train")]
        if "validation" in self.built.plans:
            lines += ["", "# the validation data", *self.data.lines("validation")]
        lines += ["", AGAIN]
        model = [
            "model = workload.build_model()",
            *self.written.on_model,
            *self.training.precision(),
            *self.training.compiled(),
        ]
        if self.written.strategy is not None:
            lines.append("with strategy.scope():")
            model = [f"    {line}" for line in model]
        lines += model
        lines += self.training.train_function()
        if self.data.gathered is not None:
            weight = None if self.workload.class_weight is None else "workload.class_weight"
            lines.append(self.data.train_function(weight))
        return [*lines, "", f"history = {self._fit()}"]

    def _fit(self) -> str:
        workload, arguments = self.workload, {}
        if "validation" in self.built.plans:
            arguments["validation_data"] = "validation"
        arguments["epochs"] = "EPOCHS"
        if workload.class_weight is not None and self.data.gathered is None:
            arguments["class_weight"] = "workload.class_weight"
        callbacks = self.training.callbacks()
        if callbacks:
            arguments["callbacks"] = callbacks
        if self.built.plans["train"].source.origin == "pydataset" and not workload.shuffle:
            arguments["shuffle"] = "False"
        return call("model.fit", "train", **arguments, verbose="2")

    def _factory(self) -> str:
        spec = self.job.recipe.workload
        if spec.use is not None:
            entry = named_workloads()[spec.use][0].entry_point
            self.names.imports[f"from {entry.module} import {entry.attr}"] = None
            return str(entry.attr)
        assert spec.factory is not None
        return self.names.load(spec.factory)
