"""tfopt from Python: measure a recipe, train with its stack, rewrite one data set.

    results = tfopt_core.apply("recipe.toml")
    with tfopt_core.stacked("recipe.toml") as stack:
        model.fit(...)
    dataset = tfopt_core.optimize(dataset, "recipe.toml")

The errors are those of the commands, all below `TfoptError`.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import attrs

from tfopt_core.commands.apply import conduct
from tfopt_core.commands.check import CheckedRecipe, check_recipe
from tfopt_core.commands.options import ApplyOptions
from tfopt_core.diagnosis.draft import NothingToMeasure
from tfopt_core.errors import InputError
from tfopt_core.hooks.machine import read_machine
from tfopt_core.scripts.in_process import Stacked, optimized_dataset, stacked_here
from tfopt_core.statistics.results import Results
from tfopt_core.statistics.runs import FitResult, RunResult
from tfopt_core.training.job import Job
from tfopt_core.training.runtime import check_environment

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["NotebookResults", "Stacked", "apply", "optimize", "stacked"]


@attrs.frozen(kw_only=True)
class NotebookResults(Results):
    """Results that a notebook shows as a report with charts, and that pandas can take over."""

    def to_pandas(self) -> DataFrame:
        """Return a table with a row for each run: its figures, those of its judged fit, and each
        metric as `metrics.NAME`.

        :raises InputError: if pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise InputError(
                "to_pandas() needs pandas, which is not installed; run: pip install pandas"
            ) from None
        return pandas.DataFrame([_row(run) for run in self.runs])

    def _repr_html_(self) -> str | None:
        """Return the report; None without jinja2, so that a notebook shows the Markdown."""
        from tfopt_core.report.html.page import html_page

        try:
            return html_page(self, whole=False)
        except InputError:
            return None

    def _repr_markdown_(self) -> str:
        """Return verdict, figures and attribution."""
        from tfopt_core.report.results.markdown import markdown_report

        return markdown_report(self)


def _row(run: RunResult) -> dict[str, Any]:
    """Return the numbers and words of a run and of its judged fit."""
    row = _scalars(run)
    if run.fits:
        row |= {name: value for name, value in _scalars(run.fit).items() if name not in row}
        row |= {f"metrics.{name}": value for name, value in run.fit.metrics.items()}
    return row


def _scalars(record: RunResult | FitResult) -> dict[str, Any]:
    return {
        field.name: value
        for field in attrs.fields(type(record))
        if isinstance(value := getattr(record, field.name), str | int | float | None)
    }


def apply(
    recipe: str | Path,
    *,
    overrides: Mapping[str, Any] | Sequence[str] = (),
    script: str | Path | None = None,
    arguments: Sequence[str] = (),
    pairs: int | None = None,
    seconds: float | None = None,
    budget: str | None = None,
    measure_anyway: bool = False,
    full: bool = False,
    save_to: str | Path | None = None,
    resume: bool = False,
    quiet: bool = True,
) -> NotebookResults | None:
    """Measure a recipe's stack against its baseline: `tfopt apply` without the terminal.

    :param recipe: a file, the name of a recipe that ships, or a Keras script.
    :param overrides: changes of the recipe, as `--set` takes them, or by path:
        `{"measure.pairs": 4}`.
    :param script: measure this script with the recipe's plugins.
    :param arguments: the script's own.
    :param pairs, seconds, budget, measure_anyway, full, save_to, resume: as the command's options.
    :param quiet: print no progress to standard error.
    :returns: everything that was measured, which a notebook shows as a report; None for a script
        on which no plugin seems to save time.
    :raises RecipeError, InputError: for what is wrong with the recipe.
    :raises PreparationFailed: for what would fail in every run.
    """
    from tfopt_core.report.style.console import make_console

    options = ApplyOptions(
        target=str(recipe), overrides=_as_texts(overrides),
        script=None if script is None else str(script), arguments=tuple(arguments), pairs=pairs,
        seconds=seconds, budget=budget, measure_anyway=measure_anyway, full=full,
        save_to=None if save_to is None else Path(save_to), resuming=resume,
    )  # fmt: skip
    found = conduct(options, make_console(stderr=True, quiet=quiet))
    if isinstance(found, NothingToMeasure):
        return None
    fields = attrs.fields(Results)
    return NotebookResults(**{field.name: getattr(found, field.name) for field in fields})


