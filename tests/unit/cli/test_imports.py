"""What is listed or refused is so without TensorFlow: the imports are asserted, not the time."""

import json
import os
import subprocess
import sys

import pytest

from tfopt_core.store.database import Store, store_path

BAD_RECIPE = '[workload]\nuse = "flihgts"\nepoch = 3\n[[plugins]]\nuse = "cache"\nstorag = "x"\n'
MISSING_MODULE = '[workload]\nfactory = "no_such_module:build"\n[[plugins]]\nuse = "cache"\n'
HEAVY = ("tensorflow", "keras", "numpy", "scipy", "psutil")
# Carries out a command, and tells the heavy modules that it has imported.
PROGRAM = f"""
import json, sys
from tfopt_core.commands.main import run
code = run(sys.argv[1:])
print("\\n" + json.dumps([code, [name for name in {HEAVY!r} if name in sys.modules]]))
"""


def carried_out(*arguments, cwd):
    """Return the exit code of a command, the heavy modules that it imported, what it printed."""
    environment = {name: value for name, value in os.environ.items() if name != "KERAS_BACKEND"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, *arguments], cwd=cwd, env=environment, text=True,
        capture_output=True, check=True,
    )  # fmt: skip
    printed, _, last = done.stdout.rstrip().rpartition("\n")
    return *json.loads(last), printed + done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--help"], 0, "apply"),
        (["tune", "bad.toml"], 2, "bad.toml:2: workload.use:"),
        (["recipes"], 0, "quickstart"),
        (["init", "flights"], 2, "is no script and no factory"),
        (["schema"], 0, "json-schema.org/draft-07"),
        (["completion", "zsh"], 0, "#compdef tfopt"),
        (["plugins", "new", "loss-watch"], 0, "tfopt apply recipe.toml"),
        (["recipes", "copy", "quickstart"], 0, "tfopt apply quickstart.toml"),
        (["runs"], 0, "nothing was measured yet"),
        (["report", "last"], 2, "nothing was measured yet"),
        (["compare", "bad.toml", "last"], 2, "is no JSON"),
        (["plugins"], 0, "mixed-precision"),
        (["plugins", "show", "cache"], 0, "What it does"),
        (["plugins", "check", "cahce"], 2, "did you mean"),
        (["apply", "no-such-recipe"], 2, "no such file"),
        (["apply", "bad.toml"], 2, "bad.toml:2: workload.use:"),
        (["plan", "bad.toml"], 2, "bad.toml:6: plugins[0].storag:"),
        (["apply", "module.toml"], 2, 'no module "no_such_module"'),
        (["apply", "quickstart", "--set", "plugins.cache.storage=moon"], 2, "storage"),
        (["apply", "quickstart", "--save", "model.h5"], 2, ".keras"),
        (["diagnose", "empty.toml", "--json", "no/such/folder.json"], 2, "there is no folder"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_it_answers_without_importing_anything_heavy(arguments, code, said, tmp_path):
    (tmp_path / "bad.toml").write_text(BAD_RECIPE)
    (tmp_path / "module.toml").write_text(MISSING_MODULE)
    (tmp_path / "empty.toml").write_text('[workload]\nuse = "flights"\n')
    ended, heavy, printed = carried_out(*arguments, cwd=tmp_path)
    assert said in printed
    assert ended == code
    assert heavy == []


def test_what_was_measured_is_listed_and_reported_without_anything_heavy(tmp_path):
    # as a measurement begins; those that were concluded are in the integration tests
    with Store(store_path(tmp_path)) as store:
        store.begin("20261121-125813-785d", "2026-11-21T12:58:18+00:00", "mine", "ab", {})
    for arguments, said in ((["runs"], "unfinished"), (["report", "last"], "no verdict")):
        code, heavy, printed = carried_out(*arguments, cwd=tmp_path)
        assert said in printed
        assert (code, heavy) == (0, [])


@pytest.mark.parametrize(
    "imports",
    [
        "import tfopt_core, tfopt_core.testing",
        "from tfopt_workloads import catalog, clipart_jpeg, fashion_mnist, flights, stdlib_text; "
        "from tfopt_workloads import weather; catalog.data_sources()",
    ],
    ids=["what authors import", "the workloads and their data"],
)
def test_what_is_imported_is_light(imports):
    code = f"import sys; {imports}; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
