"""Check a plugin as `tfopt plugins check` does: its class, then a short training with it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tfopt_core.app.command_request import temporary_request
from tfopt_core.app.findings import DoctorFinding
from tfopt_core.errors import InputError, PluginDefinitionError, RecipeError, TfoptError
from tfopt_core.hooks.card import equivalence_of
from tfopt_core.hooks.contract import implementations
from tfopt_core.hooks.installed.discovery import find, registrations
from tfopt_core.hooks.installed.settings import plain
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.measurement.certifying import most_batches, replay_both
from tfopt_core.records.variants import FULL, ScheduledRun, Variant
from tfopt_core.statistics.certificate import Certificate
from tfopt_core.statistics.judgement import stack_equivalence
from tfopt_core.testing import check_plugin
from tfopt_core.trials.preparation import prepare
from tfopt_core.trials.processes import Processes
from tfopt_core.trials.request import Request, with_settings
from tfopt_core.workers.spawn import Runner

SEED = 1
HEAVY = ("tensorflow", "keras")
IMPORT_SECONDS = 60.0
# Small, with a map and a random order: most plugins have something to do. A cache needs two epochs.
DEFAULT_RECIPE = """\
[workload]
use = "fashion-mnist"
epochs = 2
batch_size = 32
options = {{ examples = 1000 }}

[[plugins]]
use = {name}
"""


def check_installed(
    name: str, target: str | None, overrides: Sequence[str], *, debug: bool = False
) -> Iterator[DoctorFinding]:
    """Yield a finding for each thing that a plugin promises, until one breaks the rest.

    :param target: the recipe to train with, whose stack holds the plugin; None for the plugin
        alone on a workload that ships.
    :raises InputError: for errors in the recipe, and where it does not hold the plugin.
    """
    from tfopt_core.workers.fork import ForkRunner

    found = find(name, registrations())
    with _request(name, target, overrides, debug=debug) as request:
        stacked = {plugin.name: plugin for plugin in request.plugins}.get(name)
        if stacked is None:
            raise InputError(
                f'{target}: its stack does not hold "{name}", which is checked; add it'
            )
        yield missing_contract(name, type(stacked.plugin), stacked.settings)
        yield _imports(found.entry_point.module)
        yield round_trip(stacked)
        with ForkRunner() as runner:
            yield from _training(stacked, request, runner)


@contextmanager
def _request(
    name: str, target: str | None, overrides: Sequence[str], *, debug: bool
) -> Iterator[Request]:
    """Yield the request of the recipe, or of one with the plugin alone, for the context's time."""
    with ExitStack() as stack:
        if target is not None:
            request = stack.enter_context(temporary_request(target, overrides, debug=debug))
        else:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tfopt-check-"))
            path = Path(folder) / f"{name}.toml"
            path.write_text(DEFAULT_RECIPE.format(name=json.dumps(name)), encoding="utf-8")
            try:
                request = stack.enter_context(temporary_request(str(path), overrides, debug=debug))
            except RecipeError as error:
                # the user has no such file to change
                causes = "; ".join(f"{one.path}: {one.message}" for one in error.problems)
                raise InputError(
                    f'plugin "{name}" alone: {causes}; give settings by --set '
                    f"plugins.{name}.KEY=VALUE, or a recipe whose stack holds the plugin"
                ) from error
        yield request.observed()


def missing_contract(name: str, plugin_class: type[Any], settings: dict[str, Any]) -> DoctorFinding:
    """Return whether the class keeps the contract."""
    try:
        check_plugin(name, plugin_class, **settings)
    except PluginDefinitionError as error:
        return DoctorFinding(
            subject="class", ok=False, detail=str(error),
            mend="docs/guide/plugins.md says what a plugin class holds",
        )  # fmt: skip
    return DoctorFinding(
        subject="class", ok=True, detail="hooks, card, traits and the help of every setting are "
        "complete; it survives pickling",
    )  # fmt: skip


