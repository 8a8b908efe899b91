"""A script, a module or a factory in place of a recipe."""

import pytest

from tfopt_core.commands.check import (
    check_as_recipe,
    check_script,
    factory_of,
    for_recipe_in,
    script_of,
)
from tfopt_core.errors import InputError, RecipeError
from tfopt_core.recipe.model import WorkloadSpec


def test_a_script_is_known_by_its_end_and_a_module_by_an_option():
    assert script_of("my train.py") == WorkloadSpec(script="my train.py")
    assert script_of("package.train", module=True) == WorkloadSpec(module="package.train")
    for recipe in ("recipe.toml", "quickstart", "", "two words", "python-recipe"):
        assert script_of(recipe) is None


@pytest.mark.parametrize("module", [False, True])
@pytest.mark.parametrize(
    "target",
    ["python", "python3.11", "python train.py --lr 0.1", "python -m package.train",
     "LR=0.1 python train.py", "/usr/bin/python3 train.py", "train.py --lr 0.1"],
)  # fmt: skip
def test_a_command_is_refused_with_what_to_type(target, module):
    with pytest.raises(InputError) as error:
        script_of(target, module=module)
    assert "write tfopt apply train.py -- ARGUMENTS, or tfopt apply -m " in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_is_a_file_whatever_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("python my.toml", "train.py of me.toml"):
        (tmp_path / name).touch()
        assert script_of(name) is None


def test_a_script_is_named_from_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    spec = check_script(WorkloadSpec(script=str(tmp_path / "train.py")))
    assert spec.script == "train.py"
    with pytest.raises(InputError, match=r'"trian\.py" is not there; did you mean "train\.py"'):
        check_script(WorkloadSpec(script="trian.py"))
    with pytest.raises(InputError, match=r'the script "\." is a folder'):
        check_script(WorkloadSpec(script="."))
    with pytest.raises(InputError, match='there is no module "gone"'):
        check_script(WorkloadSpec(module="gone.train"))


def test_a_factory_is_a_place_with_a_callable(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "big.py").write_text("def build():\n    raise SystemExit\n")
    for place in ("jobs/big.py:build", "jobs.big:build"):
        spec = factory_of(place)
        assert (spec.factory, spec.stem) == (place, "big")
    for place, said in (
        ("train", "is no script and no factory"), ("gone:build", 'there is no module "gone"'),
        ("gone.py:build", 'there is no file "'),
    ):  # fmt: skip
        with pytest.raises(InputError, match=said):
            factory_of(place)


def test_a_recipe_that_lies_elsewhere_names_the_same_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for spec in (WorkloadSpec(script="train.py"), WorkloadSpec(factory="a.py:build")):
        assert for_recipe_in(tmp_path, spec) == spec
    moved = for_recipe_in(tmp_path / "sub", WorkloadSpec(script="train.py"))
    assert (moved.script, moved.folder) == (str(tmp_path / "train.py"), str(tmp_path))
    moved = for_recipe_in(tmp_path / "sub", WorkloadSpec(module="train"))
    assert (moved.module, moved.folder) == ("train", str(tmp_path))
    moved = for_recipe_in(tmp_path / "sub", WorkloadSpec(factory="a.py:build"))
    assert moved == WorkloadSpec(factory=f"{tmp_path / 'a.py'}:build")


def test_the_recipe_of_a_script_lies_where_the_user_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    spec = WorkloadSpec(script="train.py")
    checked = check_as_recipe(spec, ['workload.args=["--lr", "1"]'])
    assert checked.recipe.workload.args == ("--lr", "1")
    assert checked.recipe.directory == checked.recipe.working_directory == tmp_path
    assert checked.recipe.name == "train"
    assert list(tmp_path.iterdir()) == [tmp_path / "train.py"]
    # a problem that a run finds later names the script
    assert str(checked.reading.problem("workload.script", "no fit")) == (
        "train.py: workload.script: no fit"
    )
    with pytest.raises(RecipeError, match=r"--set workload.max_epoch=2"):
        check_as_recipe(spec, ["workload.max_epoch=2"])
