"""The commands that look and list: exit codes and what must be said."""

import sys

import pytest
from support.in_process import tfopt_here
from support.real_process import TINY, environment, make_project, run, tfopt, tfopt_anew

from tfopt_core import __version__
from tfopt_core.hooks.installed.discovery import registrations
from tfopt_core.recipe.shipped import shipped_recipes

PLAN = """
    name = "planned"
    [workload]
    factory = "tiny.py:build"
    epochs = 2
    batch_size = 16
    [[plugins]]
    use = "mixed-precision"
    [[plugins]]
    use = "prefetch"
    [[plugins]]
    use = "l2"
"""


def test_plan_shows_each_plugin_and_the_data_before_and_after(tmp_path):
    project = make_project(tmp_path, PLAN, tiny=TINY.format(says="pass"))
    done = tfopt("plan", "recipe.toml", cwd=project)
    assert done.code == 0, done.err
    flowing = " ".join(done.out.split())
    assert "1. mixed-precision" in flowing
    assert "2. prefetch" in flowing
    assert "policy: auto -> " in flowing
    assert "3 trainable parameters" in flowing
    assert "2 epochs of 3 steps, batch size 16" in flowing
    assert "source: arrays, 40 examples" in flowing
    assert "prefetch: AUTOTUNE" in flowing
    assert "nothing measured" in flowing
    assert '`tfopt apply` needs a target: "l2" changes the training algorithm' in flowing
    assert "\x1b" not in done.out
    assert max(len(line) for line in done.out.splitlines()) <= 80
    assert not (project / ".tfopt").exists()


@pytest.mark.parametrize(
    ("command", "names"), [("recipes", shipped_recipes), ("plugins", registrations)]
)
def test_every_one_that_there_is_is_listed_with_a_line(command, names, tmp_path):
    done = tfopt_here(command, cwd=tmp_path)
    assert done.code == 0, done.err
    listed = {line.split()[0] for line in done.out.splitlines() if line.strip()}
    assert set(names()) <= listed
    assert list(tmp_path.iterdir()) == []


def test_doctor_finds_a_keras_backend_that_is_not_tensorflow(tmp_path):
    """Everything else is looked at as ever; to import TensorFlow in a new process takes seconds."""
    done = tfopt("doctor", cwd=tmp_path, env=environment(KERAS_BACKEND="jax"))
    assert done.code == 1
    flowing = " ".join(done.out.split())
    assert 'KERAS_BACKEND is "jax"' in flowing
    for subject in ("Python", "CPU", "GPUs", "memory", "disk", "data: flights"):
        assert subject in flowing


def test_the_module_is_the_same_program(tmp_path):
    module = run([sys.executable, "-m", "tfopt_core", "--version"], cwd=tmp_path)
    script = tfopt_anew("--version", cwd=tmp_path)
    assert module == script
    assert (module.code, module.out) == (0, f"tfopt {__version__}\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["aply"], "No such command 'aply'"),
        (["apply", "x.toml", "--pairs", "many"], "--pairs"),
        (["recipes", "copy", "quickstar"], 'did you mean "quickstart"?'),
    ],
)
def test_an_unknown_command_option_or_recipe_is_bad_input(words, said, tmp_path):
    done = tfopt_here(*words, cwd=tmp_path)
    assert done.code == 2
    assert said in done.err
