"""The two pluggy markers of tfopt. Plugin authors need only `hookimpl`."""

from __future__ import annotations

import pluggy

PROJECT = "tfopt"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
