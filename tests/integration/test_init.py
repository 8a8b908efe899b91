"""What `tfopt init` writes trains as it stands."""

from __future__ import annotations

import pytest
from support.forked_command import HASTY
from support.real_process import TINY, make_project, tfopt

from tfopt_core.app.check import check_recipe
from tfopt_core.hooks.card import EXACT_MATHS, math_of


@pytest.mark.slow
def test_the_recipe_of_a_factory_trains_with_its_stack_in_effect(tmp_path):
    project = make_project(tmp_path, "", tiny=TINY.format(says="pass"))
    done = tfopt("init", "tiny.py:build", cwd=project)
    assert done.code == 0, done.err
    trained = tfopt("train", "tiny.tfopt.toml", "--set", "workload.epochs=2", cwd=project)
    assert trained.code == 0, trained.out + trained.err
    flowing = " ".join(trained.out.split())
    assert "prefetch applied: train: prefetch: AUTOTUNE" in flowing


@pytest.mark.slow
@pytest.mark.thorough
def test_a_diagnosis_chooses_the_stack(tmp_path):
    # a step of this model is little else than being started
    project = make_project(tmp_path, "", tiny=TINY.format(says="pass"))
    done = tfopt("init", "tiny.py:build", "--diagnose", cwd=project, before=HASTY)
    assert done.code == 0, done.out + done.err
    plugins = check_recipe(project / "tiny.tfopt.toml").plugins
    assert any("dispatch" in type(one.plugin).targets for one in plugins)
    # what may round otherwise is there, and off
    assert {math_of(one.name, one.plugin) for one in plugins} <= set(EXACT_MATHS)
    assert sorted(path.name for path in project.glob("*.toml")) == [
        "pyproject.toml", "recipe.toml", "tiny.tfopt.toml",
    ]  # fmt: skip
