"""No recipe, link or file leads tfopt elsewhere, and none takes a library's place."""

import os
import pickle
import re
import sys
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import attrs
import pytest
from support.in_process import tfopt_here
from support.real_process import TFOPT, make_project, python, run, tfopt, tfopt_anew, tiny_project

from tfopt_core.commands.check import check_recipe
from tfopt_core.commands.request import RESULTS, SEARCHES, make_request, temporary_request
from tfopt_core.commands.training import checkpoints_of
from tfopt_core.hooks.installed.discovery import registrations
from tfopt_core.recipe.model import MeasureSpec, Recipe, WorkloadSpec
from tfopt_core.store.database import store_path
from tfopt_core.workers.child import LIBRARIES

ROOT = Path(__file__).parents[2]

# Words in the name of a setting by which a plugin could be told where to write.
PLACES = re.compile(r"path|folder|file|directory|(^|_)dir|output|(^|_)log(_|$)")


def link_results(project: Path, target: Path) -> None:
    target.mkdir()
    (project / RESULTS).symlink_to(target, target_is_directory=True)


@pytest.mark.promise(28, injected="a .tfopt that is a link to somebody's folder")
def test_a_link_out_of_the_project_to_files_of_others_is_refused(tmp_path):
    project, home = tiny_project(tmp_path / "project"), tmp_path / "home"
    link_results(project, home)
    (home / "thesis.tex").write_text("mine")
    for command in (["apply", "recipe.toml"], ["train", "recipe.toml"]):
        done = tfopt_here(*command, cwd=project)
        assert done.code == 2
        assert f'is a link out of the project, to files of others in "{home}"' in done.err
        assert [path.name for path in home.iterdir()] == ["thesis.tex"]


@pytest.mark.promise(28, injected="a .tfopt that is a link to an empty folder of another disk")
def test_a_link_to_an_empty_folder_keeps_the_results_there(tmp_path):
    project, scratch = tiny_project(tmp_path / "project"), tmp_path / "scratch"
    link_results(project, scratch)
    for _ in range(2):  # the second time there is what the first one left
        _, results = make_request(str(project / "recipe.toml"), [], compares=True)
        assert results == project / RESULTS
        store_path(project).touch()
        (scratch / SEARCHES).mkdir(exist_ok=True)
    kept = sorted(path.name for path in scratch.iterdir())
    assert kept == [".gitignore", "runs.sqlite", SEARCHES]


def test_a_command_that_keeps_nothing_has_its_observers_write_into_its_temporary_folder(
    tmp_path, monkeypatch
):
    project, temporary = tiny_project(tmp_path / "project"), tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    with temporary_request(str(project / "recipe.toml"), []) as request:
        [own] = temporary.iterdir()
        assert own in request.kept.parents
        assert own in request.folder.parents
    assert list(temporary.iterdir()) == []


@pytest.mark.promise(28, injected='the names "..", "../../x", "/x" and "." of a recipe')
@pytest.mark.parametrize("name", ["..", ".", "../../escaped", "/escaped", "...", "a/../../b"])
def test_a_recipes_name_leads_out_of_no_folder(tmp_path, name):
    project = tiny_project(tmp_path / "a" / "b" / "project")
    recipe = project / "recipe.toml"
    recipe.write_text(recipe.read_text().replace('name = "tiny"', f'name = "{name}"'))
    request, results = make_request(str(recipe), [], compares=True)
    point = checkpoints_of(request, results, resume=True, folder=None)
    assert point.folder.resolve().parent == (results / "checkpoints").resolve()
    assert request.folder.resolve().is_relative_to(results.resolve())
    assert {path.name for path in tmp_path.iterdir()} == {"a"}


