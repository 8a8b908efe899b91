"""A script run as Python runs it, and what is noted when it imports Keras or TensorFlow."""

import importlib.util
import json
import os
import subprocess
import sys
import textwrap

import pytest

from tfopt_core.scripts.importing import WhenImported
from tfopt_core.scripts.running import ScriptEnd, why_nothing_trained

RUN = """
import json, sys
from pathlib import Path
from tfopt_core.scripts.running import run_script
end = run_script(Path(sys.argv[1]), sys.argv[2:])
told = {"status": end.status, "error": end.error, "exited": end.exited, "read": end.read_input}
print("\\nEND " + json.dumps(told))
"""


def ended(folder, script, *arguments):
    """How the script ended, and what it printed on both streams."""
    path = folder / "train.py"
    path.write_text(textwrap.dedent(script), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(path), *arguments],
        capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=240,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    [told] = [line for line in lines if line.startswith("END ")] or [f"END {json.dumps({})}"]
    return json.loads(told[4:]), done.stdout, done.stderr


def test_script_is_main_with_its_own_arguments_and_neighbours(tmp_path):
    (tmp_path / "helper.py").write_text("NAME = 'neighbour'")
    script = """
    import sys, helper, pickle
    class Mine: pass
    print(__name__, sys.argv[1:], helper.NAME, __file__.endswith("train.py"))
    print(type(pickle.loads(pickle.dumps(Mine()))) is Mine)
    """
    end, out, _ = ended(tmp_path, script, "--lr", "0.1")
    assert "__main__ ['--lr', '0.1'] neighbour True\nTrue" in out
    assert end["status"] == 0


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [("3", 3, "sys.exit(3)"), ("", 0, "sys.exit()"), ("'bad data'", 1, "sys.exit('bad data')"),
     ("256", 0, "sys.exit(256)")],
)  # fmt: skip
def test_exit_status_is_that_of_python(tmp_path, code, status, said):
    end, _, _ = ended(tmp_path, f"import sys\nsys.exit({code})")
    assert (end["status"], end["exited"]) == (status, said)


def test_error_names_the_line_of_the_script_and_shows_its_traceback(tmp_path):
    script = "def helper():\n    raise ValueError('no data')\n\nhelper()\n"
    end, _, err = ended(tmp_path, script)
    assert end["error"] == "train.py:2: raised ValueError: no data"
    assert end["status"] == 1
    assert "run_script" not in err  # as Python shows it: without what runs it
    assert "line 4, in <module>" in err


def test_the_traceback_passes_over_tfopt_between_lines_of_the_script(tmp_path):
    script = """
    from tfopt_core.errors import describe

    class Mine(Exception):
        def __str__(self):
            raise ValueError("no data")

    describe(Mine())
    """
    end, _, err = ended(tmp_path, script)
    assert end["error"] == "train.py:6: raised ValueError: no data"
    assert err.count("train.py") == 2
    assert "errors.py" not in err


def test_the_line_of_the_script_that_is_carried_out_is_known(tmp_path):
    script = """
    from helper import called
    called()
    """
    (tmp_path / "helper.py").write_text(
        "from tfopt_core.scripts.running import place_now\n"
        "def called(): print(place_now(), 'is the place')\n"
    )
    _, out, _ = ended(tmp_path, script)
    assert "train.py:3:  is the place" in out


def test_asking_for_input_is_noticed(tmp_path):
    end, _, _ = ended(tmp_path, "input('epochs? ')")
    assert end["read"] is True
    assert "EOFError" in str(end["error"])


def test_threads_are_waited_for(tmp_path):
    script = """
    import threading, time
    threading.Thread(target=lambda: (time.sleep(0.2), print("thread done"))).start()
    """
    _, out, _ = ended(tmp_path, script)
    assert out.index("thread done") < out.index("END")


