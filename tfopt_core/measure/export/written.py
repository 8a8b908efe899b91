"""A whole training, written down: what cannot be is left out with its plugin, and said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from tfopt_core import __version__
from tfopt_core.data import Batch, MapBatches, Resident, Shuffle, Stage
from tfopt_core.errors import WorkloadError
from tfopt_core.hooks import Change, RuntimeOptions
from tfopt_core.hooks.contract import implementations
from tfopt_core.hooks.defaults import Defaults
from tfopt_core.hooks.guards import named_after
from tfopt_core.hooks.literals import call, keywords, literal
from tfopt_core.hooks.plain_code import NoPlainForm, PlainCode, Written
from tfopt_core.hooks.stack import Stack, StackedPlugin
from tfopt_core.measure.export.names import WorkloadNames
from tfopt_core.measure.export.pipeline import Pipelines
from tfopt_core.measure.export.program import Became, Program
from tfopt_core.measure.export.start import environment, start
from tfopt_core.measure.export.training import Training
from tfopt_core.training.build import Built, build
from tfopt_core.training.factory import named_workloads
from tfopt_core.training.job import Job
from tfopt_core.training.workload import Workload

# A factory returns a class of tfopt's, so the workload still imports that.
WORKLOAD = (
    "The workload is made by its own factory. As far as that imports tfopt_core, for Workload and "
    "DataPlan, it needs tfopt; types.SimpleNamespace(train=..., build_model=..., ...) does as well "
    "as a Workload whose data are arrays or a tf.data.Dataset."
)
AGAIN = "keras.utils.set_random_seed(seed)  # again: no draw of the data moves a first weight"


def written(job: Job, workload: Workload) -> Program:
    """The training of a job whose settings are resolved.

    Plugins of which something cannot be written down are left out, one after another.

    :raises WorkloadError: if the workload itself cannot be written down.
    """
    left_out: dict[str, str] = {}
    while True:
        kept = tuple(plugin for plugin in job.plugins if plugin.name not in left_out)
        stack = Stack(kept, Defaults())
        runtime = stack.configure_runtime(job.machine, job.recipe)
        changed = attrs.evolve(
            job, plugins=kept, runtime=runtime, runtime_changes=stack.all_changes
        )
        try:
            return _Writer(build(changed, workload), left_out).program()
        except NoPlainForm as error:
            if error.plugin is None or error.plugin in left_out:
                raise WorkloadError(f"it has no plain form: {error.reason}") from error
            left_out[error.plugin] = error.reason


class _Writer:
    """Writes one build down. :raises NoPlainForm: at the first thing that has no plain form."""

    def __init__(self, built: Built, left_out: dict[str, str]) -> None:
        self.built, self.left_out = built, left_out
        self.job, self.workload = built.job, built.workload
        self.changes: Sequence[Change] = built.stack.all_changes
        self.names = WorkloadNames(self.workload, built.plans, self.job.recipe.directory)
        self.says = Written()
        self.factory = self._factory()
        for stacked in built.stack.plugins:
            self._ask(stacked)
        self.training = Training(
            built=built,
            before=self._options_before(),
            written=self.says,
            to_blame=self._changer_of,
        )
        self.pipelines = Pipelines(
            names=self.names,
            seed=self.job.seed,
            functions=self.says.functions,
            owner=self._owner,
        )

    def program(self) -> Program:
        """The whole file."""
        body = self._body()
        runtime: RuntimeOptions = self.job.runtime
        imports = {
            **self.names.imports, **self.says.imports, **self.pipelines.imports,
            **self.training.imports,
        }  # fmt: skip
        helpers = {**self.names.helpers, **self.training.helpers, **self.says.helpers}
        return Program(
            recipe=self.job.recipe.name,
            seed=self.job.seed,
            epochs=self.built.run.epochs,
            versions=_versions(),
            plugins=tuple(self._became(name) for name in self._all_names()),
            notes=(WORKLOAD,),
            folders=tuple(self.names.folders),
            imports=tuple(imports),
            environment=tuple(environment(runtime)),
            start=tuple(start(runtime)),
            helpers=tuple(helpers),
            body=tuple(body),
        )

    # What is asked of plugins.

    def _ask(self, stacked: StackedPlugin) -> None:
        """Have a plugin write what only it knows; find out what it would have had to write."""
        name, plugin = stacked.name, stacked.plugin
        changes = [change for change in self.changes if change.plugin == name]
        code = PlainCode(
            plugin=name,
            changes=changes,
            model=self.built.model,
            epochs=self.built.run.epochs,
            replicas=self.built.run.replicas,
            names=self.names,
            written=self.says,
        )
        if hasattr(plugin, "export"):
            try:
                plugin.export(code)
            except NoPlainForm as error:
                raise NoPlainForm(error.plugin or name, error.reason) from error
            except Exception as error:
                raise named_after(name, "export", error) from error
            return
        hooks = implementations(plugin)
        for hook, what in (
            ("build_strategy", "strategy"), ("on_epoch_end", "end of an epoch"),
        ):  # fmt: skip
            if hook in hooks:
                raise NoPlainForm(name, f"it does not say how its {what} is written")
        if "wrap_model" in hooks:
            raise NoPlainForm(name, "it does not say how its change of the model is written")

    def _options_before(self) -> Any:
        for change in self.changes:
            if change.hook == "configure_training":
                return change.before
        return self.built.training

    def _changer_of(self, field: str) -> str | None:
        found = None
        for change in self.changes:
            if change.hook != "configure_training":
                continue
            if getattr(change.before, field) is not getattr(change.after, field):
                found = change.plugin
        return found

    def _owner(self, stage: Stage) -> str | None:
        """The plugin that put a stage into a plan, in a part of its source too."""
        for change in self.changes:
            if change.hook != "build_dataset":
                continue
            before, after = _all_stages(change.before), _all_stages(change.after)
            if id(stage) in after and id(stage) not in before:
                return change.plugin
        return None

    # The body.

    def _body(self) -> list[str]:
        policy = self.built.precision.policy
        lines = [
            "keras.utils.set_random_seed(seed)",
            f"workload = {call(self.factory, keywords(dict(self.job.recipe.workload.options)))}",
        ]
        if policy != "float32":
            lines.append(f"keras.config.set_dtype_policy({literal(policy)})")
        if self.says.strategy is not None:
            lines.append(f"strategy = {self.says.strategy}")
        lines += self.says.before_data
        resident = self._residence()
        lines += ["", "# the training data", *self._data("train", resident)]
        if "validation" in self.built.plans:
            lines += ["", "# the validation data", *self._data("validation", None)]
        lines += ["", AGAIN]
        model = [
            "model = workload.build_model()",
            *self.says.on_model,
            *self.training.precision(),
            *self.training.compiled(),
        ]
        if self.says.strategy is not None:
            lines.append("with strategy.scope():")
            model = [f"    {line}" for line in model]
        lines += model
        lines += self.training.train_function()
        if resident is not None:
            lines.append(self._resident_function(resident))
        return [*lines, "", f"history = {self._fit(resident)}"]

    def _data(self, split: str, resident: Resident | None) -> list[str]:
        plan = self.built.plans[split]
        stages = plan.lowering_order()
        held = next((i for i, stage in enumerate(stages) if isinstance(stage, Resident)), None)
        if held is None:
            return self.pipelines.written(plan, split, split)
        stage = stages[held]
        lines = self.pipelines.written(plan.with_stages(stages[:held]), split, split)
        made = f"{split}.batch({split}.cardinality(), drop_remainder=True).get_single_element()"
        place = getattr(stage, "device", None)
        indent = ""
        if place is not None:
            lines.append(f"with tf.device({literal(place)}):")
            indent = "    "
        lines.append(f"{indent}examples = {made}  # {self._owner(stage)}")
        if resident is None:
            lines.append(f"{split} = tf.data.Dataset.from_tensor_slices(examples)")
            for each in stages[held + 1 :]:
                lines += self.pipelines.stage(each, split)
            return lines
        lines += [
            "# for each epoch one element: the order of the examples",
            f"count = {split}.cardinality()",
            f"{split} = tf.data.Dataset.range(count)",
        ]
        for each in stages[held + 1 :]:
            if isinstance(each, Shuffle):
                lines += self.pipelines.stage(each, split)
        lines.append(f"{split} = {split}.batch(count).map(lambda order: tf.cast(order, tf.int32))")
        return lines

    def _residence(self) -> Resident | None:
        """The stage that a resident loop gathers from."""
        if self.training.loop.kind != "resident":
            return None
        [stage] = [s for s in self.built.plans["train"].stages if isinstance(s, Resident)]
        if self.says.strategy is not None:
            raise NoPlainForm(
                self._owner(stage),
                "under a distribution strategy Keras builds the model on what `fit` is handed, "
                "which are no examples here",
            )
        return stage

    def _resident_function(self, resident: Resident) -> str:
        behind = self.built.plans["train"].lowering_order()
        [batch] = [stage for stage in behind if isinstance(stage, Batch)]
        maps = [self.pipelines.function(s) for s in behind if isinstance(s, MapBatches)]
        return self.training.resident_function(batch.size, maps, drop=batch.drop_remainder)

    def _fit(self, resident: Resident | None) -> str:
        workload, said = self.workload, {}
        if "validation" in self.built.plans:
            said["validation_data"] = "validation"
        said["epochs"] = "EPOCHS"
        if workload.class_weight is not None and resident is None:
            said["class_weight"] = "workload.class_weight"
        callbacks = self.training.callbacks()
        if callbacks:
            said["callbacks"] = callbacks
        if self.built.plans["train"].source.origin == "pydataset" and not workload.shuffle:
            said["shuffle"] = "False"
        return call("model.fit", "train", **said, verbose="2")

    def _factory(self) -> str:
        spec = self.job.recipe.workload
        if spec.use is not None:
            entry = named_workloads()[spec.use][0].entry_point
            self.names.imports[f"from {entry.module} import {entry.attr}"] = None
            return str(entry.attr)
        assert spec.factory is not None
        return self.names.load(spec.factory)

    # The heading.

    def _all_names(self) -> tuple[str, ...]:
        asked = [entry.use for entry in self.job.recipe.plugins]
        return tuple(dict.fromkeys([*asked, *self.left_out]))

    def _became(self, name: str) -> Became:
        if name in self.left_out:
            return Became(plugin=name, left_out=self.left_out[name])
        words = dict.fromkeys(
            f"{change.split}: {word}" if change.split else word
            for change in self.changes
            if change.plugin == name and change.changed
            for word in change.describe()
        )
        notes = self.says.notes.get(name, [])
        return Became(plugin=name, changed=tuple(words), notes=tuple(notes))


def _all_stages(plan: Any) -> set[int]:
    found = {id(stage) for stage in plan.stages}
    for part in plan.source.parts:
        found |= _all_stages(part)
    return found


def _versions() -> dict[str, str]:
    import keras
    import tensorflow

    return {
        "tfopt": __version__,
        "TensorFlow": tensorflow.__version__,
        "Keras": keras.__version__,
    }
