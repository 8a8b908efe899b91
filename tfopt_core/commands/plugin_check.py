"""What `tfopt plugins check` finds of a plugin: of its class, then of a short training with it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.commands.doctor import run_python
from tfopt_core.commands.request import temporary_request
from tfopt_core.errors import InputError, PluginDefinitionError, TfoptError
from tfopt_core.hooks.contract import implementations
from tfopt_core.hooks.installed.discovery import find, registrations
from tfopt_core.hooks.plugin_class import equivalence_of
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.measurement.certifying import Replays, most_batches
from tfopt_core.recipe.reading import UnwrittenRecipe
from tfopt_core.recipe.table import to_json
from tfopt_core.report.listing import DoctorFinding
from tfopt_core.statistics.certificate import Certificate
from tfopt_core.statistics.runs import FULL
from tfopt_core.testing import check_plugin
from tfopt_core.trials.processes import Processes, prepare
from tfopt_core.trials.request import Request, ScheduledRun, Variant, with_settings
from tfopt_core.workers.fork import ForkRunner
from tfopt_core.workers.spawn import Runner

SEED = 1
HEAVY = ("tensorflow", "keras")
IMPORT_SECONDS = 60.0
# Small, with a map and a random order: most plugins have something to do. A cache needs two epochs.
DEFAULT_WORKLOAD = {
    "use": "fashion-mnist", "epochs": 2, "batch_size": 32, "options": {"examples": 1000},
}  # fmt: skip


def check_installed(
    name: str, target: str | None, overrides: Sequence[str], *, debug: bool = False
) -> Iterator[DoctorFinding]:
    """Yield a finding for each thing that a plugin promises, until one breaks the rest.

    :param target: the recipe to train with, whose stack holds the plugin; None for the plugin
        alone on a workload that ships.
    :raises InputError: for errors in the recipe, and where it does not hold the plugin.
    """
    module = find(name, registrations()).entry_point.module
    alone = UnwrittenRecipe(
        Path.cwd() / f"{name}.toml", {"workload": DEFAULT_WORKLOAD, "plugins": [{"use": name}]},
        # the user has no such file to change
        f'plugin "{name}" alone (its settings: --set plugins.{name}.KEY=VALUE, or a recipe)',
    )  # fmt: skip
    with temporary_request(target or alone, overrides, debug=debug) as asked, ForkRunner() as fork:
        request = asked.observed()
        stacked = next((plugin for plugin in request.plugins if plugin.name == name), None)
        if stacked is None:
            raise InputError(
                f'{target}: its stack does not hold "{name}", which is checked; add it'
            )
        yield missing_contract(name, type(stacked.plugin), stacked.settings)
        yield _imports(module)
        yield round_trip(stacked)
        yield from _training(stacked, request, fork)


def missing_contract(name: str, plugin_class: type[Any], settings: dict[str, Any]) -> DoctorFinding:
    """Return whether the class keeps the contract."""
    try:
        check_plugin(name, plugin_class, **settings)
    except PluginDefinitionError as error:
        mend = "docs/guide/plugins.md says what a plugin class holds"
        return DoctorFinding("class", False, str(error), mend)
    complete = "hooks, card, traits and the help of every setting are complete"
    return DoctorFinding("class", True, f"{complete}; it survives pickling")


def _imports(module: str) -> DoctorFinding:
    """Return whether the plugin's module is imported without TensorFlow."""
    code = f"import sys, {module}; print([name for name in {HEAVY!r} if name in sys.modules])"
    output, end = run_python("-c", code, time_limit_seconds=IMPORT_SECONDS)
    if end:
        cause = end.removeprefix("ended with status 1: ")
        return DoctorFinding("import", False, f'"{module}" cannot be imported: {cause}')
    if "[]" in output.splitlines():
        return DoctorFinding("import", True, "imports no TensorFlow")
    detail = f'"{module}" imports TensorFlow or Keras, which takes seconds in every command'
    mend = "import them within the functions that use them"
    return DoctorFinding("import", False, detail, mend)


