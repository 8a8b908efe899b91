"""Lists of plugins, recipes and findings, and a plugin's card."""

from __future__ import annotations

import pytest
from rich.console import RenderableType
from support.report_results import show

from tfopt_core.hooks.card import Traits
from tfopt_core.hooks.installed.inspection import PluginInfo, Setting
from tfopt_core.report.listing import (
    DoctorFinding,
    render_card,
    render_doctor,
    render_plugins,
    render_recipes,
)

LONG = "long-" * 30
HOSTILE = "[/red]\x1b[31m"
TRAITS = Traits(
    targets=("input",), role="observer", model_change="in-place", requires=("prefetch",),
    conflicts=(), before=(), after=(),
)  # fmt: skip
PLUGINS = (
    PluginInfo(name="cache", summary="Keeps examples.", distribution="tfopt", version="0.1",
               traits=TRAITS),
    PluginInfo(name="a-third", distribution="other", version="2.0", error="no module named tpu"),
)  # fmt: skip
SETTINGS = (
    Setting(name="storage", type="a string", default='"auto"', help="Where to keep them."),
    Setting(name="size", type="an integer", default=None, help=""),
)
INFO = PluginInfo(name="cache", summary="Keeps examples.", distribution="tfopt", version="0.1",
                  sections=(("What it does", "Keeps them."), ("Why it helps", "Reads once.")),
                  traits=TRAITS, hooks=("build_dataset",), settings=SETTINGS)  # fmt: skip


def pages(name: str) -> list[RenderableType]:
    info = PluginInfo(name=name, summary=name, distribution=name, version=name,
                      sections=((name, name),), traits=TRAITS,
                      settings=(Setting(name=name, type=name, default=name, help=name),)
                      )  # fmt: skip
    broken = PluginInfo(name=name, distribution="", version="", error=name)
    return [
        render_plugins((info, broken)),
        render_card(info),
        render_recipes({name: name}),
        render_doctor((DoctorFinding(subject=name, ok=False, detail=name, mend=name),)),
    ]


def test_plugins_stand_under_the_distribution_that_brings_them() -> None:
    text = show(render_plugins(PLUGINS))
    assert text.startswith(
        "other 2.0\n  a-third  cannot be loaded: no module named tpu\n\ntfopt 0.1\n"
    )
    assert "cache  Keeps examples. (input)" in text


def test_a_card_shows_headings_traits_and_settings() -> None:
    text = show(render_card(INFO))
    for part in ("cache\n  Keeps examples.", "What it does\n  Keeps them.", "Why it helps",
                 "targets       input", "requires      prefetch", "role          observer",
                 "model change  in-place", "hooks         build_dataset", "from          tfopt 0.1",
                 'storage  a string, default "auto"', "Where to keep them.",
                 "size     an integer, required"):  # fmt: skip
        assert part in text


def test_recipes_have_a_line_each() -> None:
    text = show(render_recipes({"fashion-fast": "Small images."}))
    assert text.startswith("fashion-fast  Small images.\n")


def test_findings_say_what_to_do() -> None:
    text = show(render_doctor((
        DoctorFinding(subject="python", ok=True, detail="3.12.9", mend="hidden"),
        DoctorFinding(subject="gpu", ok=None, detail="none"),
        DoctorFinding(subject="tensorflow", ok=False, detail="not found", mend="pip install it"),
    )))  # fmt: skip
    assert "✓  python      3.12.9" in text
    assert "-  gpu         none" in text
    assert "✗  tensorflow  not found\n               pip install it" in text
    assert "1 of 3 need attention" in text
    assert "hidden" not in text


def test_nothing_to_list_is_said() -> None:
    assert show(render_plugins(())) == "no plugins are installed\n"
    assert show(render_recipes(())) == "no recipes are shipped\n"
    assert "nothing needs attention" in show(render_doctor(()))


@pytest.mark.parametrize("name", [LONG, HOSTILE])
@pytest.mark.parametrize("width", [40, 80])
def test_long_and_hostile_names_fit_and_are_inert(name: str, width: int) -> None:
    for page in pages(name):
        text = show(page, width)
        assert max(map(len, text.splitlines())) <= width
        assert "\x1b" not in text
