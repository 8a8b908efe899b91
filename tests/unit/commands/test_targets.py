"""A recipe, script, module or factory as a target, and what the options ask of it."""

import pytest
from support.real_process import make_project

from tfopt_core.commands import first_contact
from tfopt_core.commands.check import (
    check_recipe,
    check_script,
    factory_of,
    for_recipe_in,
    recipe_of_script,
    script_of,
)
from tfopt_core.commands.first_contact import check_contact, look_at
from tfopt_core.commands.main import run
from tfopt_core.commands.options import ApplyOptions
from tfopt_core.commands.request import cluster_of
from tfopt_core.commands.training import make_cluster_request
from tfopt_core.errors import InputError, RecipeError
from tfopt_core.recipe.model import WorkloadSpec
from tfopt_core.report.style.console import make_console
from tfopt_core.workers.supervise import Limits


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
    checked = check_recipe(recipe_of_script(spec), ['workload.args=["--lr", "1"]'], compares=False)
    assert checked.recipe.workload.args == ("--lr", "1")
    assert checked.recipe.directory == checked.recipe.working_directory == tmp_path
    assert checked.recipe.name == "train"
    assert list(tmp_path.iterdir()) == [tmp_path / "train.py"]
    # a problem that a run finds later names the script
    assert str(checked.reading.problem("workload.script", "no fit")) == (
        "train.py: workload.script: no fit"
    )
    with pytest.raises(RecipeError, match=r"--set workload.max_epoch=2"):
        check_recipe(recipe_of_script(spec), ["workload.max_epoch=2"], compares=False)


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({}, {}),
        ({"budget": "5m"}, {"budget": "5m"}),
        ({"overrides": ("measure.budget=20m",)}, {"budget": "20m"}),
        ({"overrides": ("measure.pairs=6",)}, {"pairs": 6}),
        ({"overrides": ('measure={pairs=6, seconds="whole"}',)}, {"pairs": 6, "seconds": "whole"}),
        ({"full": True}, {"seconds": "whole"}),
        ({"overrides": ("measure.objective=memory", "plugins.cache.pairs=6", "no path")}, {}),
    ],
)
def test_how_long_measuring_may_take_is_asked_by_an_option_or_by_set(options, asked):
    assert ApplyOptions(target="train.py", **options).measure_asked() == asked


def test_seconds_of_a_whole_training_are_refused():
    options = ApplyOptions(target="recipe.toml", seconds=8.0, full=True)
    for asked in (options.measure_asked, options.changes):
        with pytest.raises(InputError, match="leave --full or --seconds out"):
            asked()


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"pairs": 4, "overrides": ("measure.budget=5m",)}, "budget"),
        ({"pairs": 2}, "at least 4, got 2"),
        ({"seconds": 0.0}, "above 0"),
    ],
)
def test_what_is_asked_of_a_measurement_is_checked_before_a_look(asked, why, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    options, spec = ApplyOptions(target="train.py", **asked), WorkloadSpec(script="train.py")
    monkeypatch.setattr(first_contact, "diagnose", lambda *_, **__: pytest.fail("it looked"))
    with pytest.raises(InputError, match=why):
        look_at(options, check_contact(options, spec), Limits(), make_console(quiet=True))


def recipe(folder, *lines):
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
