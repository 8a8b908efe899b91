"""What `tfopt init` writes trains as it stands, and nothing is measured for it."""

from __future__ import annotations

import pytest
from support.forked_command import HASTY
from support.real_process import TINY, make_project, tfopt

from tfopt_core.app.check import check_recipe
from tfopt_core.hooks.card import EXACT_MATHS, math_of


@pytest.mark.slow
def test_the_recipe_of_a_factory_has_the_exact_plugins_that_were_tried(tmp_path):
    # a step of this model is little else than being started
    project = make_project(tmp_path, "", tiny=TINY.format(says="pass"))
    done = tfopt("init", "tiny.py:build", cwd=project, before=HASTY)
    assert done.code == 0, done.out + done.err
    assert "tfopt apply tiny.tfopt.toml    measure it" in done.out
    checked = check_recipe(project / "tiny.tfopt.toml")
    assert checked.recipe.workload.factory == "tiny.py:build"
    assert any("dispatch" in type(one.plugin).targets for one in checked.plugins)
    # what may round otherwise is a comment
    assert {math_of(one.name, one.plugin) for one in checked.plugins} <= set(EXACT_MATHS)
    assert sorted(path.name for path in project.glob("*.toml")) == [
        "pyproject.toml", "recipe.toml", "tiny.tfopt.toml",
    ]  # fmt: skip
    assert not (project / ".tfopt" / "runs.sqlite").exists()
    trained = tfopt("train", "tiny.tfopt.toml", "--set", "workload.epochs=2", cwd=project)
    assert trained.code == 0, trained.out + trained.err
