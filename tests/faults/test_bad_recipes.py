"""Bad input of a recipe: exit code 2, a line a problem with file and line, no traceback."""

import re
import socket
from pathlib import Path

import pytest
from support.cases import mostly_thorough
from support.in_process import tfopt_here
from support.real_process import TINY, Done, environment, make_project, tfopt

GOOD = """\
name = "good"
[workload]
factory = "tiny.py:build"
epochs = 2
[[plugins]]
use = "prefetch"
[measure]
pairs = 4
"""

LONG = "x" * 5000

# (name, the recipe or what of the good one is replaced, the line that must be said after its path)
BAD = [
    ("no toml", "this is no toml\n", r":1:6: expected '=' after a key"),
    ("unknown plugin", ("prefetch", "prefecth"),
     r':6: plugins\[0\]\.use: .*did you mean "prefetch"\?'),
    ("extends itself", 'extends = "recipe.toml"\n' + GOOD, r":1: extends: "),
    ("missing module", ("tiny.py:build", "no_such_module.train:build"),
     r':3: workload\.factory: there is no module "no_such_module"'),
    ("empty stack", ('[[plugins]]\nuse = "prefetch"\n', ""),
     r"(:\d+)?: plugins: the stack is empty"),
    ("algorithm changed without a target", ("prefetch", "l2"),
     r':7: measure\.target: "l2" changes the training algorithm'),
    ("time to target without a target", ("[measure]", '[measure]\nobjective = "time-to-target"'),
     r':8: measure\.objective: "time-to-target" needs a target, and there is none; '
     r"add to \[measure\] a metric that your epochs report and a value that your trainings surely "
     r"reach, for example: target = "),
    ("two owners of the strategy",
     ('use = "prefetch"', 'use = "one-device"\n[[plugins]]\nuse = "mirrored"'),
     r":\d+: plugins\[\d\]\.use: .*one-device.*mirrored"),
    ("names that fill the screen",
     GOOD.replace("prefetch", "z" * 200_000) + "k" * 90_000 + " = 1\n",
     r':6: plugins\[0\]\.use: plugin "z+\.\.\.'),
    ("base of zeros", f'extends = "/dev/zero"\n{GOOD}', r"error: /dev/zero: .* larger than 1 MiB"),
    ("base in memory", f'extends = "/proc/self/mem"\n{GOOD}', r':1: .*"/proc/self/mem"'),
    ("line breaks in a name", ("prefetch", r"pre\nfet\r\u2028ch"),
     r':6: plugins\[0\]\.use: plugin "pre\\nfet\\r\\u2028ch" cannot be loaded'),
    ("NUL in a path", ("tiny.py", r"ti\u0000ny.py"),
     r':3: workload\.factory: there is no file ".*ti\\x00ny\.py"'),
]  # fmt: skip


def applied(tmp_path, recipe: str | bytes, *arguments: str) -> Done:
    project = make_project(tmp_path, "", tiny=TINY.format(says="pass"))
    data = recipe.encode() if isinstance(recipe, str) else recipe
    (project / "recipe.toml").write_bytes(data)
    return tfopt_here("apply", "recipe.toml", *arguments, cwd=project)


def check_lines(done: Done) -> None:
    """Whatever was wrong: nothing on standard output, each line an error of reasonable length."""
    assert done.code == 2, done.err
    assert done.out == ""
    assert "Traceback" not in done.err
    for line in done.err.splitlines():
        assert line.startswith("error: ")
        assert len(line) < 500


@pytest.mark.promise(26, injected="what is no TOML, and devices as a base, in the command's hands")
@pytest.mark.promise(27, injected="unknown plugins, an empty stack, no target where one is needed")
@pytest.mark.parametrize(("recipe", "said"), [bad[1:] for bad in BAD], ids=[bad[0] for bad in BAD])
def test_a_bad_recipe_is_refused_with_file_and_line(recipe, said, tmp_path):
    done = applied(tmp_path, GOOD.replace(*recipe) if isinstance(recipe, tuple) else recipe)
    check_lines(done)
    lines = [line.removeprefix("error: recipe.toml") for line in done.err.splitlines()]
    assert any(re.match(said, line) for line in lines), done.err
    assert not (tmp_path / ".tfopt").exists()


