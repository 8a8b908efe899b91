"""What a measurement depends on is noticed when it changes, and named."""

import attrs
import pytest
from support.measure_runs import make_request

from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.measurement.fingerprint import differences, fingerprint, recipe_differences
from tfopt_core.recipe.model import Recipe, WorkloadSpec
from tfopt_core.testing import make_machine


@pytest.fixture
def request_of(tmp_path):
    (tmp_path / "train.py").write_text("def build(): ...\n")
    (tmp_path / "helper.py").write_text("x = 1\n")

    def make(**changes):
        spec = WorkloadSpec(factory="train.py:build")
        recipe = Recipe(name="r", workload=spec, path=tmp_path / "recipe.toml")
        environment = {"PATH": "/bin", "TOKEN": "s3cr3t"}
        plain = {"recipe": recipe, "folder": tmp_path / "runs", "environment": environment}
        return make_request(**{**plain, **changes})

    return make


def test_nothing_changed_is_no_difference(request_of):
    assert differences(fingerprint(request_of()), fingerprint(request_of())) == ()


@pytest.mark.parametrize("name", ["train.py", "helper.py"])
def test_a_byte_of_the_factory_or_of_its_neighbour_is_named(request_of, tmp_path, name):
    before = fingerprint(request_of())
    with (tmp_path / name).open("a") as file:
        file.write("#")
    assert differences(before, fingerprint(request_of())) == (f'"{tmp_path / name}" changed',)


def test_another_machine_and_variable_are_shown_with_both_values(request_of):
    before = fingerprint(request_of())
    machine = attrs.evolve(make_machine(), cpu_count=make_machine().cpu_count + 1)
    environment = {"PATH": "/usr/bin", "XLA_FLAGS": "--x"}
    said = differences(before, fingerprint(request_of(machine=machine, environment=environment)))
    assert any(line.startswith("CPU was ") for line in said)
    assert "environment variable XLA_FLAGS was absent, is --x" in said
    assert len(said) == 2  # PATH and TOKEN are not recorded


def test_a_secret_is_in_no_fingerprint(request_of):
    assert "s3cr3t" not in str(fingerprint(request_of()))


def test_the_code_of_each_plugin_counts(request_of, tmp_path, monkeypatch):
    (tmp_path / "some_plugin.py").write_text("class P: pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import some_plugin  # type: ignore[import-not-found]

    stacked = (StackedPlugin("p", some_plugin.P()),)
    before = fingerprint(request_of(plugins=stacked))
    (tmp_path / "some_plugin.py").write_text("class P: x = 1\n")
    said = differences(before, fingerprint(request_of(plugins=stacked)))
    assert 'code of plugin "p" changed' in said


def test_a_recipe_that_says_something_else_is_named_by_its_keys():
    before = {"name": "a", "plugins": [{"use": "cache"}], "measure": {"pairs": 4}}
    now = {"name": "b", "plugins": [{"use": "cache", "storage": "disk"}], "measure": {"pairs": 8}}
    assert recipe_differences(before, before) == ()
    assert set(recipe_differences(before, now)) == {
        "recipe: measure.pairs was 4, is 8",
        "recipe: plugins[0].storage was not set, is 'disk'",
    }
