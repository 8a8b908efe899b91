"""`tfopt init` writes a recipe that can be trained, and measures nothing."""

from contextlib import chdir

import pytest
from support.forked_command import runs_forked
from support.real_process import TINY, make_project

from tfopt_core.commands.check import check_recipe
from tfopt_core.commands.first_contact import look_alone
from tfopt_core.commands.options import ApplyOptions
from tfopt_core.diagnosis.draft import NothingToMeasure, is_unchanged
from tfopt_core.hooks.plugin_class import EXACT_EQUIVALENCES, equivalence_of
from tfopt_core.report.style.console import make_console


@pytest.mark.thorough
@pytest.mark.slow
def test_the_recipe_of_a_factory_has_what_was_tried(tmp_path):
    project = make_project(tmp_path, "", tiny=TINY.format(says="pass"))
    # the plugin that costs least is written even where none saves time
    options = ApplyOptions(target="tiny.py:build", measure_anyway=True)
    with chdir(project), runs_forked():
        found = look_alone(options, make_console(quiet=True))
        assert not isinstance(found, NothingToMeasure)
        screened, path = found
        assert path == project / "tiny.tfopt.toml"
        checked = check_recipe(path, compares=False)
    assert checked.recipe.workload.factory == "tiny.py:build"
    assert screened.extended
    assert [one.name for one in checked.plugins] == [one.plugin for one in screened.stack]
    # what is not exact is a comment
    assert {equivalence_of(one.name, one.plugin) for one in checked.plugins} <= set(
        EXACT_EQUIVALENCES
    )
    assert is_unchanged(path.read_text())
    assert not (project / ".tfopt").exists()