@pytest.mark.promise(27, injected="six mistakes in one recipe")
def test_all_problems_are_said_at_once_in_the_order_of_the_file(tmp_path):
    recipe = (
        GOOD.replace("epochs = 2", "epoch = 2\nbatch_size = true")
        .replace("tiny.py", "gone.py")
        .replace("[measure]", 'bufer_size = 2\n[[plugins]]\nuse = "cahce"\n[measure]')
        .replace("pairs = 4", "pairs = 3")
    )
    done = applied(tmp_path, recipe)
    check_lines(done)
    lines = [int(line.split(":")[2]) for line in done.err.splitlines()]
    assert lines == sorted(lines)
    assert lines == [3, 4, 5, 8, 10, 12]


def a_loop(path):
    path.symlink_to(path.name)


def a_socket(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def a_sparse_file(path):
    with open(path, "wb") as file:
        file.truncate(10 * 2**30)


@pytest.mark.promise(26, injected="a folder, a loop of links, a socket, devices, 10 GiB of nothing")
@pytest.mark.parametrize("command", mostly_thorough(["apply", "train", "tune", "init"], ["apply"]))
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (Path.mkdir, "this is a directory"),
        (a_loop, "there is no such file"),
        (lambda path: path.symlink_to("/nowhere/at/all"), "there is no such file"),
        (a_socket, "it cannot be read"),
        (a_sparse_file, "larger than 1 MiB"),
        (lambda path: path.symlink_to("/dev/zero"), "larger than 1 MiB"),
        (lambda path: path.symlink_to("/dev/null"), "no workload"),
    ],
    ids=["folder", "loop", "dangling", "socket", "sparse", "zeros", "null"],
)
def test_a_recipe_that_is_no_file_is_refused(command, make, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    make(Path("odd.toml"))
    done = tfopt_here(command, "odd.toml", cwd=tmp_path)
    check_lines(done)
    if command != "init":  # which takes no recipe
        assert done.err.startswith("error: odd.toml: ")
        assert said in done.err
        assert 'did you mean "odd.toml"' not in done.err


@pytest.mark.parametrize(
    "words",
    [
        ["apply", f"{LONG}.toml"], ["init", f"{LONG}.py"],
        ["compare", f"{LONG}.json", "b.json"], ["report", LONG],
        ["apply", "recipe.toml", "--html", LONG],
        ["train", "recipe.toml", "--checkpoints", LONG], ["init", "tiny.py:build", "--write", LONG],
    ],
    ids=lambda words: " ".join(words).replace(LONG, "..."),
)  # fmt: skip
def test_a_name_that_no_file_can_have_is_bad_input(words, tmp_path):
    project = make_project(tmp_path, GOOD, tiny='raise SystemExit("the workload was imported")')
    check_lines(tfopt_here(*words, cwd=project))


@pytest.mark.promise(36, injected="the environment, with a TensorFlow that cannot be imported")
@pytest.mark.parametrize("command", mostly_thorough(["apply", "train", "plan"], ["apply"]))
@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("KERAS_BACKEND", "jax", 'KERAS_BACKEND is "jax"'),
        ("TF_USE_LEGACY_KERAS", "1", "TF_USE_LEGACY_KERAS is set"),
    ],
)
def test_another_keras_is_refused_before_tensorflow_starts(
    command, variable, value, said, tmp_path
):
    project = make_project(tmp_path, GOOD, tiny="raise SystemExit('the workload was imported')")
    # a TensorFlow that cannot be imported: whoever tries is found out
    (project / "tensorflow.py").write_text("raise SystemExit('TensorFlow was imported')")
    env = environment(**{variable: value, "PYTHONPATH": project})
    done = tfopt(command, "recipe.toml", cwd=project, env=env)
    check_lines(done)
    assert said in done.err
    assert not (project / ".tfopt").exists()
