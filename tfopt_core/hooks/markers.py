"""The two pluggy markers of tfopt, and the type of a value hook. Plugins need no `hookspec`."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

import pluggy

PROJECT = "tfopt"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

Value = TypeVar("Value")
# what a value hook returns as a function: it yields once, is sent a value, and returns the next
ValueHook = Generator[None, Value, Value]
