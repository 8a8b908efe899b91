"""Every plugin that ships has a plain form: a value that core writes, its own `export`, or a
stated reason why not."""

from __future__ import annotations

import pytest

from tfopt_core.hooks.contract import implementations
from tfopt_core.hooks.installed.discovery import registrations

OURS = {n: f[0] for n, f in registrations().items() if f[0].distribution == "tfopt"}
# What core cannot write down by itself.
OWN_AFFAIRS = {"build_strategy", "on_epoch_end", "wrap_model"}


@pytest.mark.parametrize("name", OURS)
def test_a_plugin_that_does_more_than_return_values_says_how_it_is_written(name: str):
    plugin_class = OURS[name].load()
    hooks = set(implementations(plugin_class))
    assert not hooks & OWN_AFFAIRS or hasattr(plugin_class, "export")
