"""What `tfopt launch` asks of a recipe, of its numbers and of the environment."""

from __future__ import annotations

import pytest
from support.real_process import make_project

from tfopt_core.commands.main import run
from tfopt_core.commands.request import cluster_of
from tfopt_core.commands.training import make_cluster_request
from tfopt_core.errors import InputError, RecipeError

RECIPE = """
    name = "r"
    [workload]
    factory = "w.py:build"
    [[plugins]]
    use = "prefetch"
    [[plugins]]
    use = "multi-worker"
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    for name in ("TF_CONFIG", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    return make_project(tmp_path / "project", RECIPE, w="build = None") / "recipe.toml"


def asked(recipe, workers=None, parameter_servers=None):
    return make_cluster_request(
        str(recipe), [], workers=workers, parameter_servers=parameter_servers
    )


def test_the_recipe_says_how_many_unless_the_command_does(project):
    assert cluster_of(asked(project)).workers == 2
    assert cluster_of(asked(project, workers=5)).workers == 5


def test_parameter_servers_are_set_on_the_plugin_that_has_them(project):
    project.write_text(project.read_text().replace("multi-worker", "parameter-server"))
    options = cluster_of(asked(project, workers=3, parameter_servers=2))
    assert (options.workers, options.parameter_servers) == (3, 2)


def test_a_plugin_that_knows_no_parameter_servers_says_so(project):
    with pytest.raises(RecipeError, match="parameter_servers"):
        asked(project, parameter_servers=1)


def test_no_workers_at_all_are_an_error(project):
    with pytest.raises(RecipeError, match="workers"):
        asked(project, workers=0)


def test_a_stack_in_one_process_cannot_be_launched(project):
    project.write_text(project.read_text().replace("multi-worker", "one-device"))
    with pytest.raises(InputError, match='"launch" needs a plugin'):
        asked(project)


@pytest.mark.parametrize("name", ["TF_CONFIG", "SLURM_PROCID"])
@pytest.mark.parametrize("command", ["launch", "apply"])
def test_within_a_cluster_no_other_is_started(project, monkeypatch, capsys, name, command):
    monkeypatch.setenv(name, "0")
    assert run([command, str(project)]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"{name} is set, and `tfopt {command}` starts all workers on this machine" in said
