"""Bad input of a recipe: exit code 2, a line a problem with file and line, no traceback."""

from __future__ import annotations

import re

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

# (name, the recipe, the line that must be said)
BAD = [
    ("no toml", "this is no toml\n", r"recipe\.toml:1:6: expected '=' after a key"),
    ("bare CR", GOOD.replace("\n[measure]", "\r[measure]"), r"recipe\.toml:6:17: a bare carriage"),
    ("not UTF-8", b'name = "\xe9"\n' + GOOD[14:].encode(), r"recipe\.toml:1: byte 8 is not UTF-8"),
    ("nested arrays", f"{GOOD}a = {'[' * 5000}{']' * 5000}\n", r"recipe\.toml:9:5: .*deeper than"),
    ("nested tables", f"{GOOD}a = {'{b=' * 5000}1{'}' * 5000}\n", r"recipe\.toml: .*deeper than"),
    ("digits", f"{GOOD}a = {'7' * 5000}\n", r"recipe\.toml:9:5: a number has too many digits"),
    ("key twice", GOOD + "pairs = 5\n", r"recipe\.toml:9:\d+: .*give each key once"),
    ("unclosed array", GOOD + "a = [1,\n", r"recipe\.toml:1?[0-9]:\d+: .*at the end of the file"),
    ("too large", GOOD + "#" * 2**20, r"recipe\.toml: the file is larger than 1 MiB"),
    ("empty file", "", r"recipe\.toml: no workload; add"),
    (
        "unknown plugin",
        GOOD.replace("prefetch", "prefecth"),
        r'recipe\.toml:6: plugins\[0\]\.use: .*did you mean "prefetch"\?',
    ),
    (
        "same plugin twice",
        GOOD + '[[plugins]]\nuse = "prefetch"\n',
        r'recipe\.toml:9: plugins\[1\]: plugin "prefetch" is listed twice, at lines 5 and 9',
    ),
    (
        "two workloads",
        GOOD.replace("epochs", 'use = "flights"\nepochs'),
        r'recipe\.toml:3: workload\.factory: two workloads: "use" and "factory"',
    ),
    ("no workload", '[[plugins]]\nuse = "prefetch"\n', r"recipe\.toml: no workload; add"),
    (
        "workload without choice",
        '[workload]\nepochs = 1\n[[plugins]]\nuse = "prefetch"\n',
        r"recipe\.toml:1: workload: .*",
    ),
    ("extends itself", 'extends = "recipe.toml"\n' + GOOD, r"recipe\.toml:1: extends: "),
    ("extends nothing", 'extends = "gone.toml"\n' + GOOD, r"recipe\.toml:1: extends: .*gone\.toml"),
    (
        "unknown key",
        GOOD.replace("epochs", "epoch"),
        r'recipe\.toml:4: workload\.epoch: unknown key; did you mean "epochs"\?',
    ),
    (
        "unknown table",
        GOOD + "[mesure]\n",
        r'recipe\.toml:9: mesure: unknown key; did you mean "measure"\?',
    ),
    (
        "unknown setting",
        GOOD.replace("[measure]", "bufer_size = 2\n[measure]"),
        r'recipe\.toml:7: plugins\[0\]\.bufer_size: unknown setting; did you mean "buffer_size"\?',
    ),
    (
        "bool for int",
        GOOD.replace("epochs = 2", "epochs = true"),
        r"recipe\.toml:4: workload\.epochs: expected a whole number.*true",
    ),
    (
        "bool for a plugin's int",
        GOOD.replace("[measure]", "buffer_size = true\n[measure]"),
        r"recipe\.toml:7: plugins\[0\]\.buffer_size: expected .*true",
    ),
    (
        "plugin's out of range",
        GOOD.replace("[measure]", "buffer_size = -3\n[measure]"),
        r"recipe\.toml:7: plugins\[0\]\.buffer_size: .*-3",
    ),
    (
        "nan",
        GOOD + 'quality = { metric = "val_loss", tolerance = nan }\n',
        r"recipe\.toml:9: measure\.quality\.tolerance: expected a finite number, got nan",
    ),
    (
        "inf in options",
        GOOD.replace("[[plugins]]", "options = { rate = inf }\n[[plugins]]"),
        r"recipe\.toml:5: workload\.options\.rate: expected a finite number, got inf",
    ),
    (
        "nan in a setting",
        GOOD.replace('use = "prefetch"', 'use = "l2"\nstrength = nan'),
        r"recipe\.toml:7: plugins\[0\]\.strength: .*nan",
    ),
    ("three pairs", GOOD.replace("pairs = 4", "pairs = 3"), r"recipe\.toml:8: measure\.pairs: .*4"),
    ("no epochs", GOOD.replace("epochs = 2", "epochs = 0"), r"recipe\.toml:4: workload\.epochs: "),
    (
        "missing module",
        GOOD.replace("tiny.py:build", "no_such_module.train:build"),
        r'recipe\.toml:3: workload\.factory: there is no module "no_such_module"',
    ),
    (
        "missing file",
        GOOD.replace("tiny.py", "gone.py"),
        r'recipe\.toml:3: workload\.factory: there is no file ".*gone\.py"',
    ),
    (
        "no callable",
        GOOD.replace("tiny.py:build", "tiny.py"),
        r'recipe\.toml:3: workload\.factory: "tiny\.py" names no callable',
    ),
    (
        "missing script",
        GOOD.replace('factory = "tiny.py:build"\nepochs = 2', 'script = "gone.py"'),
        r"recipe\.toml:3: workload\.script: ",
    ),
    (
        "unknown workload",
        GOOD.replace('factory = "tiny.py:build"', 'use = "flihgts"'),
        r'recipe\.toml:3: workload\.use: .*did you mean "flights"\?',
    ),
    (
        "empty stack",
        GOOD.replace('[[plugins]]\nuse = "prefetch"\n', ""),
        r"recipe\.toml(:\d+)?: plugins: the stack is empty",
    ),
    (
        "disabled stack",
        GOOD.replace("[measure]", "enabled = false\n[measure]"),
        r"recipe\.toml(:\d+)?: plugins: the stack is empty",
    ),
    (
        "algorithm changed without a target",
        GOOD.replace("prefetch", "l2"),
        r'recipe\.toml:7: measure\.target: "l2" changes the training algorithm',
    ),
    (
        "time to target without a target",
        GOOD.replace("[measure]", '[measure]\nobjective = "time-to-target"'),
        r'recipe\.toml:8: measure\.objective: "time-to-target" needs a target, and there is none; '
        r"add to \[measure\]: target = ",
    ),
    (
        "time to target of runs that are cut short",
        GOOD.replace(
            "[measure]",
            '[measure]\nobjective = "time-to-target"\nlength = "steady"\n'
            'target = { metric = "val_loss", at_most = 0.1 }',
        ),
        r'recipe\.toml:9: measure\.length: "steady" ends a run before the target, by which the '
        r"stack is judged",
    ),
    (
        "unknown objective",
        GOOD.replace("[measure]", '[measure]\nobjective = "memroy"'),
        r'recipe\.toml:8: measure\.objective: .*"memroy".*did you mean "memory"',
    ),
    (
        "two owners of the strategy",
        GOOD.replace('use = "prefetch"', 'use = "one-device"\n[[plugins]]\nuse = "mirrored"'),
        r"recipe\.toml:\d+: plugins\[\d\]\.use: .*one-device.*mirrored",
    ),
]


