"""Expressions by which an exported file refers to objects of the workload."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.data import DataPlan
from tfopt_core.data.dissect.functions import TracedFunction
from tfopt_core.data.functions import function_name, stage_function
from tfopt_core.errors import InputError
from tfopt_core.hooks.code.plain_code import NoPlainForm
from tfopt_core.hooks.code.source import plain_source
from tfopt_core.training.workload import Workload

# Names that the exported file uses.
RESERVED = (
    "batch", "batch_size", "callbacks", "examples", "history", "keras", "main", "model",
    "options", "optimizer", "order", "seed", "strategy", "tf", "train", "validation", "workload",
)  # fmt: skip


def upstream(dataset: Any, *path: int) -> Any:
    """Return the data set from which another was made, by the numbers of its inputs."""
    for place in path:
        dataset = dataset._inputs()[place]  # TensorFlow has no public way
    return dataset


def function_of(dataset: Any) -> Any:
    """Return the function that a data set's last stage calls."""
    [function] = dataset._functions()
    return function._func


@attrs.define(eq=False)
class WorkloadNames:
    """Expressions for the objects of a workload, and the imports that they need.

    :param plans: the lowered plans by split, which know the stages of the workload's data sets.
    :param directory: the recipe's folder, from which files are looked up.
    """

    workload: Workload
    plans: Mapping[str, DataPlan]
    directory: Path
    imports: dict[str, None] = attrs.field(factory=dict)
    folders: dict[str, None] = attrs.field(factory=dict)
    helpers: dict[str, None] = attrs.field(factory=dict)
    _bound: dict[str, Any] = attrs.field(factory=dict)

    def data(self, split: str) -> str:
        """Return an expression for the workload's data of a split."""
        return f"workload.{split}"

    def reference(self, thing: Any) -> str:
        """Return an expression for a function of the workload's pipelines.

        :raises NoPlainForm: if the workload does not hold it.
        """
        if isinstance(thing, TracedFunction):
            return self._taken(thing)
        for path, stage in self._stages():
            if stage_function(stage) is thing:
                return self._imported(thing) or f"{path}.function"
        raise NoPlainForm(None, f'the function "{function_name(thing)}" is not in the workload')

    def source(self, value: Any) -> str | None:
        """Return an expression for the value of a source in a plan of the workload, or None."""
        for path, stage in self._stages():
            if getattr(stage, "value", None) is value:
                return f"{path}.value"
        return None

    def dataset(self, wanted: Any) -> str:
        """Return an expression for a data set from which the workload's data were made.

        :raises NoPlainForm: if there is none.
        """
        for root, dataset in self._datasets():
            path = _path_to(wanted, dataset)
            if path is not None:
                if not path:
                    return root
                self.helpers[plain_source(upstream)] = None
                return f"upstream({', '.join([root, *map(str, path)])})"
        raise NoPlainForm(None, "a part of the data is rebuilt, and cannot be referenced")

    def load(self, place: str) -> str:
        """Import "module:name" or "file.py:name". Return its name in the file.

        :raises NoPlainForm: if the file does not exist.
        """
        where, _, name = place.rpartition(":")
        if not where.endswith(".py"):
            self.folders[str(self.directory)] = None
            self.imports[f"from {where} import {name}"] = None
            return name
        path = (self.directory / where).resolve()
        if not path.is_file():
            raise NoPlainForm(None, f'there is no file "{where}" beside the recipe')
        self.folders[str(path.parent)] = None
        if not path.stem.isidentifier():
            raise InputError(f'"{path.name}" cannot be imported by its name; rename the file')
        self.imports[f"from {path.stem} import {name}"] = None
        return name

    def _taken(self, thing: TracedFunction) -> str:
        for plan in (*self.plans.values(), *(plan for _, plan in self._plans())):
            for stage, dataset in _given(plan):
                if stage_function(stage) is thing:
                    self.helpers[plain_source(function_of)] = None
                    return f"function_of({self.dataset(dataset)})"
        raise NoPlainForm(None, f'the function "{thing.__name__}" cannot be reached')

    def _imported(self, function: Any) -> str | None:
        """Return the name of a function that can be imported from its module, else None."""
        if not inspect.isfunction(function) or function.__name__ in RESERVED:
            return None
        module, name = sys.modules.get(function.__module__), function.__name__
        named = getattr(module, function.__qualname__, None)
        # its file may have been executed twice, so the objects may differ
        if not inspect.isfunction(named) or named.__code__ != function.__code__:
            return None
        if self._bound.setdefault(name, function) is not function:
            return None
        self.imports[f"from {function.__module__} import {name}"] = None
        return name

    def _plans(self) -> Iterator[tuple[str, DataPlan]]:
        for split in ("train", "validation"):
            data = getattr(self.workload, split)
            if isinstance(data, DataPlan):
                yield self.data(split), data

    def _stages(self) -> Iterator[tuple[str, Any]]:
        for path, plan in self._plans():
            yield from _numbered(path, plan)

    def _datasets(self) -> Iterator[tuple[str, Any]]:
        import tensorflow as tf

        for split in ("train", "validation"):
            data = getattr(self.workload, split)
            if isinstance(data, tf.data.Dataset):
                yield self.data(split), data
        for path, plan in self._plans():
            if plan.given:
                yield f"{path}.given[-1][1]", plan.given[-1][1]


def _numbered(path: str, plan: DataPlan) -> Iterator[tuple[str, Any]]:
    for place, stage in enumerate(plan.stages):
        yield f"{path}.stages[{place}]", stage
    for place, part in enumerate(plan.source.parts):
        yield from _numbered(f"{path}.stages[0].value[{place}]", part)


def _given(plan: DataPlan) -> Iterator[tuple[Any, Any]]:
    yield from plan.given
    for part in plan.source.parts:
        yield from _given(part)


def _path_to(wanted: Any, dataset: Any) -> tuple[int, ...] | None:
    """Return the numbers of the inputs that lead to a data set, None if it is not upstream."""
    left: list[tuple[Any, tuple[int, ...]]] = [(dataset, ())]
    while left:
        current, path = left.pop()
        if current is wanted:
            return path
        left.extend((each, (*path, place)) for place, each in enumerate(current._inputs()))
    return None
