"""The lines that give a gain without tfopt: which, when, and how they are printed."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.report_results import make_comparison, make_results, show

from tfopt_core.app import plain_form as module
from tfopt_core.app.apply_options import ApplyOptions
from tfopt_core.app.plain_form import changed_lines, plain_form
from tfopt_core.errors import WorkloadError
from tfopt_core.records.plain_form import ChangedLines, PlainForm
from tfopt_core.records.program import ExportedPlugin, Program
from tfopt_core.records.verdict import Verdict
from tfopt_core.report.plain_form import MOST_LINES, render_plain_form
from tfopt_core.report.terminal import Terminal

SCRIPT = "import keras\n\nmodel.compile('adam')\nmodel.fit(x)\n"
FASTER = SCRIPT.replace("'adam'", "'adam', steps_per_execution=32")


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """Ask for the plain form of a script's first contact, of which an export says this."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)

    def asked(exported, verdict=Verdict.FASTER, target="train.py"):
        def export(recipe, options, results):
            assert recipe == tmp_path / "train.tfopt.toml"
            if isinstance(exported, Exception):
                raise exported
            return exported

        monkeypatch.setattr(module, "_exported", export)
        results = make_results(comparison=make_comparison(verdict=verdict))
        return plain_form(ApplyOptions(target=target), results, Terminal(quiet=True))

    return asked


def program(script=FASTER, **changes):
    return Program(recipe="train", seed=1, epochs=1, versions={}, script=script, **changes)


def printed(form):
    return " ".join(show(render_plain_form(form), 100).split())


def test_a_gain_is_followed_by_the_lines_that_give_it(ask):
    form = ask(program())
    change = ("model.compile('adam')", "model.compile('adam', steps_per_execution=32)")
    assert form == PlainForm(
        recipe="train.tfopt.toml", file="train.py",
        changes=(ChangedLines(3, change[:1], change[1:]),),
    )  # fmt: skip
    assert printed(form) == (
        f"To keep this gain without tfopt, in train.py: line 3 - {change[0]} + {change[1]} "
        "with tfopt: tfopt train train.tfopt.toml"
    )


@pytest.mark.parametrize("verdict", [one for one in Verdict if one not in module.GAINS])
def test_without_a_gain_nothing_is_proposed(ask, verdict):
    assert ask(program(), verdict) is None


def test_a_recipe_of_the_users_is_left_to_the_user(ask):
    assert ask(program(), target="train.toml") is None


def test_what_has_no_plain_form_says_so_and_is_trained_by_tfopt(ask):
    plugins = (ExportedPlugin(plugin="cleverness", left_out="it is too clever"),)
    text = printed(ask(program(plugins=plugins)))
    assert "cleverness has no form without tfopt: it is too clever" in text
    assert "steps_per_execution" not in text
    text = printed(ask(WorkloadError("fit is called in another file")))
    assert "there is no plain form of it: fit is called in another file" in text
    assert text.endswith("with tfopt: tfopt train train.tfopt.toml")


def test_long_code_is_left_to_an_export(ask):
    long = FASTER + "".join(f"line_{n}()\n" for n in range(MOST_LINES))
    text = printed(ask(program(long)))
    assert f"without tfopt: {MOST_LINES + 1} lines of plain TensorFlow, which tfopt export" in text
    assert "line_3()" not in text


def test_a_script_that_is_gone_by_then_harms_nothing(ask):
    Path("train.py").unlink()
    assert "train.py cannot be read" in ask(program()).why_not


def test_a_call_that_is_only_laid_out_anew_is_no_change():
    before = "history = model.fit(x, y,\n    epochs=[2])\n"
    after = "history = model.fit(\n    x,\n    y,\n    epochs=[2],\n)\n"
    assert list(changed_lines(before, after)) == []
    assert list(changed_lines(f"a\n{before}", f"a\nmodel.steps = 2\n{after}")) == [
        ChangedLines(2, (), ("model.steps = 2",))
    ]
    assert next(changed_lines(before, after.replace("2", "3"))).removed


def test_blank_lines_are_no_change():
    assert list(changed_lines("a\nb\n", "a\n\nb\n")) == []
    assert list(changed_lines("a\n\nb\n", "a\n\nnew\n\nb\n")) == [ChangedLines(3, (), ("new",))]
