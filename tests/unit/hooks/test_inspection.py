"""Each plugin is imported within a time limit of its own."""

from __future__ import annotations

from typing import Literal

import attrs
import pytest
from attrs import validators
from support.real_process import make_distribution

from tfopt_core.hooks.installed import inspection
from tfopt_core.plugins import Plugin, hookimpl, setting

SLOW = '''
    import time
    import attrs
    from tfopt_core.plugins import Plugin, hookimpl
    time.sleep({seconds})

    @attrs.frozen(kw_only=True, eq=False)
    class Slow(Plugin):
        """Is slow to import."""

        @hookimpl
        def on_epoch_end(self):
            pass
'''


@pytest.mark.thorough
def test_only_the_plugin_that_hangs_gets_the_time_limit_as_its_error(tmp_path, monkeypatch):
    names = ("first-slow", "second-slow", "third-hangs", "zero")  # in the order of the imports
    modules = dict(zip(names, ("one", "two", "three", "four"), strict=True))
    seconds = dict(zip(names, (2.6, 2.6, 600, 0), strict=True))
    make_distribution(
        tmp_path,
        "slow-dist",
        {name: f"{modules[name]}:Slow" for name in names},
        **{modules[name]: SLOW.format(seconds=seconds[name]) for name in names},
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(inspection, "TIME_LIMIT_SECONDS", 5.0)
    errors = {info.name: info.error for info in inspection.inspect_plugins(names)}
    assert errors == {
        "first-slow": None,
        "second-slow": None,
        "third-hangs": "took longer than 5 s while it was imported",
        "zero": None,
    }


def test_what_a_setting_takes_is_said_with_its_bounds():
    @attrs.frozen(kw_only=True, eq=False)
    class Bounded(Plugin):
        """Takes numbers."""

        size: int | Literal["auto"] = setting(default=1, validator=validators.ge(1), help="A size.")
        share: float = setting(
            default=0.5, validator=[validators.gt(0), validators.le(1)], help="A share."
        )

        @hookimpl
        def on_epoch_end(self) -> None: ...

    described = inspection.describe_plugin("bounded", Bounded)
    assert [one.type for one in described.settings] == [
        'a whole number of at least 1 or "auto"',
        "a number above 0 and at most 1",
    ]
