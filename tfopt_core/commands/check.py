"""Check a recipe, or a script or factory in place of one, and report all problems at once.

TensorFlow is not imported.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.errors import InputError, Problem, did_you_mean
from tfopt_core.hooks.installed.assemble import assemble
from tfopt_core.hooks.installed.discovery import registrations
from tfopt_core.hooks.own_loop import why_not_reached
from tfopt_core.hooks.plugin_class import equivalence_of
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.recipe.model import Recipe, WorkloadSpec
from tfopt_core.recipe.reading import Reading, UnwrittenRecipe, read_recipe
from tfopt_core.recipe.tree import join_path
from tfopt_core.training.factory import missing_workload
from tfopt_core.trials.workload_options import baseline_faults, options_in_stack

# What begins a command at a shell: `python`, or a script with its arguments behind it.
_COMMAND = re.compile(r"(^|[\s/])python[\d.]*(\s|$)|\.py\s")


ADD_TARGET = (
    "add to [measure] a metric that your epochs report and a value that your trainings surely "
    'reach, for example: target = { metric = "val_accuracy", at_least = 0.9 }'
)


@attrs.frozen
class CheckedRecipe:
    """A recipe without problems, its configured plugins, and the places of its keys.

    `observers` are those that are measured with none of the others.
    """

    recipe: Recipe
    plugins: tuple[StackedPlugin, ...]
    reading: Reading
    observers: tuple[StackedPlugin, ...] = ()


def check_recipe(
    target: str | Path | UnwrittenRecipe, overrides: Sequence[str] = (), *, compares: bool = True
) -> CheckedRecipe:
    """Read a recipe and configure its plugins.

    :param compares: whether the stack is compared with the baseline: then it must not be empty,
        and needs a target if it changes the algorithm.
    :raises RecipeError: with every problem of the recipe, its plugins and its workload.
    """
    reading = read_recipe(target, overrides)
    plugins, problems = assemble(reading.entries)
    problems.extend(_workload_problems(reading))
    problems.extend(_script_problems(reading, plugins))
    observers = tuple(stacked for stacked in plugins if stacked.plugin.role == "observer")
    plugins = tuple(stacked for stacked in plugins if stacked not in observers)
    if reading.recipe is not None:  # the rest of it is right
        for key, why, mend in baseline_faults(reading.recipe, compares=compares):
            path = f"measure.baseline.{key}" if key else "measure.baseline"
            problems.append(reading.problem(path, why, mend))
    if compares:
        if reading.recipe is not None:
            plugins = (*options_in_stack(reading.recipe), *plugins)
        problems.extend(_comparison_problems(reading, plugins, observers))
    recipe = reading.with_problems(problems).require()
    return CheckedRecipe(recipe, plugins, reading, observers)


def _script_problems(reading: Reading, plugins: Sequence[StackedPlugin]) -> Iterator[Problem]:
    """Yield the problems of plugins and settings that cannot be used with a script."""
    if not any(isinstance(reading.value(f"workload.{key}"), str) for key in ("script", "module")):
        return
    for stacked in plugins:
        if stacked.plugin.model_change == "replaces":
            why = f'"{stacked.name}" replaces the model, and a script makes its own'
            mend = "take it out, or write a factory"
            yield reading.problem(join_path("plugins", (stacked.name,)), why, mend)
    if reading.value("workload.loop") == "own":
        for key in ("quality", "target"):
            if reading.value(f"measure.{key}") is not None:
                why = "a training loop of the script's own reports no metric"
                yield reading.problem(f"measure.{key}", why, "remove it")
        unreached = [why_not_reached(type(stacked.plugin)) for stacked in plugins]
        if unreached and all(unreached):
            why = f'"{plugins[0].name}": {unreached[0]}'
            mend = "add one that reaches it (docs/guide/scripts.md)"
            yield reading.problem(join_path("plugins", (plugins[0].name,)), why, mend)
    folder = reading.value("workload.folder")
    if isinstance(folder, str) and folder and not os.path.isdir(reading.directory / folder):
        yield reading.problem(
            "workload.folder", f'there is no folder "{reading.directory / folder}"'
        )


def _workload_problems(reading: Reading) -> Iterator[Problem]:
    folder = reading.value("workload.folder")
    for key in ("use", "factory", "script", "module"):
        name = reading.value(f"workload.{key}")
        if isinstance(name, str) and name:
            # `python -m` finds a module from where it runs
            below = folder if key == "module" and isinstance(folder, str) else ""
            named: dict[str, Any] = {key: name}
            missing = missing_workload(WorkloadSpec(**named), reading.directory / below)
            if missing is not None:
                yield reading.problem(f"workload.{key}", missing)


def _comparison_problems(
    reading: Reading, plugins: Sequence[StackedPlugin], observers: Sequence[StackedPlugin]
) -> Iterator[Problem]:
    if observers and not plugins:
        only = f'"{observers[0].name}" is an observer, so there is nothing to compare'
        mend = "add an optimization, or use `tfopt train`"
        yield reading.problem(join_path("plugins", (observers[0].name,)), only, mend)
    # a file or plugins that could not be read have a problem already
    unread = reading.value("workload") is None and reading.problems
    wrong = any(problem.path.startswith("plugins") for problem in reading.problems)
    if not (plugins or reading.entries or unread or wrong):
        why = "the stack is empty, so there is nothing to compare"
        mend = "add [[plugins]] tables; `tfopt plugins` lists what there is"
        yield reading.problem("plugins", why, mend)
    if reading.value("measure.pairs") is not None and reading.value("measure.budget"):
        why = "a budget chooses the number of pairs"
        yield reading.problem("measure.budget", why, "remove one of the two")
    yield from missing_target(reading, plugins)


def missing_target(reading: Reading, plugins: Sequence[StackedPlugin]) -> Iterator[Problem]:
    """Yield that a comparison needs a target, if it does and the recipe has none."""
    if reading.value("measure.target") is not None:
        return
    if reading.value("measure.objective") == "time-to-target":
        why = '"time-to-target" needs a target, and there is none'
        yield reading.problem("measure.objective", why, ADD_TARGET)
    elif changing := [
        f'"{one.name}"' for one in plugins if equivalence_of(one.name, one.plugin) == "changes"
    ]:
        why = (
            f"{', '.join(changing)} {'changes' if len(changing) == 1 else 'change'} the training "
            "algorithm, so the stack is judged by its time to a target, and there is none"
        )
        yield reading.problem("measure.target", why, ADD_TARGET)


def check_plugins(names: Iterable[str], option: str = "") -> None:
    """Check that plugins are installed.

    :param option: begins the message, such as "--plugin: ".
    :raises InputError: for a name that no installed plugin has.
    """
    known = registrations()
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or "`tfopt plugins` lists those that are installed"
            raise InputError(f'{option}no plugin is named "{name}"; {hint}')


def script_of(target: str, *, module: bool = False) -> WorkloadSpec | None:
    """Return the script or module of a target, None if the target is no script's path.

    :param module: whether the target names a module, as `-m` says.
    :raises InputError: for a command, as it is typed at a shell.
    """
    if not os.path.exists(target) and _COMMAND.search(target):
        raise InputError(
            f'"{target}" is a command, and tfopt starts a script itself; write tfopt apply '
            "train.py -- ARGUMENTS, or tfopt apply -m package.train -- ARGUMENTS"
        )
    if module:
        return WorkloadSpec(module=target)
    return WorkloadSpec(script=target) if target.endswith(".py") else None


def factory_of(target: str) -> WorkloadSpec:
    """Return the factory of a target.

    :raises InputError: if the target is none, or the factory is not there.
    """
    if ":" not in target:
        raise InputError(
            f'"{target}" is no script and no factory; name train.py, or module:callable'
        )
    return _checked(WorkloadSpec(factory=target))


def _checked(spec: WorkloadSpec) -> WorkloadSpec:
    missing = missing_workload(spec, Path.cwd())
    if missing is not None:
        raise InputError(missing)
    return spec


def refuse_script(target: str, command: str) -> None:
    """Refuse a script where a recipe with a stack is needed.

    :param command: what needs it, such as "tfopt export".
    :raises InputError: if the target is a script.
    """
    if script_of(target) is not None:
        raise InputError(
            f"{command} needs a recipe with its stack, and {target} is a script; "
            f"tfopt apply {target} proposes a stack and writes the recipe"
        )


def check_script(spec: WorkloadSpec) -> WorkloadSpec:
    """Return a script or module with its path as a recipe in the working directory has it.

    :raises InputError: if there is none.
    """
    if spec.module is not None:
        return _checked(spec)
    path = Path(spec.script or "")
    if not os.path.isfile(path):
        what = "is a folder" if os.path.isdir(path) else "is not there"
        beside: list[str] = []
        with suppress(OSError):  # such as a folder that may not be read
            beside = [file.name for file in path.parent.glob("*.py")]
        hint = did_you_mean(path.name, beside)
        raise InputError(f'the script "{path}" {what}{f"; {hint}" if hint else ""}')
    absolute, here = path.absolute(), Path.cwd()
    inside = absolute.is_relative_to(here)
    return attrs.evolve(spec, script=str(absolute.relative_to(here) if inside else absolute))


def for_recipe_in(folder: Path, spec: WorkloadSpec) -> WorkloadSpec:
    """Return a workload as a recipe in this folder names it; it runs in the working directory."""
    here = Path.cwd()
    if folder == here:
        return spec
    if spec.factory is not None:
        place, colon, name = spec.factory.rpartition(":")
        factory = f"{here / place}{colon}{name}" if place.endswith(".py") else spec.factory
        return attrs.evolve(spec, factory=factory)
    script = None if spec.script is None else str(here / spec.script)
    return attrs.evolve(spec, script=script, folder=str(here))


def recipe_of_script(spec: WorkloadSpec) -> UnwrittenRecipe:
    """Return the recipe of a script, without plugins, as if it lay in the working directory.

    :raises InputError: as `check_script`.
    """
    spec = check_script(spec)
    data = {"name": spec.stem, "workload": spec.to_dict()}
    return UnwrittenRecipe(Path.cwd() / f"{spec.stem}.toml", data, spec.label)
