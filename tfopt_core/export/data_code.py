"""Write the data of each split as statements, for Keras' `fit` and for resident loops."""

from __future__ import annotations

import attrs

from tfopt_core.data import Batch, DataPlan, MapBatches, Resident, Shuffle
from tfopt_core.export.names import WorkloadNames
from tfopt_core.export.pipeline import Pipelines
from tfopt_core.export.stack_view import StackView
from tfopt_core.export.training import Training
from tfopt_core.hooks.code.literals import literal
from tfopt_core.hooks.code.plain_code import NoPlainForm


@attrs.define(eq=False)
class DataCode:
    """The statements of the data plans of a build.

    :raises NoPlainForm: on construction, for a loop without a plain form.
    """

    stack: StackView
    training: Training
    pipelines: Pipelines
    gathered: Resident | None = attrs.field(init=False)

    @classmethod
    def of(
        cls,
        stack: StackView,
        names: WorkloadNames,
        *,
        seed: int | None,
        global_seed: int | None,
    ) -> DataCode:
        """Return the code of a stack whose plugins have written theirs.

        :param seed: of the run, if the file has a variable for it.
        :param global_seed: of TensorFlow, when the data are built.
        """
        training = Training(
            built=stack.built,
            before=stack.options_before(),
            written=stack.written,
            to_blame=stack.changer_of,
        )
        pipelines = Pipelines(
            names=names,
            seed=seed,
            global_seed=global_seed,
            functions=stack.written.functions,
            owner=stack.owner,
        )
        return cls(stack, training, pipelines)

    @gathered.default
    def _find_gathered(self) -> Resident | None:
        """Return the stage from which a resident loop gathers."""
        if self.training.loop.kind != "resident":
            return None
        stages = self.stack.built.plans["train"].stages
        [stage] = [stage for stage in stages if isinstance(stage, Resident)]
        if self.stack.written.strategy is not None:
            raise NoPlainForm(
                self.stack.owner(stage),
                "under a distribution strategy Keras builds the model from the data of `fit`, "
                "which hold no examples here",
            )
        return stage

    def lines(self, split: str, plan: DataPlan | None = None) -> list[str]:
        """Return statements that assign a data set to a variable named like the split.

        For a resident loop the examples are in `examples`, and the data set holds their order in
        each epoch.

        :param plan: replaces the plan that was built.
        """
        plan = plan or self.stack.built.plans[split]
        stages = plan.lowering_order()
        held = next((stage for stage in stages if isinstance(stage, Resident)), None)
        if held is None:
            return self.pipelines.written(plan, split, split)
        place = stages.index(held)
        lines = self.pipelines.written(plan.with_stages(stages[:place]), split, split)
        made = f"{split}.batch({split}.cardinality(), drop_remainder=True).get_single_element()"
        indent = ""
        if held.device is not None:
            lines.append(f"with tf.device({literal(held.device)}):")
            indent = "    "
        lines.append(f"{indent}examples = {made}  # {self.stack.owner(held)}")
        behind = stages[place + 1 :]
        if split == "train" and self.gathered is not None:
            shuffles = [stage for stage in behind if isinstance(stage, Shuffle)]
            return lines + self._orders(split, shuffles)
        lines.append(f"{split} = tf.data.Dataset.from_tensor_slices(examples)")
        for stage in behind:
            lines += self.pipelines.stage(stage, split)
        return lines

    def train_function(self, class_weight: str | None) -> str:
        """Return the statement that sets the train function of a resident loop.

        :param class_weight: an expression for the class weights, None if there are none.
        """
        stages = self.stack.built.plans["train"].lowering_order()
        [batch] = [stage for stage in stages if isinstance(stage, Batch)]
        maps = [self.pipelines.function(s) for s in stages if isinstance(s, MapBatches)]
        return self.training.resident_function(
            batch.size, maps, class_weight, drop=batch.drop_remainder
        )

    def _orders(self, split: str, shuffles: list[Shuffle]) -> list[str]:
        return [
            "# for each epoch one element: the order of the examples",
            f"count = {split}.cardinality()",
            f"{split} = tf.data.Dataset.range(count)",
            *(line for stage in shuffles for line in self.pipelines.stage(stage, split)),
            f"{split} = {split}.batch(count).map(lambda order: tf.cast(order, tf.int32))",
            "options = tf.data.Options()",
            "options.autotune.enabled = False  # nothing to tune, and its end would be waited for",
            f"{split} = {split}.with_options(options).prefetch(1)",
        ]
