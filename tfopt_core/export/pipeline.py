"""Write data plans as tf.data statements, one for each stage, as `Stage.lower` builds them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs

from tfopt_core.data import DataPlan
from tfopt_core.data.lower import looked_at, lower_stages
from tfopt_core.data.stages import (
    Autotune,
    Batch,
    Cache,
    Filter,
    Interleave,
    Map,
    Opaque,
    Options,
    PaddedBatch,
    Prefetch,
    RaggedBatch,
    Repeat,
    Shard,
    Shuffle,
    Skip,
    Source,
    Stage,
    Take,
    TakeWhile,
    Unbatch,
    Window,
)
from tfopt_core.data.stages.selecting import UNKNOWN_COUNT_BUFFER
from tfopt_core.export.literals import spec_literal
from tfopt_core.export.names import WorkloadNames
from tfopt_core.hooks.code.literals import call, literal
from tfopt_core.hooks.code.plain_code import NoPlainForm

# tf.data uses this as the global seed if none is set.
NO_GLOBAL_SEED = 87654321


@attrs.define(eq=False)
class Pipelines:
    """The tf.data statements of plans.

    :param seed: of the build, held by the file's variable `seed`; None if it has none.
    :param global_seed: of TensorFlow, when the data sets were made.
    :param functions: expressions for functions that are not the workload's.
    :param owner: returns the plugin that added a stage, None for the workload and core.
    """

    names: WorkloadNames
    seed: int | None
    global_seed: int | None
    functions: Sequence[tuple[Any, str]]
    owner: Callable[[Stage], str | None]
    imports: dict[str, None] = attrs.field(factory=dict)
    _parts: int = 0
    _count_known: dict[int, bool] = attrs.field(factory=dict)

    def written(self, plan: DataPlan, name: str, split: str) -> list[str]:
        """Return the statements that assign the plan's data set to the variable `name`.

        :raises NoPlainForm: naming the plugin whose stage cannot be written.
        """
        if len(plan.stages) == 1 and plan.source.origin == "pydataset":
            return [f"{name} = {self.names.data(split)}"]
        stages = plan.lowering_order()
        self._look_at_counts(plan)
        given = _kept(stages, plan)
        lines: list[str] = []
        if given:
            start = self.names.dataset(plan.given[given - 1][1])
        else:
            before, start = self._source(plan.source, name, split)
            lines += before
            given = 1
        lines.append(f"{name} = {start}")
        for stage in stages[given:]:
            lines += self.stage(stage, name)
        return lines

    def stage(self, stage: Stage, name: str) -> list[str]:
        """Return the statements that add a stage to the data set in `name`, with its plugin's name.

        :raises NoPlainForm: if the stage has none.
        """
        owner = self.owner(stage)
        try:
            lines = list(self._lines(stage, name))
        except NoPlainForm as error:
            message = f'its stage "{stage.describe()}" has none: {error.reason}'
            raise NoPlainForm(owner, error.reason if owner is None else message) from error
        if owner is not None:
            lines[-1] += f"  # {owner}"
        return lines

    def _lines(self, stage: Stage, name: str) -> Iterator[str]:
        match stage:
            case Options():
                options = self._options(stage)
                yield f"{name} = {name}.with_options({options})"
            case Autotune():
                yield "options = tf.data.Options()"
                for key, value in (
                    ("enabled", stage.enabled),
                    ("cpu_budget", stage.cpu_budget),
                    ("ram_budget", stage.ram_budget_bytes),
                ):
                    if value is not None:
                        yield f"options.autotune.{key} = {value!r}"
                yield f"{name} = {name}.with_options(options)"
            case Opaque():
                yield f"{name} = {self.function(stage)}({name})"
            case Prefetch(device=device) if device is not None:
                size = _size(stage.buffer_size)
                ahead = f"tf.data.experimental.prefetch_to_device({literal(device)}, {size})"
                yield f"cardinality = {name}.cardinality()"
                yield f"{name} = {name}.apply({ahead})"
                yield (
                    f"{name} = {name}.apply(tf.data.experimental.assert_cardinality(cardinality))"
                )
            case _:
                yield f"{name} = {name}.{self._method(stage, name)}"

    def _method(self, stage: Stage, name: str) -> str:
        match stage:
            case Map():
                return call("map", self.function(stage), **_calls(stage))
            case Filter():
                return call("filter", self.function(stage))
            case TakeWhile():
                return call("take_while", self.function(stage))
            case Interleave(cycle_length=1, parallel=None):
                return call("flat_map", self.function(stage))
            case Interleave():
                lengths = {"cycle_length": stage.cycle_length, "block_length": stage.block_length}
                named = {key: literal(value) for key, value in lengths.items()}
                return call("interleave", self.function(stage), **named, **_calls(stage))
            case Shuffle():
                return self._shuffle(stage, name)
            case PaddedBatch() | RaggedBatch() | Batch():
                return self._batch(stage)
            case Unbatch():
                return "unbatch()"
            case Window():
                window = (stage.size, stage.shift, stage.stride, stage.drop_remainder)
                return call("window", *map(literal, window))
            case Repeat():
                return "repeat()" if stage.count is None else f"repeat({stage.count})"
            case Take():
                return f"take({stage.count})"
            case Skip():
                return f"skip({stage.count})"
            case Shard():
                return f"shard({stage.count}, {stage.index})"
            case Cache():
                return self._cache(stage)
            case Prefetch():
                return f"prefetch({_size(stage.buffer_size)})"
        raise NoPlainForm(None, f"no plain form is written for a stage of the kind {stage.kind}")

    def _cache(self, stage: Cache) -> str:
        if stage.path is None:
            return "cache()"
        self.imports["import tempfile"] = None
        return 'cache(tempfile.mkdtemp(prefix="cache-") + "/elements")'

    def _batch(self, stage: Batch) -> str:
        drop = {"drop_remainder": "True"} if stage.drop_remainder else {}
        size = str(stage.size)
        match stage:
            case PaddedBatch():
                shapes = None if stage.shapes is None else spec_literal(stage.shapes)
                values = None if stage.values is None else literal(stage.values)
                pads = {"padded_shapes": shapes, "padding_values": values}
                given = {key: value for key, value in pads.items() if value is not None}
                return call("padded_batch", size, **given, **drop)
            case RaggedBatch():
                kind = f"tf.{stage.row_splits}"
                return call("ragged_batch", size, row_splits_dtype=kind, **drop)
        return call("batch", size, **drop, **_calls(stage))

    def _shuffle(self, stage: Shuffle, name: str) -> str:
        size = str(stage.buffer_size)
        if stage.buffer_size is None:
            known = self._count_known.get(id(stage), True)
            size = f"{name}.cardinality()" if known else f"{UNKNOWN_COUNT_BUFFER:_}"
        named = {}
        seed = stage.seed
        if isinstance(seed, tuple):
            # tf.data made it from the global seed, which the file sets too, and the shuffle's own
            made_from = NO_GLOBAL_SEED if self.global_seed is None else self.global_seed
            if seed[0] == made_from:
                named["seed"] = str(seed[1])
            elif seed != (0, 0):
                raise NoPlainForm(None, f"its seeds {seed} are not made from the global one")
        elif seed is not None:
            named["seed"] = "seed" if seed == self.seed else str(seed)
        if not stage.reshuffle:
            named["reshuffle_each_iteration"] = "False"
        return call("shuffle", size, **named)

    def _look_at_counts(self, plan: DataPlan) -> None:
        """Record for each shuffle over all examples whether their number is known."""
        if any(isinstance(stage, Shuffle) and stage.buffer_size is None for stage in plan.stages):
            for stage, dataset in looked_at(plan):
                if isinstance(stage, Shuffle):
                    self._count_known[id(stage)] = int(dataset.cardinality()) >= 0

    def function(self, stage: Any) -> str:
        """Return an expression for a stage's function. :raises NoPlainForm: if there is none."""
        for function, expression in self.functions:
            if function is stage.function:
                return expression
        return self.names.reference(stage.function)

    def _options(self, stage: Options) -> str:
        for _, plan in self.names.plans.items():
            for other, dataset in plan.given:
                if other is stage:
                    return f"{self.names.dataset(dataset)}.options()"
        raise NoPlainForm(None, "the options of a data set cannot be reached")

    def _source(self, source: Source, name: str, split: str) -> tuple[list[str], str]:
        """Return preceding statements, and the expression of the data set."""
        if source.parts:
            return self._together(source, name, split)
        value = self.names.source(source.value) or self._data_of(source, split)
        match source.origin:
            case "arrays":
                return [], f"tf.data.Dataset.from_tensor_slices({value})"
            case "tensors":
                return [], f"tf.data.Dataset.from_tensors({value})"
            case "range":
                kind = source.signature
                more = {} if kind is None else {"output_type": f"tf.{kind.dtype.name}"}
                return [], call("tf.data.Dataset.range", *map(str, source.value), **more)
            case "generator":
                spec = spec_literal(_signature_of(source))
                made = call("tf.data.Dataset.from_generator", value, output_signature=spec)
                return [], made
            case "dataset":
                return [], self.names.dataset(source.value)
        raise NoPlainForm(None, f"a {source.origin} is read by Keras itself")

    def _together(self, source: Source, name: str, split: str) -> tuple[list[str], str]:
        lines, parts = [], []
        for part in source.parts:
            self._parts += 1
            parts.append(f"{name}_{self._parts}")
            lines += self.written(part, parts[-1], split)
        if source.origin == "concatenate":
            return lines, parts[0] + "".join(f".concatenate({part})" for part in parts[1:])
        layout = tuple(range(len(parts))) if source.layout is None else source.layout
        return lines, f"tf.data.Dataset.zip({_laid_out(layout, parts)})"

    def _data_of(self, source: Source, split: str) -> str:
        """Return an expression for the workload's data, as this source takes them."""
        data, name = getattr(self.names.workload, split), self.names.data(split)
        if isinstance(data, DataPlan) or (source.origin == "range"):
            return name
        if isinstance(data, tuple | list):
            if len(data) == 1:
                return f"{name}[0]"
            return name if isinstance(data, tuple) else f"tuple({name})"
        return name


