"""Find what costs time in an input pipeline, with its place in the code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfopt_core.data import Batch, Cache, DataPlan, Map, MapExamples, Opaque, Prefetch
from tfopt_core.data.anatomy import function_graph, random_ops, still
from tfopt_core.data.dissect.walk import graphs
from tfopt_core.data.functions import all_ops, function_name, place_of
from tfopt_core.data.lower import lower_plan
from tfopt_core.data.stage import Stage
from tfopt_core.data.stages import Shuffle
from tfopt_core.diagnosis.step_loops import DataLoop
from tfopt_core.diagnosis.step_parts import RecordingLimits, seconds_a_step
from tfopt_core.hooks.diagnosis import Finding
from tfopt_core.lazy import tf
from tfopt_core.statistics.fit_figures import retraces
from tfopt_core.training.messages import StepTrace

# A stage below this share of a step is not reported.
WORTH = 0.02
STAGE_SECONDS = 0.25
PYTHON_OPS = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc", "NumpyFunc"})
# Ops that only take single examples.
_ONE_EXAMPLE = ("Decode", "ReadFile", "Parse", "ExtractJpeg", "IO>", "RegexFullMatch")


def stage_costs(plan: DataPlan) -> dict[int, float]:
    """Return the seconds that each stage computes for a step that calls a function, by its place
    among the plan's stages.

    Stages are timed without shuffling, caching and prefetching; a parallel stage runs as it is set.
    Empty if the plan cannot be divided into stages.
    """
    bare = still(plan)
    costs, batch = dict[int, float](), bare.batch_size or (1 if bare.source.batched else None)
    if bare.source.origin == "pydataset" or batch is None:
        return {}
    before: tuple[int, float] | None = None
    for index, stage in enumerate(bare.stages):
        if index == 0 or _called(stage) is None:
            continue
        whole = any(isinstance(earlier, Batch) for earlier in bare.stages[:index])
        size = 1 if whole or bare.source.batched else batch
        # a stage directly behind another reuses its figure
        so_far = before[1] if before and before[0] == index else None
        if so_far is None:
            so_far = _alone(bare, index, size)
        after = _alone(bare, index + 1, size)
        before = (index + 1, after)
        place = next(i for i, other in enumerate(plan.stages) if other is stage)
        costs[place] = max(0.0, after - so_far)
    return costs


def _alone(plan: DataPlan, end: int, size: int) -> float:
    """Return the seconds of `size` elements of the plan's stages before `end`."""
    data = lower_plan(plan.upto(end))
    if size == 1:
        return _timed(data)
    try:
        # passing single elements on may take longer than computing them
        return _timed(data.batch(size))
    except (TypeError, ValueError, tf.errors.InvalidArgumentError):
        return size * _timed(data)  # elements of several shapes cannot be batched


def _timed(data: Any) -> float:
    loop = DataLoop(data)
    loop.run(RecordingLimits(0, 0.05))  # traces, and fills buffers
    return seconds_a_step(loop.run(RecordingLimits(STAGE_SECONDS, STAGE_SECONDS)), None)


def plan_findings(
    split: str, plan: DataPlan, costs: Mapping[int, float], step_seconds: float, waits: bool
) -> Iterator[Finding]:
    """Yield what is worth naming in the plan of a split.

    :param costs: of the plan's stages, see `stage_costs`; empty if they were not timed.
    :param waits: whether a step waits for these data long enough to report it.
    """
    yield from _python(split, plan)
    dear_maps = {
        index: stage
        for index, seconds in costs.items()
        if seconds >= WORTH * step_seconds and isinstance(stage := plan.stages[index], Map)
    }
    yield from _caches(split, plan, costs, dear_maps)
    for index, stage in dear_maps.items():
        yield from _map(split, plan, index, stage, costs[index])
    last = plan.lowering_order()[-1]
    if waits and not isinstance(last, Prefetch) and plan.source.origin != "pydataset":
        yield Finding(
            kind="no-prefetch", split=split,
            detail="the pipeline does not end in a prefetch, so batches may be made only when they "
            "are asked for",
            mend="end it with prefetch(tf.data.AUTOTUNE)",
        )  # fmt: skip


