"""What all runs of a measurement must share: recipe, code, versions, machine, environment.

Read without importing TensorFlow. Data files are not covered: whoever changes them between a stop
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

from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.recipe import Recipe
from tfopt_core.training.factory import named_workloads
from tfopt_core.training.runtime import recorded_environment
from tfopt_core.trials.request import Request
from tfopt_core.version import __version__

LIBRARIES = ("tensorflow", "keras", "numpy")
ABSENT = "absent"
# What belongs to the place where a training runs: its workers, and a job that goes on elsewhere,
# may differ in it. They train the same, if not to the last digit.
OF_THE_PLACE = frozenset({
    "CPU", "memory", "GPUs",
    "environment variable CUDA_VISIBLE_DEVICES",
    "environment variable OMP_NUM_THREADS",
    "environment variable TF_NUM_INTEROP_THREADS",
    "environment variable TF_NUM_INTRAOP_THREADS",
})  # fmt: skip


def fingerprint(request: Request) -> dict[str, str]:
    """Return what a measurement depends on, by name; equal values mean the same."""
    machine = request.machine
    found = {
        "tfopt": __version__,
        "code of tfopt": _hash_of(Path(__file__).parents[1].rglob("*.py")),
        "Python": platform.python_version(),
        **{name: _version(name) for name in LIBRARIES},
        "CPU": f"{machine.cpu_model}, {machine.cpu_count} usable",
        "memory": f"{machine.memory_bytes / 2**30:.0f} GiB",
        "GPUs": ", ".join(gpu.name for gpu in machine.gpus) or "none",
    }
    for name, value in recorded_environment(request.environment).items():
        found[f"environment variable {name}"] = value
    for stacked in request.plugins:
        found[f'code of plugin "{stacked.name}"'] = _hash_of(_files_of_plugin(stacked))
    found.update(_code_of_workload(request.recipe))
    return found


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Return what changed, in words; hashes are not shown."""
    said = []
    for name in dict.fromkeys((*before, *now)):
        old, new = before.get(name, ABSENT), now.get(name, ABSENT)
        if old == new:
            continue
        hashed = any(len(value) == _HASH_LENGTH for value in (old, new))
        said.append(f"{name} changed" if hashed else f"{name} was {old}, is {new}")
    return tuple(said)


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


def _files_of_plugin(stacked: StackedPlugin) -> Iterator[Path]:
    top = type(stacked.plugin).__module__.partition(".")[0]
    return _files_of_module(top)


def _code_of_workload(recipe: Recipe) -> dict[str, str]:
    """The Python files that the workload may be made of: a file of the user's and its neighbours,
    which it may import, by name, and a package as one."""
    spec = recipe.workload
    if spec.use is not None:
        registered = named_workloads().get(spec.use, ())
        tops = {registration.entry_point.module.partition(".")[0] for registration in registered}
        files = [path for top in tops for path in _files_of_module(top)]
        return {f'code of workload "{spec.use}"': _hash_of(files)}
    place = spec.script or (spec.factory or "").rpartition(":")[0]
    if place.endswith(".py"):
        folder = (recipe.directory / place).resolve().parent
        return {f'"{path}"': _hash_of([path]) for path in sorted(_python_below(folder))}
    sys.path.insert(0, str(recipe.directory))
    try:
        return {f'code of "{place}"': _hash_of(_files_of_module(place.partition(".")[0]))}
    finally:
        sys.path.remove(str(recipe.directory))


def _python_below(folder: Path) -> Iterator[Path]:
    """Yield the Python files in and below a folder, but no hidden and virtual environments."""
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


def shared_facts(fingerprint: Mapping[str, str], recipe_sha256: str, root: str) -> dict[str, str]:
    """Return what must be the same for all workers of a training, by name.

    :param fingerprint: what a measurement depends on, see `tfopt_core.measurement.fingerprint`.
    :param root: the folder of the recipe, which may lie elsewhere on another machine.
    """
    facts = {"recipe": recipe_sha256}
    for name, value in fingerprint.items():
        if name not in OF_THE_PLACE:
            facts[name.replace(root, ".")] = value
    return facts
