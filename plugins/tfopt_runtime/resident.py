"""Resident: the training data stay on the device, and one call makes an epoch of steps."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from tfopt_core.data import (
    Batch,
    Cache,
    MapBatches,
    MapExamples,
    Repeat,
    Shuffle,
    Stage,
    element_spec,
    function_name,
    known_count,
    lower_plan,
    random_ops,
    why_not_gathered,
)
from tfopt_core.data import Resident as ResidentStage
from tfopt_core.plugins import (
    DataPlan,
    Diagnosis,
    Effect,
    Machine,
    Plugin,
    PluginRefused,
    Probe,
    RunContext,
    Split,
    TrainingOptions,
    WorkloadError,
    hookimpl,
    plugin,
)
from tfopt_core.toolkit import number_or, size_in_words, tf
from tfopt_runtime.loops import (
    LEAST_GAIN,
    allowed_xla,
    loop_effect,
    why_compiled,
    why_not,
    with_xla,
    without_xla,
    worth_a_loop,
    xla_setting,
)


def with_resident(plan: DataPlan, device: str | None = None) -> DataPlan | str:
    """The plan with all elements kept behind what is computed the same for each epoch, or why not.

    Deterministic maps of examples behind a shuffle are moved before it: the elements stay the
    same, and so does their order. A cache before the place is left out: it would keep them twice.
    """
    source = plan.source
    if source.origin == "pydataset":
        return "a PyDataset is read by Keras itself, not by tf.data"
    if not source.deterministic:
        drawing = ", ".join(random_ops(plan, 0)) if source.parts else ""
        reason = f"the {source.origin} is not known to yield the same examples each time"
        return f"{reason} ({drawing})" if drawing else reason
    head: list[Stage] = [source]
    behind: list[Stage] = []
    for stage in plan.stages[1:]:
        if isinstance(stage, Repeat):
            return f'"{stage.describe()}" would be kept as often'
        if isinstance(stage, MapBatches) and random_ops(plan, plan.stages.index(stage)):
            return f"{_named(stage)} would draw other random numbers in this loop"
        if stage.neutral or isinstance(stage, Shuffle | Batch | MapBatches):
            behind.append(stage)
            continue
        if isinstance(stage, Cache):
            fixed = _fixed_by_a_cache(plan, behind)
            if fixed:
                return f'the workload caches behind "{fixed}", whose draws that fixes'
            continue
        if any(not (s.neutral or isinstance(s, Shuffle)) for s in behind) or (
            any(isinstance(s, Shuffle) for s in behind) and not isinstance(stage, MapExamples)
        ):
            return f'"{stage.describe()}" stands behind "{behind[-1].describe()}"'
        ops = random_ops(plan.with_stages((*head, stage)), len(head))
        if ops:
            return f"{_named(stage)} yields something else each time ({', '.join(ops)})"
        head.append(stage)
    shuffles = [stage for stage in behind if isinstance(stage, Shuffle)]
    if len(shuffles) > 1 and any(stage.reshuffle for stage in shuffles):
        return "two shuffles stand behind each other, and one draws as it is read"
    reason = why_not_gathered(behind) or _why_not_held(plan.with_stages(head))
    given = tf.nest.flatten(element_spec(plan))
    if not reason and any(isinstance(spec, tf.OptionalSpec | tf.NoneTensorSpec) for spec in given):
        reason = "a part of each batch is None"
    if not reason and any(spec.shape.rank is None for spec in given):
        # Keras refuses them; here they would get a rank, and train
        reason = "the rank of the data is unknown"
    if reason:
        return reason
    return plan.with_stages((*head, ResidentStage(device=device), *behind))


def why_not_read(plan: DataPlan) -> str:
    """Why what a plan keeps cannot be read as tensors of one shape; "" if it can.

    It is read to find that out if its shapes do not tell, and kept then.
    """
    place = plan.find(ResidentStage)
    assert place is not None
    specs = tf.nest.flatten(element_spec(plan.upto(place)))
    if all(spec.shape.is_fully_defined() for spec in specs):
        return ""
    try:
        lower_plan(plan.upto(place + 1))
    except WorkloadError as error:
        return str(error)
    return ""


def _why_not_held(head: DataPlan) -> str:
    for spec in tf.nest.flatten(element_spec(head)):
        if not isinstance(spec, tf.TensorSpec):
            return f"only tensors can be held on the device, not a {spec.value_type.__name__}"
    if not known_count(head):
        return "only data whose number of examples is known can be held on the device"
    return ""


def _named(stage: Stage) -> str:
    return f'{stage.kind} "{function_name(getattr(stage, "function", stage))}"'


def _fixed_by_a_cache(plan: DataPlan, behind: list[Stage]) -> str:
    """The first of these stages that draws anew each epoch, in words; "" if none does."""
    for stage in behind:
        if not stage.neutral and random_ops(plan, plan.stages.index(stage)):
            return stage.describe()
    return ""


# Filling takes twice what is held for a moment; the rest is for the model and its gradients.
MEMORY_SHARE = 0.4


def why_too_large(
    example_bytes: float | None, count: int | None, free_bytes: int, machine: Machine
) -> str:
    """Why so many examples cannot be held, with figures; "" if they can."""
    if example_bytes is None or count is None:
        return "the number or the size of the examples is unknown, so they may not fit into memory"
    needed = example_bytes * count
    places = [("memory", free_bytes)]
    if machine.gpus:
        gpu = machine.gpus[0]
        if not gpu.free_bytes:
            return f"how much of the memory of {gpu.name} is free is not known"
        places.append((f"memory of {gpu.name}", gpu.free_bytes))
    for name, size in places:
        if needed > MEMORY_SHARE * size:
            return (
                f"{count:,} examples take {size_in_words(needed)}, more than {MEMORY_SHARE:.0%} "
                f"of the {size_in_words(size)} of {name} that are free"
            )
    return ""


@plugin
class Resident(Plugin):
    """Keeps the training data on the device and makes many steps in each call from Python.

    What it does: computes what is the same for each epoch once, and keeps it as tensors. A call
    makes an epoch of steps; each gathers its batch by the epoch's shuffled indices. Order, batches
    and losses are those of the stock pipeline. Under Keras' own fit; with XLA a call is compiled
    as a whole.

    Why it helps: nothing is fetched, batched or copied while training, and no step is started from
    Python. Small models over data that fit into memory train many times faster.

    When it does not: data larger than 40 % of the free memory are refused, with figures. Steps of
    tens of milliseconds gain little. Convolutions compiled by XLA are many times slower on a CPU;
    auto times both. With random maps in the data (augmentation) it is not applied.

    Mixes with: mixed-precision, threads; parallel-map makes filling faster. A cache of the training
    data is left out: they are kept already. A call's steps are not interrupted: set steps lower for
    long epochs. A callback that acts on every batch, or replicas (steps-per-execution serves them):
    not applied. Where XLA compiles the steps already, with xla = true only. Where a layer draws by
    tf.random, a later fit with other maps over batches is refused: the numbers would begin again.

    Reference: https://www.tensorflow.org/guide/data_performance
    """

    targets = ("input", "dispatch", "compute")
    conflicts = ("steps-per-execution", "chunked")
    after = ("cache", "parallel-map", "augment", "vectorize-map")

    steps: int | Literal["epoch"] = number_or(
        "epoch", "Training steps in one call, at least 1; epoch makes a whole epoch."
    )
    xla: bool | Literal["auto"] = xla_setting("a call")

    def equivalence(self) -> Literal["exact", "rounding"]:
        """The same batches and steps; under XLA fused sums are taken in another order."""
        return "exact" if self.xla is False else "rounding"

    def suggest(self, diagnosis: Diagnosis) -> dict[str, Any] | None:
        """Worth it where the data fit, and steps wait for input or dispatch or may be compiled."""
        plan = diagnosis.plans.get("train")
        if plan is None or not worth_a_loop(diagnosis, self.targets):
            return None
        too_large = why_too_large(
            diagnosis.example_bytes,
            diagnosis.examples,
            diagnosis.available_memory_bytes,
            diagnosis.machine,
        )
        if too_large or isinstance(with_resident(plan), str):
            return None
        return {"xla": False} if without_xla(diagnosis) else {}

    def resolve(self, probe: Probe) -> Resident:
        """Check the memory, and time XLA.

        :raises PluginRefused: if the data do not fit into 40 % of what is free.
        """
        reason = why_too_large(
            *probe.element_bytes(), probe.available_memory_bytes(), probe.machine
        )
        if reason:
            raise PluginRefused(reason)
        xla = allowed_xla(self.xla, probe)
        if xla != "auto":
            return attrs.evolve(self, xla=xla)
        without, with_xla = (attrs.evolve(self, xla=xla) for xla in (False, True))
        plain, compiled = probe.step_seconds([without, with_xla])
        return with_xla if compiled < plain * (1 - LEAST_GAIN) else without

    @hookimpl
    def build_dataset(self, run: RunContext, split: Split, plan: DataPlan) -> DataPlan:
        """Keep the training data."""
        if split != "train":
            return plan
        if run.replicas > 1:
            run.state_of(self)["reason"] = why_not(run.replicas, ())
            return plan
        placed = with_resident(plan)
        reason = placed if isinstance(placed, str) else why_not_read(placed)
        run.state_of(self)["reason"] = reason
        return plan if reason or isinstance(placed, str) else placed

    @hookimpl
    def configure_training(self, run: RunContext, options: TrainingOptions) -> TrainingOptions:
        """Set the loop, its steps and XLA, unless a callback needs each step."""
        reason = run.state_of(self).get("reason") or why_not(run.replicas, options.callbacks)
        if not reason and run.steps_per_epoch is None:
            reason = "the number of steps in an epoch is unknown"
        reason = reason or why_compiled(options, self.xla, run.machine)
        run.state_of(self)["reason"] = reason
        if reason or run.steps_per_epoch is None:
            return options
        most = run.steps_per_epoch
        return attrs.evolve(
            options,
            loop="resident",
            steps_per_execution=most if self.steps == "epoch" else min(self.steps, most),
            jit_compile=with_xla(options, self.xla),
        )

    @hookimpl
    def report_effect(self, run: RunContext, model: Any) -> Effect:
        """Read back from the train function how many steps its calls made, and how."""
        nothing_done = "no step was made over the data on the device"
        reason = run.state_of(self).get("reason", "")
        return loop_effect(reason, model, "resident", self.xla, nothing_done)

    def by_hand(self) -> str:
        """The same in plain code."""
        steps = "steps_per_epoch" if isinstance(self.steps, str) else self.steps
        return (
            "# the loop is tfopt's own; this is the nearest that Keras has\n"
            f"model.compile(optimizer, loss, steps_per_execution={steps}, "
            f"jit_compile={self.xla is True})\nmodel.fit(x, y)  # arrays"
        )