@pytest.mark.promise(
    28, injected="every key of a recipe and every setting of a plugin is looked at"
)
def test_no_key_of_a_recipe_says_where_to_write():
    tables = (Recipe, WorkloadSpec, MeasureSpec)
    keys = {f"{table.__name__}.{key.name}" for table in tables for key in attrs.fields(table)}
    for name, registered in registrations().items():
        if registered[0].distribution == "tfopt":
            fields = attrs.fields(registered[0].load())
            keys |= {f"{name}.{setting.name}" for setting in fields}
    assert len(keys) > 60
    # `folder` is where a script runs; `path` where the recipe itself lies
    named = {key for key in keys if PLACES.search(key.partition(".")[2])}
    assert named == {"WorkloadSpec.folder", "Recipe.path"}


class Payload:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, sentinel: Path) -> None:
        self.sentinel = sentinel

    def __reduce__(self):
        return (os.mkdir, (str(self.sentinel),))


@pytest.fixture
def hostile(tmp_path):
    """Pickled bytes, and what is there once somebody has unpickled them."""
    sentinel = tmp_path / "unpickled"
    pickle.loads(pickle.dumps(Payload(sentinel)))
    assert sentinel.exists()  # the payload works
    sentinel.rmdir()
    return pickle.dumps(Payload(sentinel)), sentinel


@pytest.mark.promise(
    30, injected="a pickle with a payload in the place of each file that tfopt reads"
)
def test_no_file_is_unpickled(tmp_path, hostile):
    data, sentinel = hostile
    project = tiny_project(tmp_path / "project")
    checkpoints = project / RESULTS / "checkpoints" / "tiny"
    checkpoints.mkdir(parents=True)
    request, results = make_request(str(project / "recipe.toml"), [], compares=True)
    checkpoints_of(request, results, resume=True, folder=None)
    for path in (
        store_path(project), project / "results.json", project / "evil.toml",
        checkpoints / "checkpoint-000001.tfopt",
    ):  # fmt: skip
        path.write_bytes(data)
    for words in (
        ["runs"], ["report", "last"], ["compare", "results.json", "results.json"],
        ["apply", "evil.toml"], ["apply", "recipe.toml"], ["train", "recipe.toml", "--resume"],
    ):  # fmt: skip
        done = tfopt_here(*words, cwd=project)
        assert done.code in (2, 3), (words, done)
        assert "Traceback" not in done.err
    assert not sentinel.exists()


def test_only_the_channel_between_tfopts_own_processes_is_pickled():
    code = [path for folder in ("tfopt_core", "plugins", "workloads")
            for path in (ROOT / folder).rglob("*.py")]  # fmt: skip
    texts = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in code}
    unpickles = re.compile(r"pickle\.loads?\(|allow_pickle=True|safe_mode|unsafe_deserial")
    found = {name for name, text in texts.items() if unpickles.search(text)}
    assert found == {"tfopt_core/workers/task.py", "tfopt_core/testing.py"}
    loads = {name for name, text in texts.items() if re.search(r"\bload_model\(", text)}
    assert loads == set()


# A model whose Lambda layer runs code of the file, as anybody can write one.
LOADS = """
    import keras
    import numpy as np

    model = keras.models.load_model("downloaded.keras")
    x = np.ones((8, 2), "float32")
    model.compile("sgd", "mse")
    model.fit(x, x[:, :1], epochs=2, verbose=0)
"""

MAKES = """
    import sys
    import keras

    sentinel = sys.argv[1]
    source = f"lambda x: (__import__('os').makedirs({sentinel!r}, exist_ok=True), x)[1]"
    layers = [keras.layers.Input((2,)), keras.layers.Lambda(eval(source)), keras.layers.Dense(1)]
    model = keras.Sequential(layers)
    model.save("downloaded.keras")
    __import__("os").rmdir(sentinel)
"""

