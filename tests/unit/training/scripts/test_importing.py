"""Acting when a module has been imported."""

import importlib.util
import sys
import textwrap

import pytest

from tfopt_core.training.scripts.importing import WhenImported


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module that can be imported, and is not."""
    (tmp_path / "tfopt_probe_module.py").write_text(textwrap.dedent("VALUE = 1"))
    monkeypatch.syspath_prepend(tmp_path)
    yield "tfopt_probe_module"
    sys.modules.pop("tfopt_probe_module", None)


def test_acts_once_when_the_module_is_there_whole(module):
    seen = []

    def value():
        return getattr(sys.modules[module], "VALUE", None)

    with WhenImported({module: lambda: seen.append(value())}, lambda: seen.append(value())):
        assert seen == []
        __import__(module)
        __import__(module)
    assert seen == [None, 1]
    with WhenImported({module: lambda: seen.append(value())}, lambda: seen.append("before")):
        assert seen.pop() == 1


def test_whoever_only_asks_for_the_module_sets_nothing_off(module):
    seen = []
    with WhenImported({module: lambda: seen.append(1)}):
        assert importlib.util.find_spec(module) is not None
        assert seen == []
        __import__(module)
    assert seen == [1]


def test_acts_at_once_where_it_is_imported_already(module):
    __import__(module)
    seen = []
    with WhenImported({module: lambda: seen.append(1)}):
        assert seen == [1]


def test_what_the_action_raises_passes_through_the_import(module):
    def fail():
        raise RuntimeError("no such backend")

    with WhenImported({module: fail}), pytest.raises(RuntimeError, match="no such backend"):
        __import__(module)


def test_afterwards_imports_are_as_they_were(module):
    before = list(sys.meta_path)
    with WhenImported({module: lambda: None}):
        assert sys.meta_path != before
    assert sys.meta_path == before
