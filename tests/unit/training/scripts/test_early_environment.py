"""What a script sets before it imports TensorFlow."""

from __future__ import annotations

import pytest

from tfopt_core.training.scripts.importing import EarlyEnvironment


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