SCRIPT_RECIPE = """
    [workload]
    script = "train.py"
    [[plugins]]
    use = "prefetch"
"""


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.promise(30, injected="a script that loads a model whose Lambda layer makes a folder")
def test_keras_safe_mode_stays_on_in_a_script(tmp_path):
    sentinel = tmp_path / "ran"
    project = make_project(tmp_path / "project", SCRIPT_RECIPE, train=LOADS, makes=MAKES)
    made = python("makes.py", sentinel, cwd=project)
    assert (project / "downloaded.keras").exists(), made.err + made.out
    assert zipfile.is_zipfile(project / "downloaded.keras")
    assert not sentinel.exists()
    done = tfopt("train", "recipe.toml", cwd=project)
    assert done.code != 0
    assert "safe_mode" in done.out + done.err
    assert not sentinel.exists()


def test_a_link_within_the_project_is_fine(tmp_path):
    project = tiny_project(tmp_path / "project")
    link_results(project, project / "results")
    (project / "results" / "notes.txt").write_text("mine")
    make_request(str(project / "recipe.toml"), [], compares=True)
    assert check_recipe(project / "recipe.toml").recipe.name == "tiny"
    assert (project / "results" / "notes.txt").read_text() == "mine"


# A file in the working directory, or beside a workload, takes no library's place

EXECUTED = "was-executed.txt"

DECOY = f"""
import pathlib
with open({{folder!r}} + "/{EXECUTED}", "a") as executed:
    executed.write(__name__ + " ")
raise SystemExit(f"{{{{__name__}}}} was executed")
"""

# One that a factory or script imports, as it may with plain Python.
HELPER = "import pathlib\npathlib.Path(__file__).with_suffix('.imported').touch()\n"


def put_decoys(folder: Path) -> Path:
    """Files with the names of all libraries that tfopt uses."""
    folder.mkdir(exist_ok=True)
    for name in LIBRARIES:
        (folder / f"{name}.py").write_text(DECOY.format(folder=str(folder)), encoding="utf-8")
    return folder


def executed(*folders: Path) -> list[str]:
    return [(folder / EXECUTED).read_text() for folder in folders if (folder / EXECUTED).exists()]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "command",
    [
        [TFOPT, "plugins"],
        [TFOPT, "schema"],
        [TFOPT, "recipes", "copy", "quickstart"],
        [sys.executable, "-m", "tfopt_core", "plugins", "show", "cache"],
        [sys.executable, "-m", "tfopt_core", "runs"],
    ],
    ids=lambda command: " ".join(Path(part).name for part in command),
)
def test_a_command_executes_no_file_of_the_working_directory(command, tmp_path):
    folder = put_decoys(tmp_path)
    done = run(command, cwd=folder)
    assert executed(folder) == []
    assert done.code == 0, done.err


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.tensorflow
def test_runs_import_the_modules_beside_a_factory_and_no_library_from_there(tmp_path):
    project = put_decoys(tiny_project(tmp_path / "project", says="import my_module"))
    (project / "my_module.py").write_text(HELPER)
    here = put_decoys(tmp_path / "here")
    done = tfopt_anew("apply", project / "recipe.toml", cwd=here)
    assert executed(project, here) == []
    assert done.code == 0, done.err
    assert (project / "my_module.imported").exists()
    assert not (here / "my_module.imported").exists()


def test_every_child_is_started_without_the_working_directory_on_its_import_path():
    started = re.compile(r"sys\.executable,\s*(\"[^\"]*\")")
    found = {
        path: match[1]
        for folder in ("tfopt_core", "plugins")
        for path in (ROOT / folder).rglob("*.py")
        for match in started.finditer(path.read_text(encoding="utf-8"))
    }
    assert len(found) >= 5
    assert all(option in ('"-P"', '"-I"') for option in found.values()), found


def test_every_distribution_that_tfopt_requires_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = {re.split(r"[<>=]", line)[0] for line in project["dependencies"]}
    modules = {
        module
        for module, distributions in packages_distributions().items()
        if required & set(distributions) and not module.startswith("_")
    }
    assert modules <= LIBRARIES