def round_trip(stacked: StackedPlugin) -> DoctorFinding:
    """Return whether the settings are the same after they went through JSON."""
    settings = stacked.settings
    try:
        [again] = with_settings([stacked], [json.loads(json.dumps(to_json(settings)))])
        if again.settings == settings:
            return DoctorFinding("settings", True, "are the same through JSON")
        cause = f"became {again.settings}"
    except (TypeError, ValueError) as error:
        cause = f"{type(error).__name__}: {error}"
    mend = "use numbers, texts, booleans, and tuples or dicts of them"
    return DoctorFinding("settings", False, f"{settings} do not survive JSON: {cause}", mend)


def _training(stacked: StackedPlugin, request: Request, runner: Runner) -> Iterator[DoctorFinding]:
    """Yield what a dry build, a replay and a run with the plugin show."""
    try:
        prepared, request = prepare(request, runner)
    except TfoptError as error:
        yield DoctorFinding("dry build", False, str(error))
        return
    [planned] = [plugin for plugin in prepared.plugins if plugin.name == stacked.name]
    changes = ", ".join(planned.differences) or "changes no value that it is given"
    yield DoctorFinding("dry build", True, changes)
    processes = Processes(request, runner)
    resolved = next(plugin for plugin in request.plugins if plugin.name == stacked.name)
    stack = Variant(FULL, request.plugins)
    replays = Replays(processes, SEED, most_batches(prepared))
    certificate = replays.certificates([(stack, prepared.equivalence)]).get(FULL)
    run = processes.run(ScheduledRun(0, 0, stack, SEED), "check", lambda message: None)
    declared = exactness(
        equivalence_of(stacked.name, resolved.plugin), certificate,
        [one.name for one in prepared.plugins if one.equivalence == "changes"],
    )  # fmt: skip
    if not run.ok:
        yield declared
        yield DoctorFinding("training", False, f"a training with it failed: {run.error}")
        return
    effect = run.effects[stacked.name]
    if declared.ok and not effect.applied:
        declared = attrs.evolve(declared, ok=None)  # of what it would do that shows nothing
    yield declared
    if "report_effect" not in implementations(type(stacked.plugin)):
        detail = f"is not read back (no report_effect); from its hooks: {effect.detail}"
        yield DoctorFinding("effect", None, detail, "read back in report_effect what is in effect")
    elif effect.applied:
        yield DoctorFinding("effect", True, f"applied: {effect.detail}")
    else:
        mend = (
            "check it with a recipe in which it takes effect, or mend report_effect if it did: "
            f"tfopt plugins check {stacked.name} RECIPE"
        )
        yield DoctorFinding("effect", None, f"not applied: {effect.detail}", mend)


def exactness(
    equivalence: str, certificate: Certificate | None, changing: Sequence[str] = ()
) -> DoctorFinding:
    """Return whether a replay agrees with what the plugin declares.

    :param changing: the plugins of the stack that change the algorithm.
    """
    if certificate is None and equivalence != "changes":
        names = ", ".join(changing)
        detail = f'equivalence is "{equivalence}", which is not checked beside {names}'
        mend = "check it in a stack without what changes the algorithm"
        return DoctorFinding("equivalence", None, detail, mend)
    if certificate is None:
        detail = "declares another training algorithm: it is judged by the time to a target"
        return DoctorFinding("equivalence", None, detail)
    ok: bool | None = certificate.certified or equivalence == "rounding"
    mend = "" if ok else "declare what it does, or mend it"
    if equivalence == "unknown":
        ok, mend = None, 'declare equivalence = "exact", "order", "rounding" or "changes"'
    elif certificate.kind == "impossible":
        ok, mend = None, ""
    detail = f'equivalence is "{equivalence}": {certificate.statement}'
    return DoctorFinding("equivalence", ok, detail, mend)
