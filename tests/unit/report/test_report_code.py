"""An exported training as text."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import attrs

from tfopt_core.records.program import ExportedPlugin, Program
from tfopt_core.report.code import render_program

PROGRAM = Program(
    recipe="a recipe",
    seed=3,
    epochs=2,
    versions={"tfopt": "1", "Keras": "3"},
    plugins=(
        ExportedPlugin(plugin="cache", changed=("cache: in memory",), notes=("slower",)),
        ExportedPlugin(plugin="remote", left_out="nobody knows how"),
        ExportedPlugin(plugin="idle"),
    ),
    notes=("A note on \\ backslashes.",),
    folders=("/project/code",),
    imports=("import random", "from work import build", "from work import aside"),
    environment=('os.environ["KERAS_BACKEND"] = "tensorflow"',),
    start=("tf.config.threading.set_intra_op_parallelism_threads(2)",),
    helpers=("def helper(x):\n    return x + 1",),
    body=(
        "workload = build()",
        "",
        "# the model",
        "model = workload.build_model()",
        "history = model.fit(" + ", ".join(f"argument_{i}=helper({i})" for i in range(6)) + ")",
    ),
)


def test_it_is_python_as_ruff_formats_it(tmp_path: Path):
    path = tmp_path / "exported.py"
    path.write_text(render_program(PROGRAM, Path("/project")), encoding="utf-8")
    command = [sys.executable, "-m", "ruff"]
    asked = ["--isolated", "--line-length", "100", str(path)]
    formatted = subprocess.run([*command, "format", "--diff", *asked], capture_output=True)
    assert formatted.stdout.decode() == ""
    checked = subprocess.run([*command, "check", "--select", "E9,F8", *asked], capture_output=True)
    assert checked.returncode == 0, checked.stdout.decode()


def test_the_same_program_is_the_same_text():
    assert render_program(PROGRAM, Path("/a")) == render_program(PROGRAM, Path("/a"))


def test_its_heading_says_what_became_of_each_plugin():
    text = render_program(PROGRAM, Path("/project"))
    assert "\n- cache: cache: in memory; slower\n" in text
    assert "\n- remote: LEFT OUT, no plain form: nobody knows how\n" in text
    assert "\n- idle: changed nothing here\n" in text


def test_modules_of_the_workload_are_found_from_where_the_file_lies():
    text = render_program(PROGRAM, Path("/project/scripts"))
    assert 'sys.path.insert(0, str(Path(__file__).resolve().parent / "../code"))' in text
    assert "from work import aside, build\n" in text


def test_tensorflow_is_imported_behind_the_environment_and_only_if_it_is_used():
    text = render_program(PROGRAM, Path("/project"))
    assert text.index("os.environ") < text.index("import tensorflow as tf")
    without = attrs.evolve(PROGRAM, start=())
    assert "tensorflow as tf" not in render_program(without, Path("/project"))


def test_a_scripts_heading_stands_below_the_line_that_names_its_interpreter():
    program = attrs.evolve(PROGRAM, script="#!/usr/bin/env python\nprint()\n")
    lines = render_program(program, Path("/project")).splitlines()
    assert lines[0] == "#!/usr/bin/env python"
    assert lines[1] == "# a recipe: the training of a recipe in plain TensorFlow and Keras."
    assert lines[-1] == "print()"
