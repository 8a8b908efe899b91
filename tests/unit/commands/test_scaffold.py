"""`tfopt plugins new`: names that are taken or unfit, and folders that are there already."""

import tomllib
from pathlib import Path

import pytest

from tfopt_core.commands.main import run
from tfopt_core.commands.scaffold import (
    LONGEST_NAME,
    ScaffoldNames,
    check_name,
    files_of,
    write_distribution,
)
from tfopt_core.errors import InputError
from tfopt_core.hooks.installed.discovery import registrations
from tfopt_core.recipe.reading import read_recipe


def test_a_name_is_the_same_name_everywhere():
    names = check_name("loss-watch2", {})
    assert names.distribution == "tfopt-loss-watch2"
    assert names.package == "tfopt_loss_watch2"
    assert names.class_name == "LossWatch2"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("LossWatch", 'a letter first; try "loss-watch"'),
        ("loss_watch", 'try "loss-watch"'),
        ("", 'such as "loss-watch"'),
        ("é", 'such as "loss-watch"'),
        ("x" * (LONGEST_NAME + 1), "choose a shorter one"),
        ("cache", 'a plugin "cache" is installed already (from tfopt'),
        ("core", "would be the package tfopt_core, and there is one"),
        ("none", "would be the class None"),
        ("data-plan", "would be the class DataPlan"),
    ],
)
def test_a_name_that_is_unfit_or_taken_is_refused_with_a_mend(name, said):
    with pytest.raises(InputError) as caught:
        check_name(name, registrations())
    assert said in str(caught.value)


@pytest.mark.promise(29, injected="`plugins new` where something is already")
def test_what_is_there_already_is_left_as_it_is(tmp_path):
    names = ScaffoldNames("loss-watch")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "absent")
    for place in ("full", "file", "link"):
        with pytest.raises(InputError, match="exists already; name another with --into"):
            write_distribution(names, tmp_path / place)
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine.txt"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "full", "link"]


def test_an_empty_folder_and_one_whose_parent_is_missing_are_fine(tmp_path):
    names = ScaffoldNames("loss-watch")
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "empty", tmp_path / "a" / "b"):
        written = {path.relative_to(folder) for path in write_distribution(names, folder)}
        assert written == {place for place, _ in files_of(names)}


def test_a_folder_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"cannot be written: .*; name another with --into"):
        write_distribution(ScaffoldNames("loss-watch"), tmp_path / "file" / "below")


def test_the_command_writes_a_distribution_and_says_what_comes_next(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["plugins", "new", "loss-watch"]) == 0
    said = capsys.readouterr().out
    folder = Path("tfopt-loss-watch")
    assert "tfopt-loss-watch/tfopt_loss_watch/plugin.py\n" in said
    assert "tfopt apply recipe.toml" in said
    data = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    assert data["project"]["name"] == "tfopt-loss-watch"
    assert data["project"]["dependencies"] == ["tfopt>=0.1,<0.2"]
    entry = data["project"]["entry-points"]["tfopt.plugins"]
    assert entry == {"loss-watch": "tfopt_loss_watch.plugin:LossWatch"}
    recipe = read_recipe(folder / "recipe.toml").require()
    assert [plugin.use for plugin in recipe.plugins] == ["loss-watch"]
    assert (folder / "tfopt_loss_watch" / "py.typed").is_file()
    workflow = (folder / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    assert "- run: tfopt plugins check loss-watch recipe.toml\n" in workflow
    assert run(["plugins", "new", "loss-watch"]) == 2
    assert run(["plugins", "new", "loss-watch", "--into", "other"]) == 0
    assert Path("other/README.md").read_text() == (folder / "README.md").read_text()
