"""What is refused of a recipe that says that its script trains in a loop of its own."""

from pathlib import Path

import pytest

from tfopt_core.commands.check import check_recipe
from tfopt_core.errors import RecipeError


def recipe(folder: Path, *lines: str) -> Path:
    (folder / "train.py").touch()
    path = folder / "recipe.toml"
    path.write_text("\n".join(["[workload]", 'script = "train.py"', 'loop = "own"', *lines, ""]))
    return path


def test_a_stack_of_which_something_reaches_the_loop_is_accepted(tmp_path):
    path = recipe(tmp_path, "[[plugins]]", 'use = "xla"', "[[plugins]]", 'use = "prefetch"')
    checked = check_recipe(path)
    assert checked.recipe.workload.has_own_loop
    assert [one.name for one in checked.plugins] == ["xla", "prefetch"]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["[[plugins]]", 'use = "xla"'],
         'recipe.toml:4: plugins[0]: "xla": it works through configure_training'),
        (["[[plugins]]", 'use = "prefetch"', "[measure]",
          'target = { metric = "loss", at_most = 1 }'],
         "recipe.toml:7: measure.target: a training loop of the script's own reports no metric"),
        (["[[plugins]]", 'use = "prefetch"', "[measure]", 'quality = { metric = "loss" }'],
         "recipe.toml:7: measure.quality: a training loop of the script's own reports no metric"),
    ],
    ids=["nothing reaches it", "target", "quality"],
)  # fmt: skip
def test_what_such_a_loop_cannot_have_is_named_with_its_line(tmp_path, lines, said):
    with pytest.raises(RecipeError) as refused:
        check_recipe(recipe(tmp_path, *lines))
    assert said in str(refused.value)
