"""`tfopt init`: what it writes, what it refuses, and what it asks."""

from __future__ import annotations

import functools
import os
import select
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tfopt_core.app import first_stack
from tfopt_core.app.check import check_recipe
from tfopt_core.app.first_recipe import parse_target
from tfopt_core.app.first_stack import proposed_plugins
from tfopt_core.cli.main import run
from tfopt_core.hooks.installed.inspection import PluginInfo, inspect_plugins
from tfopt_core.hooks.installed.suggest import Suggestion

FACTORY = "def build():\n    raise SystemExit('not called')\n"


@functools.cache
def inspected(names: tuple[str, ...] | None) -> tuple[PluginInfo, ...]:
    return inspect_plugins(names)


@pytest.fixture(autouse=True)
def inspected_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plugins are inspected in a process of its own: the same ones once for all tests here."""
    monkeypatch.setattr(
        first_stack, "inspect_plugins", lambda names=None: inspected(names and tuple(names))
    )


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a script, and a factory in a file and in a package."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("raise SystemExit('not run')\n")
    (tmp_path / "jobs").mkdir()
    for place in ("own.py", "jobs/__init__.py", "jobs/big.py"):
        (tmp_path / place).write_text(FACTORY)
    return tmp_path


def written(path: str) -> dict[str, Any]:
    return tomllib.loads(Path(path).read_text(encoding="utf-8"))


def test_a_script_is_enough(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "train.py"]) == 0
    assert "tfopt apply train.tfopt.toml" in capsys.readouterr().out
    recipe = check_recipe("train.tfopt.toml").recipe
    assert (recipe.name, recipe.workload.script) == ("train", "train.py")
    assert recipe.working_directory == here
    assert recipe.measure.budget_seconds == 600


def test_the_stack_leaves_the_training_exact_and_holds_others_to_switch_on(here: Path) -> None:
    assert run(["init", "train.py"]) == 0
    maths = {info.name: info.math for info in inspected(None)}
    on = [entry.use for entry in check_recipe("train.tfopt.toml").recipe.plugins]
    assert {maths[name] for name in on} == {"exact"}
    off = [p["use"] for p in written("train.tfopt.toml")["plugins"] if p.get("enabled") is False]
    assert {maths[name] for name in off} >= {"order", "rounding"}
    for name in off:  # each can be switched on, where what it conflicts with is switched off
        changes = [f"plugins.{other}.enabled=false" for other in on]
        check_recipe("train.tfopt.toml", [*changes, f"plugins.{name}.enabled=true"])


def test_options_say_everything(here: Path) -> None:
    (here / "sub").mkdir()
    arguments = [
        "init", "--script", "train.py", "--args", "--lr 0.1 --note 'a b'", "--plugin", "prefetch",
        "--plugin", "cache", "--budget", "5m", "--name", "mine", "--target", "val_loss <= 0.5",
        "--output", "sub/mine.toml",
    ]  # fmt: skip
    assert run(arguments) == 0
    recipe = check_recipe("sub/mine.toml").recipe
    assert recipe.to_dict() == {
        "name": "mine",
        "description": "What makes train.py faster.",
        # where the script lies, and where it runs: here, as when the user starts it
        "workload": {
            "script": "../train.py", "args": ["--lr", "0.1", "--note", "a b"], "folder": "..",
        },
        # in an order that the plugins agree to
        "plugins": [{"use": "cache"}, {"use": "prefetch"}],
        "measure": {
            "pairs": "auto", "length": "auto", "budget": 300.0, "attribution": "auto",
            "objective": "time", "target": {"metric": "val_loss", "at_most": 0.5},
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    ("target", "output", "workload"),
    [
        ("own.py:build", "own.tfopt.toml", {"factory": "own.py:build"}),
        ("jobs.big:build", "big.tfopt.toml", {"factory": "jobs.big:build"}),
        ("jobs/big.py:build", "big.tfopt.toml", {"factory": "jobs/big.py:build"}),
        ("flights", "flights.tfopt.toml", {"use": "flights"}),
    ],
)
def test_a_factory_and_a_workload_s_name_are_known_by_their_form(
    here: Path, target: str, output: str, workload: dict[str, str]
) -> None:
    assert run(["init", target, "--plugin", "cache"]) == 0
    assert written(output)["workload"] == workload


def test_a_factory_s_file_is_found_from_the_recipe_s_folder(here: Path) -> None:
    assert run(["init", "own.py:build", "--plugin", "cache", "-o", "jobs/own.toml"]) == 0
    assert written("jobs/own.toml")["workload"] == {"factory": "../own.py:build"}
    assert check_recipe("jobs/own.toml").plugins


def test_the_schema_s_line_is_written_where_the_schema_lies(here: Path) -> None:
    assert run(["init", "train.py", "--plugin", "cache"]) == 0
    assert "#:schema" not in Path("train.tfopt.toml").read_text()
    Path("recipe.schema.json").touch()
    assert run(["init", "train.py", "--plugin", "cache", "--force"]) == 0
    assert (
        Path("train.tfopt.toml").read_text().startswith("#:schema ./recipe.schema.json\n# To see")
    )


def test_an_older_file_is_replaced_only_by_force(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("train.tfopt.toml").write_text("mine")
    assert run(["init", "train.py"]) == 2
    assert '"train.tfopt.toml" exists already; name another by --output' in capsys.readouterr().err
    assert Path("train.tfopt.toml").read_text() == "mine"
    assert run(["init", "train.py", "--force"]) == 0
    assert check_recipe("train.tfopt.toml").plugins


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["trian.py"], 'there is no script "trian.py"; did you mean "train.py"?'),
        (["jobs/bgi.py"], 'did you mean "big.py"?'),
        (["no_such:build"], 'there is no module "no_such"'),
        (["no_such.py:build"], 'there is no file "'),
        (["own.py:"], "names no callable"),
        (["flihgts"], 'did you mean "flights"?; a script ends in .py'),
        (["--script", "train"], '--script: "train" does not end in .py'),
        (["--factory", "train"], '--factory: "train" names no callable'),
        (["train.py", "--factory", "a:b"], "give one of TARGET, --script and --factory"),
        (["own.py:build", "--args", "--lr 1"], "--args are the arguments of a script"),
        (["train.py", "--args", "'open"], "--args: no closing quotation"),
        (["train.py", "--budget", "soon"], "--budget: expected a duration"),
        (["train.py", "--target", "high"], '--target: "high" is no target; write METRIC>=VALUE'),
        (["train.py", "--plugin", "cahce"], 'no plugin is named "cahce"; did you mean "cache"?'),
        (["train.py", "--plugin", "cache", "--diagnose"], "--plugin and --diagnose each choose"),
        (["train.py", "--plugin", "l2"], 'add --target "val_accuracy>=0.9", say'),
        (["train.py", "--plugin", "target-stop"], 'plugin "target-stop" needs "metric"'),
        (["train.py", "--plugin", "augment"], 'plugin "augment" needs settings'),
        (["train.py", "--plugin", "mirrored", "--plugin", "one-device"], "conflicts with"),
        (["train.py", "-o", "none/a.toml"], "No such file or directory"),
        ([], "give a script or a factory to train: tfopt init train.py"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_wrong_is_refused_before_anything_is_written(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    before = sorted(here.rglob("*"))
    assert run(["init", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert sorted(here.rglob("*")) == before


def test_a_target_is_read_with_either_bound() -> None:
    assert parse_target("val_accuracy>=0.9") == {"metric": "val_accuracy", "at_least": 0.9}
    assert parse_target(" val_loss <= 1e-3 ") == {"metric": "val_loss", "at_most": 0.001}


def test_what_a_diagnosis_proposes_is_stacked_in_its_order_with_the_reason() -> None:
    def suggestion(plugin: str, bound: float | None) -> Suggestion:
        return Suggestion(
            plugin=plugin, settings={"size": 2}, bound=bound, targets=("input",), math="exact",
            summary=f"Does {plugin}.", distribution="theirs",
        )  # fmt: skip

    suggestions = (suggestion("a", 1.5), suggestion("left out", 1.4), suggestion("b", None))
    diagnosed: Any = SimpleNamespace(
        suggestions=suggestions, proposed_stack=("b", "a"), dispatch_known=True,
        **{part: SimpleNamespace(share=share)
           for part, share in (("input", 0.4), ("dispatch", 0.3), ("compute", 0.3))},
    )  # fmt: skip
    planned = proposed_plugins(diagnosed)
    assert [(one.use, one.settings, one.why) for one in planned] == [
        ("b", {"size": 2}, "Does b. Here 40% of a step is input."),
        ("a", {"size": 2}, "Does a. Here 40% of a step is input, so at most about 1.50x."),
    ]


def test_at_a_terminal_it_asks_and_asks_again_after_a_mistake(here: Path) -> None:
    typed = ["trian.py", "train.py", "--lr 0.1", "soon", "90s", "mine", "n"]
    said, code = at_a_terminal(["init"], typed)
    assert code == 0, said
    assert 'there is no script "trian.py"; did you mean "train.py"?' in said
    assert "expected a duration" in said
    recipe = check_recipe("train.tfopt.toml").recipe
    assert (recipe.name, recipe.workload.args) == ("mine", ("--lr", "0.1"))
    assert recipe.measure.budget_seconds == 90


def at_a_terminal(arguments: list[str], typed: list[str]) -> tuple[str, int]:
    """What tfopt prints to a terminal at which this is typed, and its exit code."""
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "tfopt_core", *arguments], stdin=theirs, stdout=theirs,
        stderr=theirs, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    os.write(ours, "".join(f"{line}\n" for line in typed).encode())
    said = b""
    try:
        while select.select([ours], [], [], 60)[0]:
            said += os.read(ours, 4096)
    except OSError:  # it has ended, and with it its side of the terminal
        return said.decode(errors="replace"), process.wait()
    finally:
        process.kill()
        os.close(ours)
    raise AssertionError(f"it waits: {said!r}")
