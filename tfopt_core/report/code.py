"""Render an exported training as a Python file, formatted as ruff would."""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

from tfopt_core.hooks.code.layout import wrapped_all
from tfopt_core.hooks.code.source import WIDTH
from tfopt_core.records.program import ExportedPlugin, Program

_OURS = ("import argparse", "import json", "import os")


def render_program(program: Program, folder: Path) -> str:
    """Return the text of the file.

    :param folder: where the file will lie; modules of the workload are found from there.
    """
    if program.script is not None:
        return _with_heading(program.script, _description(program))
    blocks = [
        _heading(program),
        "",
        *_imports(program, folder),
        "",
        f"SEED = {program.seed}",
        f"EPOCHS = {program.epochs}",
        *(["", *wrapped_all(program.start)] if program.start else []),
        *(f"\n\n{helper}" for helper in program.helpers),
        *_train(program),
        *_MAIN,
    ]
    return "\n".join(blocks) + "\n"


_MAIN = (
    "",
    "",
    'if __name__ == "__main__":',
    "    parser = argparse.ArgumentParser()",
    '    parser.add_argument("--seed", type=int, default=SEED)',
    "    print(json.dumps(main(parser.parse_args().seed)))",
)


def _heading(program: Program) -> str:
    about = "Prints the history of the epochs as JSON in its last line."
    lines = _description(program, about)
    return "\n".join([f'"""{lines[0]}', *lines[1:], '"""']).replace("\\", "\\\\")


def _description(program: Program, about: str = "") -> list[str]:
    """Return the lines that describe the file."""
    versions = ", ".join(f"{name} {version}" for name, version in program.versions.items())
    lines = [
        f"{program.recipe}: the training of a recipe in plain TensorFlow and Keras.",
        "",
        *_filled(f"Written by {versions}. {about}".strip()),
        *(line for note in program.notes for line in ["", *_filled(note)]),
    ]
    if program.plugins:
        lines += ["", "The plugins:"]
        for plugin in program.plugins:
            lines += _filled(f"- {_plugin(plugin)}", "  ")
    return lines


def _with_heading(text: str, description: list[str]) -> str:
    """Return a script with comments on top, below a line that sets its interpreter or encoding."""
    heading = "".join(f"# {line}".rstrip() + "\n" for line in description)
    lines = text.splitlines(keepends=True)
    kept = 0
    while kept < min(2, len(lines)) and re.match(r"#!|#.*coding[:=]", lines[kept]):
        kept += 1
    return "".join([*lines[:kept], heading, "\n", *lines[kept:]])


def _plugin(plugin: ExportedPlugin) -> str:
    if plugin.left_out:
        return f"{plugin.plugin}: LEFT OUT, no plain form: {plugin.left_out}"
    changes = "; ".join(plugin.changed) or "changed nothing here"
    return f"{plugin.plugin}: {'; '.join([changes, *plugin.notes])}"


def _filled(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text, WIDTH - 2, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _imports(program: Program, folder: Path) -> Iterator[str]:
    """Yield the imports: standard library, the environment, TensorFlow, the workload's modules."""
    own: list[str] = []
    others: list[str] = []
    for line in dict.fromkeys((*_OURS, *program.imports)):
        top = line.split()[1].partition(".")[0]
        (own if top in sys.stdlib_module_names else others).append(line)
    if program.folders:
        own += ["import sys", "from pathlib import Path"]
    yield from _sorted(own)
    yield ""
    yield from wrapped_all(program.environment)
    yield ""
    keras = [line for line in others if line.split()[1].startswith("keras.")]
    used = ["import tensorflow as tf"] if _uses_tensorflow(program) else []
    yield from _sorted(["import keras", *used, *keras])
    rest = [line for line in others if line not in keras]
    if rest:
        yield ""
        for place in program.folders:
            yield from wrapped_all([f"sys.path.insert(0, {_place(Path(place), folder)})"])
        yield from _sorted(rest)


def _uses_tensorflow(program: Program) -> bool:
    code = "\n".join((*program.start, *program.helpers, *program.body))
    return re.search(r"\btf\.", code) is not None


def _place(place: Path, folder: Path) -> str:
    here = "Path(__file__).resolve().parent"
    relative = os.path.relpath(place, folder)
    return f"str({here})" if relative == "." else f'str({here} / "{relative}")'


def _sorted(lines: Iterable[str]) -> list[str]:
    """Return plain imports, then `from` imports, one line for each module."""
    plain, names = [], dict[str, set[str]]()
    for line in lines:
        words = line.split(maxsplit=3)
        if words[0] == "import":
            plain.append(line)
        else:
            names.setdefault(words[1], set()).add(words[3])
    named = [f"from {module} import {', '.join(sorted(names[module]))}" for module in sorted(names)]
    return [*sorted(set(plain)), *named]


def _train(program: Program) -> Iterator[str]:
    yield "\n\ndef main(seed):"
    yield '    """Train with a seed. Return the metrics of each epoch."""'
    yield from wrapped_all(f"    {line}" if line else "" for line in program.body)
    yield "    return history.history"
