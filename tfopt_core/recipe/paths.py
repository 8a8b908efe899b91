"""Convert key paths: `("plugins", 1, "size")` and the written form `plugins[1].size`."""

from __future__ import annotations

import json
import re

KeyPath = tuple[str | int, ...]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_PART = re.compile(r'\[(?P<index>\d+)\]|(?P<quoted>"(?:\\.|[^"\\])*")|(?P<word>[^.\[\]"]+)')


def join_path(prefix: str, rest: KeyPath) -> str:
    """Return `rest` written after `prefix`: keys after dots (quoted if needed), indices in []."""
    for part in rest:
        if isinstance(part, int):
            prefix += f"[{part}]"
        else:
            word = part if _BARE_KEY.fullmatch(part) else _quoted(part)
            prefix = f"{prefix}.{word}" if prefix else word
    return prefix


def _quoted(key: str) -> str:
    # JSON's escapes are TOML's too, but JSON may hold a delete sign as it is
    return json.dumps(key, ensure_ascii=False).replace("\x7f", "\\u007f")


def split_path(path: str) -> KeyPath:
    """Return the key path of a written path, the inverse of `join_path("", ...)`."""
    parts: list[str | int] = []
    for match in _PART.finditer(path):
        if match["index"]:
            parts.append(int(match["index"]))
        else:
            parts.append(json.loads(match["quoted"]) if match["quoted"] else match["word"])
    return tuple(parts)
