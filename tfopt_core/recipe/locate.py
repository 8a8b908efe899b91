"""Find the line of every key in a TOML text.

`tomllib` and `tomlkit` give no position of keys, which messages need. The locator reads only text
that `tomllib` has accepted, so it checks nothing; tests compare it with `tomllib`.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right

from tfopt_core.recipe.paths import KeyPath

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
# A multi-line string may end in up to five quotes, of which the last three close it.
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?:"{0,2})'
    r"|'''.*?'''(?:'{0,2})"
    r'|"(?:\\.|[^"\\])*"'
    r"|'[^']*'",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\n]*")


def locate(text: str) -> dict[KeyPath, int]:
    """Map the path of every key and array element of a valid TOML text to its 1-based line.

    A table's line is that of its first mention, an array element's that of its first character.
    """
    return _Locator(text).run()


class _Locator:
    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.lines: dict[KeyPath, int] = {}
        self._table_arrays: dict[KeyPath, int] = {}  # path -> number of [[elements]] so far
        self._newlines = [match.start() for match in re.finditer("\n", text)]

    def run(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        while True:
            self._skip(_BLANK)
            if self.position >= len(self.text):
                return self.lines
            if self._take("[["):
                table = self._header(of_array=True)
            elif self._take("["):
                table = self._header(of_array=False)
            else:
                self._pair(table)

    def _header(self, *, of_array: bool) -> KeyPath:
        line = self._line()
        path: KeyPath = ()
        keys = self._dotted_key()
        for key in keys[:-1]:
            path = self._enter((*path, key), line)
        path = (*path, keys[-1])
        self._take("]]" if of_array else "]")
        if not of_array:
            return self._enter(path, line)
        self.lines.setdefault(path, line)
        index = self._table_arrays.get(path, 0)
        self._table_arrays[path] = index + 1
        self.lines[*path, index] = line
        return (*path, index)

    def _enter(self, path: KeyPath, line: int) -> KeyPath:
        """Record a table of a header; the name of an array of tables means its last element."""
        self.lines.setdefault(path, line)
        if path in self._table_arrays:
            return (*path, self._table_arrays[path] - 1)
        return path

    def _pair(self, table: KeyPath) -> None:
        line = self._line()
        path = table
        for key in self._dotted_key():
            path = (*path, key)
            self.lines.setdefault(path, line)
        self._take("=")
        self._skip(_SPACE)
        self._value(path)

    def _value(self, path: KeyPath) -> None:
        if self._take("["):
            index = 0
            while self._another("]"):
                self.lines[*path, index] = self._line()
                self._value((*path, index))
                index += 1
        elif self._take("{"):
            while self._another("}"):
                self._pair(path)
        elif self.text[self.position] in "\"'":
            self._skip(_STRING)
        else:
            self._skip(_SCALAR)

    def _another(self, closing: str) -> bool:
        """Move to the next element of an array or inline table; False once it is closed."""
        self._skip(_BLANK)
        if self._take(","):
            self._skip(_BLANK)
        return not self._take(closing)

    def _dotted_key(self) -> list[str]:
        keys = []
        while True:
            self._skip(_SPACE)
            if self.text[self.position] in "\"'":
                quoted = self._skip(_STRING)
                keys.append(str(tomllib.loads(f"key = {quoted}")["key"]))
            else:
                keys.append(self._skip(_BARE_KEY))
            self._skip(_SPACE)
            if not self._take("."):
                return keys

    def _skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.position)
        assert match is not None, "tomllib accepted what the locator cannot follow"
        self.position = match.end()
        return match[0]

    def _take(self, word: str) -> bool:
        taken = self.text.startswith(word, self.position)
        if taken:
            self.position += len(word)
        return taken

    def _line(self) -> int:
        return bisect_right(self._newlines, self.position - 1) + 1
