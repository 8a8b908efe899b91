"""The two pluggy markers of tfopt. Plugins need no `hookspec`."""

from __future__ import annotations

import pluggy

PROJECT = "tfopt"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