def _imports(module: str) -> DoctorFinding:
    """Return whether the plugin's module is imported without TensorFlow."""
    code = f"import sys, {module}; print([name for name in {HEAVY!r} if name in sys.modules])"
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", code], capture_output=True, text=True,
            timeout=IMPORT_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return DoctorFinding(
            subject="import", ok=False,
            detail=f'"{module}" takes more than {IMPORT_SECONDS:.0f} s to import',
        )  # fmt: skip
    if done.returncode != 0:
        [*_, cause] = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
        return DoctorFinding(
            subject="import", ok=False, detail=f'"{module}" cannot be imported: {cause}'
        )
    if "[]" in done.stdout.splitlines():
        return DoctorFinding(subject="import", ok=True, detail="imports no TensorFlow")
    return DoctorFinding(
        subject="import", ok=False,
        detail=f'"{module}" imports TensorFlow or Keras, which takes seconds in every command',
        mend="import them within the functions that use them",
    )  # fmt: skip


def round_trip(stacked: StackedPlugin) -> DoctorFinding:
    """Return whether the settings are the same after they went through JSON."""
    settings = stacked.settings
    try:
        [again] = with_settings([stacked], [json.loads(json.dumps(plain(settings)))])
        same = again.settings == settings
        detail = f"became {again.settings}"
    except (TypeError, ValueError) as error:
        same, detail = False, f"{type(error).__name__}: {error}"
    if same:
        return DoctorFinding(subject="settings", ok=True, detail="are the same through JSON")
    return DoctorFinding(
        subject="settings", ok=False, detail=f"{settings} do not survive JSON: {detail}",
        mend="use numbers, texts, booleans, and tuples or dicts of them",
    )  # fmt: skip


def _training(stacked: StackedPlugin, request: Request, runner: Runner) -> Iterator[DoctorFinding]:
    """Yield what a dry build, a replay and a run with the plugin show."""
    try:
        prepared, request = prepare(request, runner)
    except TfoptError as error:
        yield DoctorFinding(subject="dry build", ok=False, detail=str(error))
        return
    [planned] = [plugin for plugin in prepared.plugins if plugin.name == stacked.name]
    changes = ", ".join(planned.differences) or "changes nothing before the training"
    yield DoctorFinding(subject="dry build", ok=True, detail=changes)
    processes = Processes(request, runner)
    resolved = next(plugin for plugin in request.plugins if plugin.name == stacked.name)
    equivalence = stack_equivalence([plugin.equivalence for plugin in prepared.plugins])
    certificate = replay_both(
        processes, seed=SEED, equivalence=equivalence, batches=most_batches(prepared)
    )
    yield exactness(equivalence_of(stacked.name, resolved.plugin), certificate)
    run = processes.run(
        ScheduledRun(0, 0, Variant(FULL, request.plugins), SEED), "check", lambda message: None
    )
    if not run.ok:
        yield DoctorFinding(
            subject="training", ok=False, detail=f"a training with it failed: {run.error}"
        )
        return
    effect = run.effects[stacked.name]
    if "report_effect" not in implementations(type(stacked.plugin)):
        yield DoctorFinding(
            subject="effect", ok=None,
            detail=f"is not read back (no report_effect); from its hooks: {effect.detail}",
            mend="read back in report_effect what is in effect",
        )  # fmt: skip
    elif effect.applied:
        yield DoctorFinding(subject="effect", ok=True, detail=f"applied: {effect.detail}")
    else:
        yield DoctorFinding(
            subject="effect", ok=None, detail=f"not applied: {effect.detail}",
            mend="have report_effect say that it is applied, or check it with a recipe in which it "
            f"is: tfopt plugins check {stacked.name} RECIPE",
        )  # fmt: skip


def exactness(equivalence: str, certificate: Certificate | None) -> DoctorFinding:
    """Return whether a replay agrees with what the plugin declares."""
    if certificate is None:
        detail = "declares another training algorithm: it is judged by the time to a target"
        return DoctorFinding(subject="mathematics", ok=True, detail=detail)
    detail = f'equivalence is "{equivalence}": {certificate.statement}'
    if equivalence == "unknown":
        mend = 'declare equivalence = "exact", "order", "rounding" or "changes"'
        return DoctorFinding(subject="mathematics", ok=None, detail=detail, mend=mend)
    if certificate.kind == "impossible":
        return DoctorFinding(subject="mathematics", ok=None, detail=detail)
    if certificate.certified or equivalence == "rounding":
        return DoctorFinding(subject="mathematics", ok=True, detail=detail)
    mend = "declare what it does, or mend it"
    return DoctorFinding(subject="mathematics", ok=False, detail=detail, mend=mend)
