"""Print a page for people, and write the same as JSON, HTML and Markdown."""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
from collections.abc import Callable, Mapping, Set
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from rich.console import RenderableType

from tfopt_core.errors import InputError
from tfopt_core.files import write_text
from tfopt_core.report.style.console import make_console

if TYPE_CHECKING:
    from tfopt_core.statistics.results import Results

# The file in which a step of a GitHub workflow collects its summary.
SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
# Of the JSON of commands that list or plan: plugins, recipes, doctor, plan.
LIST_VERSION = 2

Data = attrs.AttrsInstance | Mapping[str, Any]


@attrs.frozen
class ReportFiles:
    """The files that a command writes besides its page, each None if it is not asked for."""

    json_path: Path | None = None
    html_path: Path | None = None
    markdown_path: Path | None = None

    def check(self) -> None:
        """Check before minutes of measuring what can be known.

        :raises InputError: if one cannot be written, if two of them are standard output, or if
            jinja2 is missing for HTML.
        """
        if _is_stdout(self.json_path) and _is_printed(self.markdown_path):
            raise InputError(
                "--json - and --markdown - are both standard output; write one of them to a file"
            )
        for name in ("json", "html", "markdown"):
            check_writable(f"--{name}", getattr(self, f"{name}_path"))
        if self.html_path is not None:
            from tfopt_core.report.html.page import check_jinja

            check_jinja()

    def show(
        self,
        page: RenderableType,
        data: Data,
        html: Callable[[], str] = str,
        markdown: Callable[[], str] = str,
    ) -> None:
        """Print the page, and write the files that are asked for.

        With a file on standard output, the page goes to standard error.

        :param html, markdown: make the texts of these files.
        :raises InputError: if a file cannot be written.
        """
        taken = _is_stdout(self.json_path) or _is_printed(self.markdown_path)
        make_console(stderr=taken).print(page)
        if self.json_path is not None:
            write_json(data, self.json_path)
        if self.markdown_path is not None:
            _write_markdown(self.markdown_path, markdown())
        if self.html_path is not None:
            write_text(self.html_path, html(), replace=True)

    def show_results(self, results: Results, target: str | None = None, *, verbose: bool) -> None:
        """Print the answer of a measurement, or all of it, and write the files that are asked for.

        :param target: what `tfopt train` is given to train with the stack; None if unknown.
        """
        from tfopt_core.report.html.page import html_page
        from tfopt_core.report.results.answer import render_answer
        from tfopt_core.report.results.markdown import markdown_report
        from tfopt_core.report.results.pages import render_summary

        page = render_summary(results) if verbose else render_answer(results, target)
        self.show(
            page, results, lambda: html_page(results, target), lambda: markdown_report(results)
        )

    def show_list(self, page: RenderableType, **data: Any) -> None:
        """Print the page of a command that lists or plans, and write these data."""
        self.show(page, {"schema_version": LIST_VERSION, **data})


def check_writable(option: str, path: Path | None) -> None:
    """Check that a file can be written, before minutes of measuring; None is no file.

    :raises InputError: naming option and path.
    """
    if path is None or _is_stdout(path):
        return
    folder = path.absolute().parent
    if os.path.isdir(path):
        raise InputError(f'{option}: "{path}" is a folder')
    if os.path.exists(path) and not os.path.isfile(path):
        return  # a pipe or a device
    if not os.path.isdir(folder):
        raise InputError(f'{option}: there is no folder "{path.parent}"')
    try:
        with contextlib.suppress(FileNotFoundError):
            os.stat(path)  # fails for a name that no file can have, and a loop of links
        with tempfile.NamedTemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(f'{option}: cannot write "{path}": {error.strerror or error}') from error


def _is_stdout(path: Path | None) -> bool:
    return path is not None and str(path) == "-"


def _is_printed(markdown_path: Path | None) -> bool:
    """Return whether Markdown goes to standard output and not to a job's summary."""
    return _is_stdout(markdown_path) and not os.environ.get(SUMMARY_VARIABLE)


def _write_markdown(path: Path, text: str) -> None:
    if not _is_stdout(path):
        write_text(path, text, replace=True)
    elif _is_printed(path):
        print(text, end="", flush=True)
    else:
        summary = os.environ[SUMMARY_VARIABLE]
        try:
            # other commands of the step have written to it
            with Path(summary).open("a", encoding="utf-8") as file:
                file.write(f"{text}\n")
        except OSError as error:
            raise InputError(
                f'{SUMMARY_VARIABLE}: "{summary}" cannot be written: {error.strerror or error}'
            ) from error


def write_json(results: Data, target: Path) -> None:
    """Write the results to a file, or to standard output for "-".

    A file is replaced only once the new one is complete on disk. What is not a regular file
    (`/dev/stdout`, a pipe) is written to directly.

    :raises InputError: if the file cannot be written.
    """
    text = json.dumps(to_json(results), indent=2, allow_nan=False) + "\n"
    if _is_stdout(target):
        print(text, end="", flush=True)
    else:
        write_text(target, text, replace=True)


def to_json(value: Any) -> Any:
    """Return results, or other frozen data, as dicts, lists, strings, numbers, booleans and None.

    JSON has no NaN and no infinity: such a number (the loss of a run that diverged) becomes
    None, `null` in the file. Any other type that JSON lacks becomes a string.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value) if math.isfinite(value) else None
    if attrs.has(type(value)):
        # what tells a record from others stands before what it shares with them
        fields = sorted(attrs.fields(type(value)), key=lambda field: field.inherited)
        return {field.name: to_json(getattr(value, field.name)) for field in fields}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, Set):
        value = sorted(value, key=str)
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    return str(value)
