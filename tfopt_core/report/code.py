"""An exported training as the text of a Python file, laid out as ruff's formatter would."""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

from tfopt_core.hooks.code.layout import wrapped_all
from tfopt_core.hooks.code.source import WIDTH
from tfopt_core.records.program import Became, Program

_OURS = ("import argparse", "import json", "import os")


def render_program(program: Program, folder: Path) -> str:
    """The file's text.

    :param folder: where the file will lie; modules of the workload are found from there.
    """
    if program.script is not None:
        return _with_heading(program.script, _said(program))
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
    said = _said(program, about)
    return "\n".join([f'"""{said[0]}', *said[1:], '"""']).replace("\\", "\\\\")


def _said(program: Program, about: str = "") -> list[str]:
    """What is to be known of the file, in lines."""
    versions = ", ".join(f"{name} {version}" for name, version in program.versions.items())
    lines = [
        f"{program.recipe}: the training of a recipe in plain TensorFlow and Keras.",
        "",
        *_filled(f"Written by {versions}. {about}".strip()),
        *(line for note in program.notes for line in ["", *_filled(note)]),
    ]
    if program.plugins:
        lines += ["", "What became of the plugins:"]
        for became in program.plugins:
            lines += _filled(f"- {_became(became)}", "  ")
    return lines


def _with_heading(text: str, said: list[str]) -> str:
    """A script's text below comments; behind a line that names its interpreter or encoding."""
    heading = "".join(f"# {line}".rstrip() + "\n" for line in said)
    lines = text.splitlines(keepends=True)
    kept = 0
    while kept < min(2, len(lines)) and re.match(r"#!|#.*coding[:=]", lines[kept]):
        kept += 1
    return "".join([*lines[:kept], heading, "\n", *lines[kept:]])


def _became(became: Became) -> str:
    if became.left_out:
        return f"{became.plugin}: LEFT OUT, no plain form: {became.left_out}"
    said = "; ".join(became.changed) or "changed nothing here"
    return f"{became.plugin}: {'; '.join([said, *became.notes])}"


def _filled(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text, WIDTH - 2, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _imports(program: Program, folder: Path) -> Iterator[str]:
    """Standard library, what must come before TensorFlow, TensorFlow, the workload's modules."""
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
    """Plain imports first, then names from modules, those of a module in one line."""
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
    yield '    """Train under a seed; each metric of each epoch."""'
    yield from wrapped_all(f"    {line}" if line else "" for line in program.body)
    yield "    return history.history"
