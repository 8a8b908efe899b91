"""Fingerprint what all runs of a measurement must share, and notice edits of the code meanwhile.

That is: recipe, code, versions, machine.

It is read without importing TensorFlow. Data files are not covered: changing them between a stop
and a resume changes what is measured.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.errors import TfoptError
from tfopt_core.recipe.model import Recipe
from tfopt_core.training.factory import module_file, named_workloads
from tfopt_core.trials.request import Request
from tfopt_core.version import __version__

LIBRARIES = ("tensorflow", "keras", "numpy")
ABSENT = "absent"
# Keys of a recipe that do not change what is measured.
LABELS = ("name", "description", "tune")
# Facts in which the workers of a training, or a job resumed elsewhere, may differ: they train the
# same, except for the last digits.
OF_THE_PLACE = frozenset({
    "CPU", "memory", "GPUs",
    "environment variable CUDA_VISIBLE_DEVICES",
    "environment variable OMP_NUM_THREADS",
    "environment variable TF_NUM_INTEROP_THREADS",
    "environment variable TF_NUM_INTRAOP_THREADS",
})  # fmt: skip


def fingerprint(request: Request) -> dict[str, str]:
    """Return the facts that a measurement depends on, by name; equal values mean the same."""
    machine = request.machine
    facts = {
        "tfopt": __version__,
        "code of tfopt": _hash_of(Path(__file__).parents[1].rglob("*.py")),
        "Python": platform.python_version(),
        **{name: _version(name) for name in LIBRARIES},
        "CPU": f"{machine.cpu_model}, {machine.cpu_count} usable",
        "memory": f"{machine.memory_bytes / 2**30:.0f} GiB",
        "GPUs": ", ".join(gpu.name for gpu in machine.gpus) or "none",
    }
    for name, value in request.recorded_environment.items():
        facts[f"environment variable {name}"] = value
    for stacked in (*request.plugins, *request.added):
        top = type(stacked.plugin).__module__.partition(".")[0]
        facts[f'code of plugin "{stacked.name}"'] = _hash_of(_files_of_module(top))
    files = workload_files(request.recipe)
    return {**facts, **{name: _hash_of(paths) for name, paths in files.items()}}


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Return what changed, in words, without showing hashes."""
    changes = []
    for name in dict.fromkeys((*before, *now)):
        old, new = before.get(name, ABSENT), now.get(name, ABSENT)
        if old == new:
            continue
        hashed = any(len(value) == _HASH_LENGTH for value in (old, new))
        changes.append(f"{name} changed" if hashed else f"{name} was {old}, is {new}")
    return tuple(changes)


def recipe_differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the keys of a recipe whose meaning has changed, with both values."""
    old, new = (dict(_leaves(recipe)) for recipe in (before, now))
    return tuple(
        f"recipe: {key} was {_in_words(old.get(key))}, is {_in_words(new.get(key))}"
        for key in dict.fromkeys((*old, *new))
        if old.get(key) != new.get(key) and key.partition(".")[0] not in LABELS
    )


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _leaves(item, f"{path}[{index}]")
    else:
        yield path, value


def _in_words(value: Any) -> str:
    return "not set" if value is None else repr(value) if isinstance(value, str) else str(value)


_HASH_LENGTH = 64


def _hash_of(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(paths):
        try:
            data = path.read_bytes()
        except OSError:
            data = b""
        digest.update(f"{path.name} {len(data)} ".encode() + data)
    return digest.hexdigest()


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ABSENT


def workload_files(recipe: Recipe) -> dict[str, tuple[Path, ...]]:
    """Return the Python files that the workload may use, by their name in messages. A user's file
    and its neighbours, which it may import, have a name each, a package has one as a whole."""
    spec = recipe.workload
    if spec.use is not None:
        registered = named_workloads().get(spec.use, ())
        tops = {registration.entry_point.module.partition(".")[0] for registration in registered}
        files = [path for top in tops for path in _files_of_module(top)]
        return {f'code of workload "{spec.use}"': tuple(files)}
    place = spec.script or (spec.factory or "").rpartition(":")[0]
    if spec.module is not None:
        file = module_file(spec.module, recipe.working_directory)
        if not file.is_relative_to(recipe.working_directory.resolve()):
            return {f'code of "{spec.module}"': tuple(_python_below(file.parent))}
        # it imports from where it runs
        place = str(recipe.working_directory / "module.py")
    if place.endswith(".py"):
        folder = (recipe.directory / place).resolve().parent
        return {f'"{path}"': (path,) for path in sorted(_python_below(folder))}
    sys.path.insert(0, str(recipe.directory))
    try:
        return {f'code of "{place}"': tuple(_files_of_module(place.partition(".")[0]))}
    finally:
        sys.path.remove(str(recipe.directory))


def _python_below(folder: Path) -> Iterator[Path]:
    """Yield the Python files in a folder and below, without hidden and virtual environments."""
    for place, folders, names in os.walk(folder):
        folders[:] = [
            name
            for name in folders
            if not name.startswith((".", "__")) and not (Path(place) / name / "pyvenv.cfg").exists()
        ]
        yield from (Path(place) / name for name in names if name.endswith(".py"))


def _files_of_module(top: str) -> Iterator[Path]:
    """Yield the Python files of a module, or of the package of this name."""
    module = sys.modules.get(top)
    spec = getattr(module, "__spec__", None) or (
        importlib.util.find_spec(top) if top not in sys.modules else None
    )
    if spec is None:
        return
    for folder in spec.submodule_search_locations or ():
        yield from Path(folder).rglob("*.py")
    if spec.origin and spec.submodule_search_locations is None:
        yield Path(spec.origin)


def portable_facts(fingerprint: Mapping[str, str], root: str) -> dict[str, str]:
    """Return the facts that are the same on all machines with the same code and versions.

    :param root: the folder of the recipe, whose path may differ on another machine.
    """
    return {
        name.replace(root, "."): value
        for name, value in fingerprint.items()
        if name not in OF_THE_PLACE
    }


@attrs.frozen
class CodeAtStart:
    """The workload's files as they were when its measuring began.

    Files that appear later are not watched: a workload may write some.

    :param files: each with its name in messages, and its digest.
    """

    files: Mapping[Path, tuple[str, str]]

    @classmethod
    def of(cls, recipe: Recipe) -> CodeAtStart:
        """Read the files of a recipe's workload."""
        named = workload_files(recipe).items()
        return cls({path: (name, _hash_of((path,))) for name, paths in named for path in paths})

    def check(self, runs: int) -> None:
        """Check that no file has changed.

        :param runs: how many runs are stored, for the message.
        :raises TfoptError: naming those that have.
        """
        known = self.files.items()
        changed = [name for path, (name, digest) in known if _hash_of((path,)) != digest]
        if changed:
            kept = "1 run from before is" if runs == 1 else f"{runs} runs from before are"
            raise TfoptError(
                f"{', '.join(dict.fromkeys(changed))} changed while it was measured, so its runs "
                f"would not compare; {kept} kept: undo the change and go on with --resume, or "
                "measure anew"
            )