@contextmanager
def stacked(
    recipe: str | Path,
    *,
    overrides: Mapping[str, Any] | Sequence[str] = (),
    seed: int | None = None,
) -> Iterator[Stacked]:
    """Apply a recipe's stack to whatever Keras trains inside, in this process.

    The dtype policy and the strategy are in effect for models that are built inside. Settings of
    "auto" are not resolved: whatever has to be timed first is not applied, and `effects` says so.
    What TensorFlow reads when it starts (threads, flags) is beyond reach here.

    :param recipe: a file or the name of a recipe that ships; its workload is not used.
    :param overrides: changes of the recipe.
    :param seed: seeds everything first, and what plugins draw; None seeds nothing.
    :raises RecipeError: with everything that is wrong with the recipe.
    :raises PluginError, PluginRefused: naming the plugin that failed.
    """
    checked = _checked(recipe, overrides)
    folder = Path(tempfile.mkdtemp(prefix="tfopt-stacked-"))
    try:
        with stacked_here(_job(checked, folder, seed or 1), seed) as found:
            yield found
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def optimize(
    dataset: Any,
    recipe: str | Path,
    *,
    split: Literal["train", "validation"] = "train",
    overrides: Mapping[str, Any] | Sequence[str] = (),
    seed: int = 1,
) -> Any:
    """Rewrite one data set as a recipe's plugins would; the others of them have no say.

    Files that a plugin writes (a cache on the disk) lie in a temporary folder, until the process
    ends.

    :param dataset: a `tf.data.Dataset` of batches.
    :param split: which of a training's data it is.
    :param overrides: changes of the recipe.
    :param seed: of what plugins draw.
    :returns: a `tf.data.Dataset`; the very same where no plugin changes it.
    :raises InputError: for something else than a data set.
    :raises RecipeError, PluginError, PluginRefused: as `stacked`.
    """
    import atexit

    checked = _checked(recipe, overrides)
    folder = Path(tempfile.mkdtemp(prefix="tfopt-data-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return optimized_dataset(_job(checked, folder, seed), dataset, split)


def _checked(recipe: str | Path, overrides: Mapping[str, Any] | Sequence[str]) -> CheckedRecipe:
    check_environment(os.environ)
    return check_recipe(str(recipe), _as_texts(overrides), compares=False)


def _job(checked: CheckedRecipe, folder: Path, seed: int) -> Job:
    return Job(
        recipe=checked.recipe,
        plugins=(*checked.plugins, *checked.observers),
        variant="full",
        seed=seed,
        machine=read_machine(),
        folder=folder,
        kept=folder / "observed",
    )


def _as_texts(overrides: Mapping[str, Any] | Sequence[str]) -> tuple[str, ...]:
    """Return overrides as `--set` takes them.

    :raises InputError: for something else, and for values that a recipe cannot hold.
    """
    if isinstance(overrides, Mapping):
        return tuple(f"{path}={_as_toml(value, path)}" for path, value in overrides.items())
    several = isinstance(overrides, Sequence) and not isinstance(overrides, str)
    if several and all(isinstance(text, str) for text in overrides):
        return tuple(overrides)
    raise InputError(
        'overrides are {"measure.pairs": 4} or several texts, such as ["measure.pairs=4"]'
    )


def _as_toml(value: Any, path: str) -> str:
    """Return Python data, arrays and scalars of numpy too, as a TOML value on one line."""
    import tomlkit

    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        keys = {key: tomlkit.key(str(key)).as_string() for key in value}
        pairs = (f"{keys[key]} = {_as_toml(v, f'{path}.{key}')}" for key, v in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list | tuple):
        parts = (_as_toml(part, f"{path}[{index}]") for index, part in enumerate(value))
        return f"[{', '.join(parts)}]"
    try:
        plain = os.fspath(value) if isinstance(value, os.PathLike) else value
        return str(tomlkit.item(plain).as_string())
    except (TypeError, ValueError):
        raise InputError(
            f"overrides: {path} is a {type(value).__name__}, which a recipe cannot hold; give a "
            "text, a number, a list or a dict"
        ) from None
