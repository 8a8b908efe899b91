"""Commands as people paste them: read as a shell would, and refused where only a shell could."""

from __future__ import annotations

import shlex
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfopt_core.app.pasted_command import (
    ScriptCommand,
    check_as_recipe,
    check_command,
    read_command,
    refuse_command,
)
from tfopt_core.errors import InputError, RecipeError


@pytest.mark.parametrize(
    ("target", "command"),
    [
        ("train.py", ScriptCommand(script="train.py")),
        ("python train.py", ScriptCommand(script="train.py")),
        ("train.py --lr 0.1", ScriptCommand(script="train.py", arguments=("--lr", "0.1"))),
        (
            "python3 'my train.py' --name \"a b\"",
            ScriptCommand(script="my train.py", arguments=("--name", "a b")),
        ),
        (
            "python -m package.train --epochs 2",
            ScriptCommand(module="package.train", arguments=("--epochs", "2")),
        ),
        ("python -mpackage.train", ScriptCommand(module="package.train")),
        (
            "A=1 B='x y' python train.py",
            ScriptCommand(script="train.py", environment={"A": "1", "B": "x y"}),
        ),
        ("env A=1 python train.py", ScriptCommand(script="train.py", environment={"A": "1"})),
        (
            "$ python train.py \\\n    --lr 0.1",
            ScriptCommand(script="train.py", arguments=("--lr", "0.1")),
        ),
        (
            "python train.py -- --pattern '*.png' \">\"",
            ScriptCommand(script="train.py", arguments=("--", "--pattern", "*.png", ">")),
        ),
        (f"{sys.executable} train.py", ScriptCommand(script="train.py")),
        # a script need not end in .py
        ("python train", ScriptCommand(script="train")),
        # recipes
        ("recipe.toml", None),
        ("quickstart", None),
        ("", None),
        ("two words", None),
    ],
)
def test_a_command_is_read_as_a_shell_reads_it(target, command):
    assert read_command(target) == command


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("cd code && python train.py", '"&&" starts several commands'),
        ("cd code && python train.py", "do `cd code` first"),
        ("python train.py | tee log", '"|" passes the output on'),
        ("python train.py > log", '">" sends the output elsewhere'),
        ("python train.py 2>&1", '">" sends the output elsewhere'),
        ("python train.py &", '"&" starts several commands'),
        ("python a.py; python b.py", '";" starts several commands'),
        ("python a.py\npython b.py", "a new line starts several commands"),
        ("python train.py --lr $LR", '"$" stands for a variable'),
        ('python train.py "$HOME"', '"$" stands for a variable'),
        ("python train.py `date`", '"`" runs another command'),
        ("python train.py *.png", '"*" stands for the names of files'),
        ("python train.py --data ~/data", '"~" stands for your home folder'),
        ("python train.py --lr 0.1 # best", '"#" starts a comment'),
        ("python train.py {1,2}", '"{" stands for several words'),
        ("python train.py 'a b", "no closing quotation"),
        ("python -u train.py", '"-u" is an option of the interpreter'),
        ("python -c 'import keras' train.py", "write the code into a file"),
        ("python", 'quote the whole command: tfopt apply "python train.py"'),
        ("python -m", '"python -m" names no module'),
        ("A=1 python", 'tfopt apply "A=1 python train.py"'),
        ("A=1 python -m", "add one: A=1 python -m package.train"),
        ("uv run python train.py --a 'b c'", "write uv run tfopt apply"),
        ("time python train.py", '"time" is no Python interpreter'),
        ("python2 train.py", '"python2" is another interpreter'),
        ("python3.1 train.py", '"python3.1" is another interpreter'),
        ("/elsewhere/bin/python train.py", "is another interpreter"),
    ],
)
def test_what_needs_a_shell_or_another_interpreter_is_refused_by_name(target, message):
    with pytest.raises(InputError) as error:
        read_command(target)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("variables", ["A=1 B='x y'", "env A=1 B='x y'"])
def test_what_is_proposed_for_a_launcher_keeps_the_variables_in_front_of_it(variables):
    with pytest.raises(InputError) as error:
        read_command(f"{variables} uv run python train.py --a 'b c'")
    proposed = shlex.split(str(error.value).partition(", write ")[2])
    assert proposed[:4] == ["uv", "run", "tfopt", "apply"]
    assert read_command(proposed[4]) == ScriptCommand(
        script="train.py", arguments=("--a", "b c"), environment={"A": "1", "B": "x y"}
    )


@given(st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1)))
def test_arguments_arrive_as_they_are_whatever_they_hold(arguments):
    # a backslash at the end of a line joins lines only outside of single quotes, which shlex makes
    arguments = [word.replace("\\\n", "").replace("\\\r\n", "") for word in arguments]
    command = read_command(shlex.join(["python", "train.py", *arguments]).rstrip())
    assert command == ScriptCommand(script="train.py", arguments=tuple(arguments))


def test_a_file_is_a_file_whatever_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "python my.toml").touch()
    (tmp_path / "my train.py").touch()
    assert read_command("python my.toml") is None
    assert read_command("my train.py") == ScriptCommand(script="my train.py")


def test_a_script_is_named_from_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    assert check_command(ScriptCommand(script=str(tmp_path / "train.py"))).script == "train.py"
    with pytest.raises(InputError, match=r'the script "gone\.py" is not there'):
        check_command(ScriptCommand(script="gone.py"))
    with pytest.raises(InputError, match=r'the script "\." is a folder'):
        check_command(ScriptCommand(script="."))
    with pytest.raises(InputError, match='there is no module "gone"'):
        check_command(ScriptCommand(module="gone.train"))
    with pytest.raises(InputError, match="PYTHONPATH is about the start of Python"):
        check_command(ScriptCommand(script="train.py", environment={"PYTHONPATH": "src"}))


def test_the_recipe_of_a_command_lies_where_the_user_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    command = ScriptCommand(script="train.py", arguments=("--lr", "1"), environment={"A": "b"})
    checked = check_as_recipe(command, ["workload.max_epochs=2"])
    spec = checked.recipe.workload
    assert (spec.args, spec.environment, spec.max_epochs) == (("--lr", "1"), {"A": "b"}, 2)
    assert checked.recipe.directory == checked.recipe.working_directory == tmp_path
    assert checked.recipe.name == "train"
    assert list(tmp_path.iterdir()) == [tmp_path / "train.py"]
    # a problem that a run finds later names the script
    assert str(checked.reading.problem("workload.script", "no fit")) == (
        "train.py: workload.script: no fit"
    )
    with pytest.raises(RecipeError, match=r"--set workload.max_epoch=2"):
        check_as_recipe(command, ["workload.max_epoch=2"])


def test_where_a_stack_is_needed_a_script_is_refused():
    refuse_command("recipe.toml", "tfopt export")
    with pytest.raises(InputError, match="tfopt export needs a recipe with its stack"):
        refuse_command("python train.py --lr 1", "tfopt export")