def _kept(stages: Sequence[Stage], plan: DataPlan) -> int:
    """Return how many of the stages are the unchanged first stages of a given data set."""
    count = 0
    for stage, (own, _) in zip(stages, plan.given, strict=False):
        if stage is not own:
            break
        count += 1
    return count


def _calls(stage: Map | Interleave | Batch) -> dict[str, str]:
    if stage.parallel is None:
        return {}
    calls = _size(stage.parallel)
    ordered = {} if stage.ordered is True else {"deterministic": repr(stage.ordered)}
    return {"num_parallel_calls": calls, **ordered}


def _size(size: Any) -> str:
    return "tf.data.AUTOTUNE" if size == "auto" else str(size)


def _laid_out(layout: Any, parts: Sequence[str]) -> str:
    if isinstance(layout, dict):
        items = (f"{literal(key)}: {_laid_out(item, parts)}" for key, item in layout.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(layout, tuple):
        if hasattr(layout, "_fields"):
            raise NoPlainForm(None, "a named tuple of data sets has a class of the workload's")
        inner = ", ".join(_laid_out(item, parts) for item in layout)
        return f"({inner},)" if len(layout) == 1 else f"({inner})"
    return parts[int(layout)]


def _signature_of(source: Source) -> Any:
    return source.signature or lower_stages((source,)).element_spec
