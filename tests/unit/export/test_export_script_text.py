"""A script's text is changed where it is meant, and nowhere else."""

from __future__ import annotations

import textwrap

import pytest

from tfopt_core.export.script_text import NoPlace, ScriptText

SCRIPT = '''\
"""Trains."""

import os

from tensorflow import keras  # comes late
import numpy as np

é = "ü"; print(é)  # two statements
model = keras.Sequential()
model.compile("adam", loss="mse")  # compiled
if é:
    model.fit(
        np.ones(3),  # x
        np.ones(3),
        epochs=2,
    )
'''


def made() -> ScriptText:
    return ScriptText(SCRIPT)


def lines_changed(script: ScriptText) -> list[str]:
    before, after = SCRIPT.splitlines(), script.result.splitlines()
    return [line for line in after if line not in before]


def test_nothing_changes_where_nothing_is_asked():
    assert made().result == SCRIPT


def test_arguments_are_added_behind_the_others_of_their_line():
    script = made()
    compile_ = script.compile_of(script.method_call("fit", 12))
    script.set_arguments(compile_, {"jit_compile": "True", "loss": '"mae"'})
    assert lines_changed(script) == [
        'model.compile("adam", loss="mae", jit_compile=True)  # compiled'
    ]


def test_arguments_of_a_call_that_becomes_too_long_stand_one_a_line():
    script = made()
    compile_ = script.compile_of(script.method_call("fit", 12))
    script.set_arguments(compile_, {"metrics": f'["{"m" * 80}"]'})
    assert lines_changed(script) == [
        "model.compile(", '    "adam",', '    loss="mse",', f'    metrics=["{"m" * 80}"],',
        ")  # compiled",
    ]  # fmt: skip


def test_an_argument_joins_others_that_stand_one_a_line():
    script = made()
    script.set_arguments(script.method_call("fit", 12), {"verbose": "2"})
    assert lines_changed(script) == ["        verbose=2,"]


def test_an_argument_is_taken_out():
    script = made()
    script.set_arguments(script.method_call("fit", 12), {"epochs": None})
    assert "epochs" not in script.result
    compile(script.result, "script.py", "exec")


def test_statements_go_before_the_statement_of_a_call_with_its_indentation():
    script = made()
    script.insert_before(script.method_call("fit", 14), ["prepare(model)"])
    assert "if é:\n    prepare(model)\n    model.fit(\n" in script.result


def test_what_is_inserted_stands_behind_the_imports_among_which_keras_is():
    script = made()
    script.insert_behind_imports(["policy()"])
    assert "import numpy as np\n\npolicy()\n\n" in script.result


def test_what_must_come_first_stands_behind_the_docstring():
    script = made()
    script.insert_on_top(["import first"])
    assert script.result.startswith('"""Trains."""\n\nimport first\n\nimport os\n')


def test_a_statement_behind_another_on_its_line_has_no_place_before_it():
    script = ScriptText("import keras\nx = 1; model.fit(x)\n")
    with pytest.raises(NoPlace, match="line 2 holds more than one statement"):
        script.insert_before(script.method_call("fit", 2), ["y = 2"])


def test_two_calls_of_compile_are_not_told_apart():
    text = """
        import keras
        model.compile("adam")
        model.compile("sgd")
        model.fit(x)
    """
    script = ScriptText(textwrap.dedent(text))
    with pytest.raises(NoPlace, match=r"does not show one call of model\.compile"):
        script.compile_of(script.method_call("fit", 5))


def test_arguments_behind_stars_are_not_known():
    script = ScriptText("model.fit(*data, **more)\n")
    with pytest.raises(NoPlace, match="not written out"):
        script.arguments(script.method_call("fit", 1), ("x", "y"))