def _python(split: str, plan: DataPlan) -> Iterator[Finding]:
    source = plan.source
    if source.origin == "pydataset":
        workers = getattr(source.value, "workers", 1)
        yield Finding(
            kind="python-generator", split=split, place=place_of(type(source.value).__getitem__),
            detail=f"batches are made in Python ({type(source.value).__name__}, workers = "
            f"{workers}), in threads that take turns with the training loop",
            mend="write it as tf.data, or set use_multiprocessing=True and more workers",
        )  # fmt: skip
    elif source.origin == "generator" or _has_generator(source):
        yield Finding(
            kind="python-generator", split=split,
            place=place_of(source.value) if source.origin == "generator" else "",
            detail="examples come out of a Python generator: one at a time, and Python's lock lets "
            "only one thread run",
            mend="keep arrays or files, and compute in tf.data",
        )  # fmt: skip
    for index, stage in enumerate(plan.stages[1:], start=1):
        function = _called(stage)
        if function is not None:
            python_ops = sorted(PYTHON_OPS & set(_ops(plan, index)))
            if python_ops:
                yield Finding(
                    kind="python-function", split=split, place=place_of(function),
                    detail=f"{function_name(function)} calls Python for each element "
                    f"({python_ops[0]}), and Python's lock lets only one thread run",
                    mend="write it in TensorFlow operations",
                )  # fmt: skip


def _has_generator(source: Any) -> bool:
    if source.origin != "dataset":
        return False
    from tfopt_core.data.dissect.walk import has_stage

    return has_stage(source.value, "Generator") or any(
        op.type == "GeneratorDataset"
        for graph in graphs(source.value)
        for op in graph.get_operations()
    )


def _caches(
    split: str, plan: DataPlan, costs: Mapping[int, float], dear_maps: Mapping[int, Map]
) -> Iterator[Finding]:
    for place, cache in enumerate(plan.stages):
        if not isinstance(cache, Cache):
            continue
        for index, stage in enumerate(plan.stages[:place]):
            # a validation is the same in any order
            if split == "train" and isinstance(stage, Shuffle) and stage.reshuffle:
                yield Finding(
                    kind="misplaced-cache", split=split,
                    detail="the cache stands behind a shuffle, so every epoch has the order of the "
                    "first",
                    mend="cache before the shuffle",
                )  # fmt: skip
            elif index and isinstance(stage, Map) and (ops := random_ops(plan, index)):
                yield Finding(
                    kind="misplaced-cache", split=split, place=place_of(stage.function),
                    detail=f"the cache stands behind {function_name(stage.function)}, which draws "
                    f"at random ({', '.join(ops[:2])}): what the first epoch drew is repeated",
                    mend="cache before what is random",
                )  # fmt: skip
        for index, late in dear_maps.items():
            if index > place and not random_ops(plan, index):
                yield Finding(
                    kind="misplaced-cache", split=split, place=place_of(late.function),
                    detail=f"{function_name(late.function)} always makes the same, and "
                    f"stands behind the cache: {_ms(costs[index])} of each step",
                    mend="cache behind it",
                )  # fmt: skip


def _map(split: str, plan: DataPlan, index: int, stage: Map, seconds: float) -> Iterator[Finding]:
    name, place = function_name(stage.function), place_of(stage.function)
    if stage.parallel is None:
        yield Finding(
            kind="sequential-map", split=split, place=place,
            detail=f"{name} is called for one element after another: {_ms(seconds)} a step",
            mend="num_parallel_calls=tf.data.AUTOTUNE",
        )  # fmt: skip
    ops = _ops(plan, index)
    single = any(op.startswith(_ONE_EXAMPLE) or op in PYTHON_OPS for op in ops)
    batched_later = any(isinstance(later, Batch) for later in plan.stages[index + 1 :])
    if isinstance(stage, MapExamples) and batched_later and ops and not single:
        yield Finding(
            kind="unbatched-map", split=split, place=place,
            detail=f"{name} is called for each of the {plan.batch_size} examples of a batch: "
            f"{_ms(seconds)} for a step",
            mend="batch first and compute whole batches, if it allows that",
        )  # fmt: skip


def _called(stage: Stage) -> Any:
    """Return the function that a stage calls for each element, None if it calls none."""
    return None if isinstance(stage, Opaque) else getattr(stage, "function", None)


def _ops(plan: DataPlan, index: int) -> tuple[str, ...]:
    """Return the types of all operations of a stage's function; empty if it cannot be traced."""
    try:
        return tuple(sorted(all_ops(function_graph(plan, index))))
    except Exception:  # the workload's own function; the training will raise it
        return ()


def retracing_findings(traced: Sequence[StepTrace], compiled_anew: str) -> Iterator[Finding]:
    """Yield why the step is traced or compiled more than once.

    :param traced: the traces of the step while it was timed.
    :param compiled_anew: why XLA compiles it anew, "" if it does not.
    """
    for times, mend in retraces(traced):
        yield Finding(
            kind="retracing", mend=mend, detail=f"the step was traced again while it ran, {times}",
        )  # fmt: skip
    if compiled_anew and not traced:
        yield Finding(
            kind="retracing", detail=f"XLA compiles the step anew for each shape: {compiled_anew}",
            mend="drop_remainder=True, or pad to few shapes",
        )  # fmt: skip


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.2g} ms" if seconds < 0.1 else f"{seconds:.2g} s"
