"""Parse TOML bytes to data with places, or raise the one problem that prevents it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from tfopt_core.errors import Problem
from tfopt_core.recipe.locate import locate
from tfopt_core.recipe.tree import Node, place_values

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 100

_BOM = b"\xef\xbb\xbf"
_BARE_CR = re.compile(r"\r(?!\n)")
# tomllib takes time quadratic in the parts of a key: 4 s for 16,000 parts, more than an hour for
# 1 MiB. So long keys are refused before tomllib runs.
_LONG_KEY = re.compile(
    r"""(?<![A-Za-z0-9_-])(?:(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+)"""
    rf"{{{MAX_DEPTH}}}"
)
_DEEP_ARRAY = re.compile(rf"(?:\[\s*+){{{MAX_DEPTH}}}")
_LONG_INTEGER = re.compile(r"[0-9][0-9_]{4300,}")
_POSITION = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_MENDS = (
    (re.compile(r"^cannot overwrite a value|^duplicate inline"), "give each key once in a table"),
    (re.compile(r"^cannot declare .* twice"), "merge the two tables, or write [[name]] for a list"),
    (re.compile(r"^expected '=' after a key"), 'write key = value, with text in "quotes"'),
    (re.compile(r"^invalid value"), 'put text in "quotes", and close brackets'),
)


class TomlError(Exception):
    """A file that cannot be read as TOML; `problem` holds place and cause."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(str(problem))


def read_bytes(path: Path) -> bytes:
    """Return at most `MAX_BYTES` + 1 bytes of a file. Raises ValueError with the cause."""
    try:
        with open(path, "rb") as stream:
            return stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise ValueError("there is no such file") from None
    except IsADirectoryError:
        raise ValueError("this is a directory") from None
    except PermissionError:
        raise ValueError("no permission to read it") from None
    except OSError as error:
        raise ValueError(f"it cannot be read: {error.strerror or error}") from None


def parse_toml(data: bytes, file: str) -> Node:
    """Parse the bytes of a file; `file` is its name in messages. Raises `TomlError`."""
    text = _decode(data, file)
    if match := _BARE_CR.search(text):
        raise _error(
            file, text, match.start(), "a bare carriage return", "end lines with LF or CR LF"
        )
    text = text.replace("\r\n", "\n")
    if match := _LONG_KEY.search(text):
        raise _error(file, text, match.start(), f"a key of more than {MAX_DEPTH} parts")
    try:
        parsed = tomllib.loads(text)
    except RecursionError:
        raise _too_deep(file, text) from None
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(file, text, str(error)) from None
    except ValueError:
        # Not a TOMLDecodeError: int() refuses more than 4,300 digits.
        match = _LONG_INTEGER.search(text)
        message = "a number has too many digits" if match else "a value cannot be read"
        raise _error(file, text, match.start() if match else None, message) from None
    if nested_too_deep(parsed):
        raise _too_deep(file, text)
    return place_values(parsed, file, locate(text))


def nested_too_deep(value: Any) -> bool:
    """Return whether data is nested deeper than `MAX_DEPTH`, without recursion."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
        if not below:
            return False
        level = below
    return True


def _decode(data: bytes, file: str) -> str:
    if len(data) > MAX_BYTES:
        raise TomlError(Problem(file, 0, "", "the file is larger than 1 MiB", "is it a recipe?"))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The codec counts from after a byte order mark, an editor from the file's start.
        offset = error.start + (len(_BOM) if data.startswith(_BOM) else 0)
        line = data.count(b"\n", 0, offset) + 1
        message = f"byte {offset} is not UTF-8"
        raise TomlError(Problem(file, line, "", message, "save the file as UTF-8")) from None


def _syntax_error(file: str, text: str, complaint: str) -> TomlError:
    match = _POSITION.search(complaint)
    if match is None:
        return _error(file, text, None, complaint)
    message = complaint[: match.start()]
    message = message[:1].lower() + message[1:]
    mend = next((mend for pattern, mend in _MENDS if pattern.search(message)), "")
    if match[1] is None:
        return _error(file, text, len(text), f"{message} at the end of the file", mend)
    return TomlError(Problem(file, int(match[1]), "", message, mend, column=int(match[2])))


def _too_deep(file: str, text: str) -> TomlError:
    match = _DEEP_ARRAY.search(text)  # the likely cause; nested tables have no line
    message = f"arrays and tables are nested deeper than {MAX_DEPTH} levels"
    return _error(file, text, match.start() if match else None, message)


def _error(file: str, text: str, position: int | None, message: str, mend: str = "") -> TomlError:
    if position is None:
        return TomlError(Problem(file, 0, "", message, mend))
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return TomlError(Problem(file, line, "", message, mend, column=column))
