"""Acting when a module has been imported, and what a script sets before."""

import importlib.util
import sys
import textwrap

import pytest

from tfopt_core.scripts.importing import EarlyEnvironment, WhenImported


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


@pytest.fixture
def early(monkeypatch):
    monkeypatch.setenv("TF_OLD", "1")
    return EarlyEnvironment()  # pytest changes the environment before the test itself


@pytest.mark.parametrize(
    ("sets", "changed"),
    [
        ({}, ()),
        ({"TF_CPP_MIN_LOG_LEVEL": "2", "KERAS_BACKEND": "tensorflow"}, ()),
        ({"KERAS_BACKEND": "jax"}, ("KERAS_BACKEND",)),
        ({"TF_NEW": "1", "TF_OLD": "2"}, ("TF_NEW", "TF_OLD")),
        ({"TF_OLD": None}, ("TF_OLD",)),
    ],
)
def test_what_a_script_changes_is_named_unless_it_changes_no_training(
    early, sets, changed, monkeypatch
):
    early.begin()
    for name, value in sets.items():
        if value is None:
            monkeypatch.delenv(name)
        else:
            monkeypatch.setenv(name, value)
    early.note()
    assert early.changed == changed


def test_what_a_library_sets_while_it_is_imported_does_not_count(early, monkeypatch):
    early.begin()
    early.note()  # Keras is about to be imported
    monkeypatch.setenv("TF2_BEHAVIOR", "1")
    early.note()  # and imports TensorFlow
    early.begin()
    early.note()
    assert early.changed == ()


def test_what_is_set_between_the_two_imports_counts(early, monkeypatch):
    early.begin()
    early.note()
    early.begin()
    monkeypatch.setenv("KERAS_HOME", "/elsewhere")
    early.note()
    assert early.changed == ("KERAS_HOME",)
