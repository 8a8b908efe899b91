"""An exported training as the text of a Python file, laid out as ruff's formatter would."""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from tfopt_core.hooks.plain_source import WIDTH
from tfopt_core.measure.export.program import Became, Program

_OURS = ("import argparse", "import json", "import os")


def render_program(program: Program, folder: Path) -> str:
    """The file's text.

    :param folder: where the file will lie; modules of the workload are found from there.
    """
    blocks = [
        _heading(program),
        "",
        *_imports(program, folder),
        "",
        f"SEED = {program.seed}",
        f"EPOCHS = {program.epochs}",
        *(["", *_wrapped(program.start)] if program.start else []),
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
    versions = ", ".join(f"{name} {version}" for name, version in program.versions.items())
    lines = [
        f'"""{program.recipe}: the training of a recipe in plain TensorFlow and Keras.',
        "",
        *_filled(
            f"Written by {versions}. Prints the history of the epochs as JSON in its last line."
        ),
        *(line for note in program.notes for line in ["", *_filled(note)]),
    ]
    if program.plugins:
        lines += ["", "What became of the plugins:"]
        for became in program.plugins:
            lines += _filled(f"- {_became(became)}", "  ")
    return "\n".join([*lines, '"""']).replace("\\", "\\\\")


def _became(became: Became) -> str:
    if became.left_out:
        return f"{became.plugin}: LEFT OUT, no plain form: {became.left_out}"
    said = "; ".join(became.changed) or "changed nothing here"
    return f"{became.plugin}: {'; '.join([said, *became.notes])}"


def _filled(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
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
    yield from _wrapped(program.environment)
    yield ""
    keras = [line for line in others if line.split()[1].startswith("keras.")]
    used = ["import tensorflow as tf"] if _uses_tensorflow(program) else []
    yield from _sorted(["import keras", *used, *keras])
    rest = [line for line in others if line not in keras]
    if rest:
        yield ""
        for place in program.folders:
            yield from _wrapped([f"sys.path.insert(0, {_place(Path(place), folder)})"])
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
    yield from _wrapped(f"    {line}" if line else "" for line in program.body)
    yield "    return history.history"


def _wrapped(statements: Iterable[str]) -> Iterator[str]:
    for statement in statements:
        yield from wrapped(statement)


def wrapped(statement: str) -> list[str]:
    """A statement in lines that are not too long: a call's arguments stand one a line then."""
    if len(statement) <= WIDTH:
        return [statement]
    code, separator, comment = statement.partition("  # ")
    indent = code[: len(code) - len(code.lstrip())]
    lines = [f"{indent}# {comment}"] if separator else []
    return [*lines, *_broken(code.lstrip(), indent)]


def _broken(code: str, indent: str, tail: str = "") -> list[str]:
    """The code with its last bracket opened, if it is too long; `tail` follows it."""
    if len(indent) + len(code) + len(tail) <= WIDTH:
        return [f"{indent}{code}{tail}"]
    parts = _outermost(code)
    if parts is None:
        return [f"{indent}{code}{tail}"]
    head, items, end = parts
    inner = f"{indent}    "
    together = f"{inner}{', '.join(items)}"
    if len(together) <= WIDTH and "=" not in head.rpartition("(")[2]:
        return [f"{indent}{head}", together, f"{indent}{end}{tail}"]
    lines = [line for item in items for line in _broken(item, inner, ",")]
    return [f"{indent}{head}", *lines, f"{indent}{end}{tail}"]


def _outermost(code: str) -> tuple[str, Sequence[str], str] | None:
    """What stands before the last outermost bracket, the items in it, and its end."""
    depth, begin, quote = 0, 0, ""
    spans: list[tuple[int, int, list[int]]] = []
    cuts: list[int] = []
    for place, sign in enumerate(code):
        if quote:
            quote = "" if sign == quote and code[place - 1] != "\\" else quote
        elif sign in "\"'":
            quote = sign
        elif sign in "([{":
            depth += 1
            if depth == 1:
                begin, cuts = place + 1, []
        elif sign in ")]}":
            depth -= 1
            if depth == 0:
                spans.append((begin, place, cuts))
        elif sign == "," and depth == 1:
            cuts.append(place)
    if not spans or spans[-1][1] != len(code) - 1:
        return None
    begin, end, cuts = spans[-1]
    edges = [begin, *(cut + 1 for cut in cuts), end + 1]
    items = [code[a : b - 1].strip() for a, b in pairwise(edges)]
    return code[:begin], [item for item in items if item], code[end:]
