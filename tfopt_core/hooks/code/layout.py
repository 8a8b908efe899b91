"""Wrap long statements as ruff's formatter would. No TensorFlow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from tfopt_core.hooks.code.source import WIDTH


def wrapped_all(statements: Iterable[str]) -> Iterator[str]:
    """Yield the lines of one-line statements, wrapped."""
    for statement in statements:
        yield from wrapped(statement)


def wrapped(statement: str) -> list[str]:
    """Return a statement in lines that fit; a long call gets a line for each argument."""
    if len(statement) <= WIDTH:
        return [statement]
    code, separator, comment = statement.partition("  # ")
    indent = code[: len(code) - len(code.lstrip())]
    lines = [f"{indent}# {comment}"] if separator else []
    return [*lines, *_broken(code.lstrip(), indent)]


def _broken(code: str, indent: str, tail: str = "") -> list[str]:
    """Return the code with its last bracket opened if it is too long; `tail` follows it."""
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
    """Return the code up to the last outermost bracket, the items in it, and the end."""
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
