"""What a target means, and what a shipped recipe says of itself."""

from pathlib import Path

from tfopt_core.recipe.reading import read_recipe
from tfopt_core.recipe.shipped import find_recipe, shipped_recipes, summary

MINIMAL = '[workload]\nuse = "mnist"\n'


def test_a_name_means_the_shipped_recipe(folder):
    assert find_recipe("quickstart") == shipped_recipes()["quickstart"]
    assert read_recipe("quickstart").require().name == "quickstart"


def test_a_file_wins_over_a_shipped_recipe_and_a_folder_does_not(folder):
    (folder / "quickstart").mkdir()
    assert find_recipe("quickstart") == shipped_recipes()["quickstart"]
    (folder / "quickstart").rmdir()
    (folder / "quickstart").write_text(MINIMAL)
    assert find_recipe("quickstart") == Path("quickstart")


def test_a_path_object_means_a_file_only(folder):
    (problem,) = read_recipe(Path("quickstart")).problems
    assert str(problem) == "quickstart: there is no such file"


def test_what_is_neither_gets_a_suggestion(folder):
    (folder / "mine.toml").write_text(MINIMAL)
    for target, meant in [("quikstart", "quickstart"), ("mien.toml", "mine.toml")]:
        assert find_recipe(target) is None
        (problem,) = read_recipe(target, ["measure.pairs=4"]).problems
        assert str(problem) == (
            f"{target}: there is no such file and no shipped recipe of this name; "
            f'did you mean "{meant}"?'
        )


def test_this_checkout_s_recipes_are_the_shipped_ones():
    checkout = Path(__file__).parents[3] / "recipes"
    assert set(shipped_recipes().values()) == set(checkout.glob("*.toml"))


def test_the_first_comment_says_when_to_use_a_recipe(tmp_path):
    path = tmp_path / "a.toml"
    for text, said in [
        (
            "#:schema ./x.json\n# For small\n#  models.\n\n# Other.\nname = 'a'\n",
            "For small models.",
        ),
        ("\ufeff\n# One.\n#\nname = 'a' # no\n", "One."),
        ("name = 'a'\n# Late.\n", ""),
        ("", ""),
    ]:
        path.write_text(text, encoding="utf-8")
        assert summary(path) == said