def test_a_forked_child_does_not_speak_for_the_script(tmp_path):
    script = """
    import os
    child = os.fork()
    if child == 0:
        raise SystemExit(5)
    print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    end, out, _ = ended(tmp_path, script)
    assert out.count("END") == 1
    assert "child 5" in out
    assert end["status"] == 0


def test_annotations_of_the_script_are_its_own(tmp_path):
    # the module that runs it has `from __future__ import annotations`
    _, out, _ = ended(tmp_path, "def f(x: int): ...\nprint(f.__annotations__)")
    assert "{'x': <class 'int'>}" in out


@pytest.mark.parametrize(
    ("end", "seen", "said"),
    [
        (ScriptEnd(status=3, exited="sys.exit(3)"), {}, "ended by sys.exit(3) before"),
        (ScriptEnd(status=1, error="train.py:2: raised ValueError: x"), {},
         "failed before it called fit(): train.py:2: raised ValueError: x"),
        (ScriptEnd(status=1, error="train.py:1: raised EOFError", read_input=True), {},
         "the script reads standard input"),
        (ScriptEnd(status=1, error="train.py:1: raised ModuleNotFoundError: No module named 'x'",
                   raised=ModuleNotFoundError("x")), {}, "install what it needs"),
        (ScriptEnd(status=0), {"updates": 5}, "optimizer.apply_gradients"),
        (ScriptEnd(status=1, error="train.py:9: raised ValueError"), {"fits": 2},
         "failed in or after fit 2: train.py:9"),
        (ScriptEnd(status=0), {"fits": 1}, "had no data"),
        (ScriptEnd(status=0), {"batches_alone": 7, "updates": 5},
         "train_on_batch (7 calls)"),
        (ScriptEnd(status=0), {"updates": 1}, "tfopt_core.optimize(dataset, recipe)"),
        (ScriptEnd(status=0), {"updates": 1}, "tfopt_core.stacked(recipe)"),
        (ScriptEnd(status=0), {"updates": 1}, 'add loop = "own" to [workload]'),
        (ScriptEnd(status=0), {"tapes": 3},
         "never calls an optimizer of Keras, whose updates tfopt counts"),
        (ScriptEnd(status=0), {"tapes": 3}, "optimizer.apply(gradients, variables)"),
    ],
)  # fmt: skip
def test_the_cause_is_named(end, seen, said):
    assert said in why_nothing_trained(end, **seen)


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """Modules that can be imported, and are not: the second one sets a variable, and imports a
    third one."""
    names = [f"tfopt_probe_{number}" for number in range(3)]
    sets = f"import os; os.environ['TF2_BEHAVIOR'] = '1'; import {names[2]}"
    for name, text in zip(names, ("VALUE = 1", sets, ""), strict=True):
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("TF2_BEHAVIOR", "0")
    monkeypatch.setenv("TF_OLD", "1")
    yield names
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture
def module(modules):
    return modules[0]


def test_acts_once_when_the_module_is_there_whole_or_at_once_where_it_is_there_already(module):
    seen = []

    def value():
        return getattr(sys.modules[module], "VALUE", None)

    with WhenImported({module: lambda: seen.append(value())}):
        assert seen == []
        __import__(module)
        __import__(module)
    assert seen == [1]
    with WhenImported({module: lambda: seen.append(value())}):
        assert seen.pop() == 1


def test_whoever_only_asks_for_the_module_sets_nothing_off(module):
    seen = []
    with WhenImported({module: lambda: seen.append(1)}):
        assert importlib.util.find_spec(module) is not None
        assert seen == []
        __import__(module)
    assert seen == [1]


def test_what_the_action_raises_passes_through_the_import(module):
    def fail():
        raise RuntimeError("no such backend")

    with WhenImported({module: fail}), pytest.raises(RuntimeError, match="no such backend"):
        __import__(module)


def test_afterwards_imports_are_as_they_were(module):
    before = list(sys.meta_path)
    with WhenImported({module: lambda: None}):
        assert sys.meta_path != before
    assert sys.meta_path == before


@pytest.mark.parametrize(
    ("sets", "changed"),
    [
        ({}, False),
        ({"TF_CPP_MIN_LOG_LEVEL": "2", "KERAS_BACKEND": "tensorflow"}, False),
        ({"KERAS_BACKEND": "jax"}, True),
        ({"TF_NEW": "1"}, True),
        ({"TF_OLD": None}, True),
    ],
)
def test_what_a_script_changes_is_noted_unless_it_changes_no_training(
    module, sets, changed, monkeypatch
):
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    with WhenImported({module: lambda: None}) as imports:
        for name, value in sets.items():
            if value is None:
                monkeypatch.delenv(name)
            else:
                monkeypatch.setenv(name, value)
        __import__(module)
    assert imports.changed is changed


def test_what_a_library_sets_while_it_is_imported_does_not_count(modules):
    first, sets, imported = modules
    with WhenImported({name: lambda: None for name in modules}) as imports:
        __import__(sets)
        __import__(first)
    assert os.environ["TF2_BEHAVIOR"] == "1"
    assert imported in sys.modules
    assert not imports.changed


def test_what_is_set_between_two_imports_counts(modules, monkeypatch):
    with WhenImported({name: lambda: None for name in modules}) as imports:
        __import__(modules[1])
        monkeypatch.setenv("KERAS_HOME", "/elsewhere")
        __import__(modules[0])
    assert imports.changed
