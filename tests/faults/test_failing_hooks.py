"""A plugin that fails in a hook is named with the hook; a workload that fails, with its place."""

import sys
import textwrap

import pytest
from support.in_process import carry_out_here
from support.real_process import TINY, make_distribution, make_project, tiny_project

from tfopt_core.commands.main import run

pytestmark = pytest.mark.tensorflow

# Raises in the place that its setting names, and keeps to the contract elsewhere.
FAILS = '''
    import attrs
    from tfopt_core.plugins import Plugin, hookimpl

    @attrs.frozen(kw_only=True, eq=False)
    class Fails(Plugin):
        """Raises where it is told to."""

        where: str = attrs.field(metadata={"help": "The hook to raise in."})
        how: str = attrs.field(default="raises", metadata={"help": "What it does there."})

        def _maybe(self, hook, value=None):
            if hook != self.where:
                return value
            if self.how == "returns":
                return {"no": "such value"}
            if self.how == "exits":
                raise SystemExit(7)
            raise ZeroDivisionError(f"raised on purpose in {hook}")

        def equivalence(self):
            return self._maybe("equivalence", "exact")

        def resolve(self, probe):
            return self._maybe("resolve", self)

        @hookimpl
        def configure_runtime(self, options):
            return self._maybe("configure_runtime", options)

        @hookimpl
        def on_epoch_end(self):
            self._maybe("on_epoch_end")
'''


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return make_distribution(
        tmp_path_factory.mktemp("site"), "fails-dist", {"fails": "fails_module:Fails"},
        fails_module=FAILS,
    )  # fmt: skip


@pytest.fixture
def here(site, tmp_path, monkeypatch):
    """The command in this process, its runs too; `(exit code, output, errors)`."""
    monkeypatch.syspath_prepend(str(site))
    # other people's plugins are looked at in another process first
    monkeypatch.setenv("PYTHONPATH", str(site))
    carry_out_here(monkeypatch)
    project = tiny_project(tmp_path, plugin="fails")
    monkeypatch.chdir(project)
    yield lambda *arguments: run(arguments)
    for module in ("fails_module", "tiny", "other"):
        sys.modules.pop(module, None)


@pytest.mark.thorough
@pytest.mark.promise(
    25, injected="hooks that are called before the first run raise, return a dict, exit"
)
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("raises", "ZeroDivisionError: raised on purpose in "),
        ("returns", "returned"),
        ("exits", "SystemExit: 7"),
    ],
)
# the first two are called before any process starts, the last one in the dry build
@pytest.mark.parametrize("hook", ["equivalence", "configure_runtime", "resolve"])
def test_a_hook_that_fails_before_the_first_run_ends_the_command(hook, how, said, here, capsys):
    code = here(
        "apply", "recipe.toml", "--set", f"plugins.fails.where={hook}",
        "--set", f"plugins.fails.how={how}",
    )  # fmt: skip
    printed = capsys.readouterr()
    # its mathematics is asked for with the recipe's other problems
    assert code == (2 if hook == "equivalence" else 3), printed.err
    [line] = [line for line in printed.err.splitlines() if line.startswith("error: ")]
    assert '"fails"' in line
    assert (f"{said}{hook}" if how == "raises" else said) in line
    assert hook in line
    assert "Traceback" not in printed.err
    assert printed.out == ""


@pytest.mark.thorough
@pytest.mark.promise(25, injected="a hook of a run raises")
def test_a_hook_that_raises_in_a_run_fails_that_variant_only(here, capsys):
    code = here("apply", "recipe.toml", "--set", "plugins.fails.where=on_epoch_end", "-q")
    printed = capsys.readouterr()
    flowing = " ".join(printed.out.split())
    assert code == 3, printed.err
    assert 'plugin "fails", hook "on_epoch_end": raised ZeroDivisionError' in flowing
    assert "2 of 4 runs failed" in flowing
    assert "no verdict" in flowing
    assert "Traceback" not in printed.out + printed.err


# Workloads

FACTORIES = {
    "raises": ("def build(): raise KeyError('the moon')", "raised KeyError: 'the moon'"),
    "exits on import": ("raise SystemExit(4)", "cannot be imported: raised SystemExit: 4"),
    "returns nothing": (
        "def build(): pass",
        "returned type NoneType; return a tfopt_core.Workload",
    ),
    "is not there": ("def biuld(): pass", 'has no "build"; did you mean "biuld"?'),
    "has no such option": (
        "def build(*, classes=3): pass",
        'recipe.toml:3: workload.options.clases: workload "other.py:build" has no option "clases"; '
        'did you mean "classes"?',
    ),
    "has a model that raises": (
        TINY.format(says="pass").replace("return keras.Seq", "raise OSError('gone'); return Seq"),
        "build_model raised OSError: gone",
    ),
}


@pytest.mark.parametrize(("code", "said"), FACTORIES.values(), ids=FACTORIES)
def test_a_factory_that_is_wrong_is_bad_input(code, said, here, tmp_path, capsys, monkeypatch):
    (tmp_path / "other.py").write_text(textwrap.dedent(code))
    recipe = '[workload]\nfactory = "other.py:build"\n[[plugins]]\nuse = "prefetch"\n'
    if "option" in said:
        recipe = recipe.replace("[[plugins]]", "options = { clases = 2 }\n[[plugins]]")
    make_project(tmp_path, recipe)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert here("apply", "recipe.toml") == 2
    printed = capsys.readouterr()
    [line] = [line for line in printed.err.splitlines() if line.startswith("error: ")]
    assert said in line
    assert "Traceback" not in printed.err
    assert printed.out == ""


@pytest.mark.promise(16, injected="a loss of nan, a learning rate of 1e9")
@pytest.mark.parametrize(
    ("change", "epoch"),
    [
        ('loss=lambda y, p: (p - y) * float("nan")', 1),
        pytest.param(
            'optimizer=keras.optimizers.SGD(1e9), loss="mse"', None, marks=pytest.mark.thorough
        ),
    ],
    ids=["nan", "learning rate 1e9"],
)
def test_a_loss_that_is_no_number_fails_the_run_naming_metric_and_epoch(
    change, epoch, here, tmp_path, capsys
):
    code = TINY.format(says="pass").replace('optimizer="sgd", loss="mse"', change)
    (tmp_path / "tiny.py").write_text(textwrap.dedent(code))
    ended = here(
        "apply", "recipe.toml", "-q", "--set", "plugins.fails.where=nowhere",
        "--set", "workload.epochs=9",
    )  # fmt: skip
    flowing = " ".join(capsys.readouterr().out.split())
    assert ended == 3
    assert 'the metric "loss" was ' in flowing
    assert f"after epoch {epoch}" in flowing if epoch else "after epoch " in flowing
    assert "no verdict" in flowing
    assert "x faster" not in flowing