def applied(tmp_path, recipe: str | bytes, *arguments: str, command: str = "apply") -> Done:
    project = make_project(tmp_path, "", tiny=TINY.format(says="pass"))
    data = recipe.encode() if isinstance(recipe, str) else recipe
    (project / "recipe.toml").write_bytes(data)
    return tfopt_here(command, "recipe.toml", *arguments, cwd=project)


def check_lines(done: Done) -> None:
    """Whatever was wrong: nothing on standard output, each line an error of reasonable length."""
    assert done.code == 2, done.err
    assert done.out == ""
    assert "Traceback" not in done.err
    for line in done.err.splitlines():
        assert line.startswith("error: ")
        assert len(line) < 400


@pytest.mark.promise(
    26, injected="no TOML, bare CR, 5,000 levels, 5,000 digits, over 1 MiB, and more"
)
@pytest.mark.parametrize(("recipe", "said"), [bad[1:] for bad in BAD], ids=[bad[0] for bad in BAD])
def test_a_bad_recipe_is_refused_with_file_and_line(recipe, said, tmp_path):
    done = applied(tmp_path, recipe)
    check_lines(done)
    assert any(re.match(f"error: {said}", line) for line in done.err.splitlines()), done.err
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


@pytest.mark.parametrize("command", ["train", "plan"])
def test_the_other_commands_refuse_it_alike(command, tmp_path):
    done = applied(tmp_path, GOOD.replace("prefetch", "prefecth"), command=command)
    check_lines(done)
    assert 'did you mean "prefetch"?' in done.err


@pytest.mark.promise(27, injected="mistakes in --set")
@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("plugins.prefecth.buffer_size=2", "prefecth"),
        ("plugins.prefetch.bufer_size=2", "bufer_size"),
        ("workload.epochs=true", "workload.epochs"),
        ("workload.epochs", "--set"),
        ("measure.pairs=3", "measure.pairs"),
        ("measure.quality.tolerance=nan", "tolerance"),
    ],
)
def test_a_bad_override_is_named_as_it_was_given(override, said, tmp_path):
    done = applied(tmp_path, GOOD, "--set", override)
    check_lines(done)
    assert f"error: --set {override}" in done.err
    assert said in done.err


def test_debug_shows_the_traceback_of_bad_input(tmp_path):
    done = applied(tmp_path, GOOD.replace("prefetch", "prefecth"), "--debug")
    assert done.code == 2
    assert "Traceback" in done.err
    assert "RecipeError" in done.err


@pytest.mark.promise(36, injected="the environment, with a TensorFlow that cannot be imported")
@pytest.mark.parametrize("command", mostly_thorough(["apply", "train", "plan"], ["apply"]))
@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("KERAS_BACKEND", "jax", 'KERAS_BACKEND is "jax"'),
        ("TF_USE_LEGACY_KERAS", "1", "TF_USE_LEGACY_KERAS is set"),
        ("TF_USE_LEGACY_KERAS", "True", "TF_USE_LEGACY_KERAS is set"),
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
