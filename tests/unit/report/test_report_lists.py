"""The lists of plugins, recipes, findings, measurements and the processes of a cluster."""

import time
from pathlib import Path

import attrs
import pytest
from support.in_process import ended_with
from support.report_results import make_run, show

from tfopt_core.hooks.installed.inspection import PluginInfo, Setting
from tfopt_core.hooks.plugin_class import Traits
from tfopt_core.report.listing import (
    DoctorFinding,
    render_card,
    render_doctor,
    render_plugins,
    render_recipes,
)
from tfopt_core.report.results.pages import render_across, render_interim, render_runs
from tfopt_core.report.style.units import when_text
from tfopt_core.report.training import epoch_of_role, render_ends, render_roles
from tfopt_core.statistics.across import Across
from tfopt_core.statistics.results import Verdict
from tfopt_core.store.decoding import Interim, Overview
from tfopt_core.training.messages import EpochDone, RunReport
from tfopt_core.workers.local_cluster import Role, RoleEnd
from tfopt_core.workers.task import Failure

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


def test_plugins_stand_under_the_distribution_that_brings_them():
    text = show(render_plugins(PLUGINS))
    assert text.startswith(
        "other 2.0\n  a-third  cannot be loaded: no module named tpu\n\ntfopt 0.1\n"
    )
    assert "cache  Keeps examples. (input)" in text


def test_a_card_shows_headings_traits_and_settings():
    text = show(render_card(INFO))
    for part in ("cache\n  Keeps examples.", "What it does\n  Keeps them.", "Why it helps",
                 "targets       input", "requires      prefetch", "role          observer",
                 "model change  in-place", "hooks         build_dataset", "from          tfopt 0.1",
                 'storage  a string, default "auto"', "Where to keep them.",
                 "size     an integer, required"):  # fmt: skip
        assert part in text


def test_findings_say_what_to_do():
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


def test_nothing_to_list_is_said():
    assert show(render_plugins(())) == "no plugins are installed\n"
    assert show(render_recipes(())) == "no recipes are shipped\n"
    assert "nothing needs attention" in show(render_doctor(()))


OVERVIEW = Overview(
    id="20261121-125813-785d", created_at="2026-11-21T12:58:18.632+00:00", recipe="quickstart",
    recipe_sha256="ab" * 32, workload="fashion-mnist", state="finished", verdict=Verdict.FASTER,
    speedup=1.61, low=1.21, high=2.14, confidence=0.95, pairs=4, runs=8,
)  # fmt: skip
UNFINISHED = attrs.evolve(
    OVERVIEW, state="unfinished", verdict=None, speedup=None, low=None, high=None, confidence=None,
    pairs=0, runs=1,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def listed(*measurements):
    return show(render_runs(Path("p/.tfopt/runs.sqlite"), measurements))


def test_a_measurement_has_two_lines():
    lines = listed(OVERVIEW).splitlines()
    assert lines[1].split() == ["20261121-125813-785d", "quickstart", "faster", "4", "pairs",
                                "finished"]  # fmt: skip
    assert " ".join(lines[2].split()) == (
        "2026-11-21 12:58 fashion-mnist 1.61x (1.21 to 2.14) 8 runs"
    )


def test_no_measurement_is_said_in_one_sentence_with_the_place():
    said = 'nothing was measured yet: there is no measurement in "p/.tfopt/runs.sqlite"'
    assert listed().replace("\n", " ").strip() == said


def test_unfinished_is_explained_where_there_is_one():
    assert "unfinished: begun and never concluded" in listed(OVERVIEW, UNFINISHED)
    assert "unfinished" not in listed(OVERVIEW)
    assert "1 run\n" in listed(UNFINISHED)


def test_a_damaged_measurement_is_listed_with_what_cannot_be_read():
    damaged = attrs.evolve(UNFINISHED, id="bad", state="damaged", damage="its results cannot be "
                           "read: JSONDecodeError")  # fmt: skip
    text = " ".join(listed(OVERVIEW, damaged).split())
    assert "- 0 pairs damaged" in text
    assert "damaged: of bad its results cannot be read: JSONDecodeError; the others can" in text
    assert "damaged" not in listed(OVERVIEW, UNFINISHED)


def test_the_time_is_local_and_a_text_that_is_none_is_shown(monkeypatch):
    monkeypatch.setenv("TZ", "UTC-2")
    time.tzset()
    assert when_text("2026-11-21T23:58:18+00:00") == "2026-11-22 01:58"
    assert when_text("once") == "once"


@pytest.mark.parametrize("name", [LONG, HOSTILE])
@pytest.mark.parametrize("width", [40, 80])
def test_long_and_hostile_names_fit_and_are_inert(name, width):
    info = PluginInfo(name=name, summary=name, distribution=name, version=name,
                      sections=((name, name),), traits=TRAITS,
                      settings=(Setting(name=name, type=name, default=name, help=name),)
                      )  # fmt: skip
    broken = PluginInfo(name=name, distribution="", version="", error=name)
    strange = attrs.evolve(OVERVIEW, id=name, created_at=name, recipe=name, workload=name,
                           damage=name)  # fmt: skip
    run = make_run(0, name, status="failed", error=name)
    for page in (
        render_plugins((info, broken)),
        render_card(info),
        render_recipes({name: name}),
        render_doctor((DoctorFinding(subject=name, ok=False, detail=name, mend=name),)),
        render_interim(Interim(measurement=strange, runs=(run,))),
        render_across(attrs.evolve(FOUND, own_statements=(name, name), statement=name)),
        render_runs(Path("p/.tfopt/runs.sqlite"), (strange, UNFINISHED)),
    ):
        text = show(page, width)
        assert max(map(len, text.splitlines())) <= width
        assert "\x1b" not in text


def test_without_a_verdict_the_runs_are_listed():
    failed = make_run(1, "full", status="failed", error="killed by SIGKILL")
    text = show(render_interim(Interim(measurement=UNFINISHED, runs=(make_run(0), failed))))
    assert text.startswith("quickstart on fashion-mnist\n  id     20261121-125813-785d\n")
    assert "baseline        pair 1  2 min 3 s" in text
    assert "with the stack  pair 1  failed: killed by SIGKILL" in text
    assert "so there is no verdict" in " ".join(text.split())
    none = show(render_interim(Interim(measurement=UNFINISHED, runs=())))
    assert "Runs\n  none was finished" in none


FOUND = Across(
    ids=("20261120-090000-aa01", "20261121-100000-bb02"), verdict=Verdict.FASTER,
    own_statements=("faster: 1.25x (95% interval 1.24 to 1.26, 4 pairs)", "faster but worse: ..."),
    speedup=1.2, low=1.19, high=1.21, confidence=0.95,
    statement="B's stack is faster than A's: 1.20x (95% interval 1.19 to 1.21)",
)  # fmt: skip


def test_both_own_verdicts_stand_above_the_verdict_on_the_two():
    flowing = " ".join(show(render_across(FOUND)).split())
    assert flowing == (
        f"B's stack against A's A {FOUND.ids[0]} {FOUND.own_statements[0]} "
        f"B {FOUND.ids[1]} {FOUND.own_statements[1]} Verdict {FOUND.statement}"
    )


TRAINED = RunReport(fits=())
WORKERS = {"worker": ("127.0.0.1:2222", "127.0.0.1:2223")}
CHIEF, SECOND = (Role(addresses=WORKERS, job="worker", index=index) for index in range(2))
SERVER = Role(addresses={**WORKERS, "ps": ("127.0.0.1:2224",)}, job="ps", index=0)


def end(role, message=None, cause=None, called_off=False, **metrics):
    outcome = ended_with(message, cause)
    return RoleEnd(role=role, outcome=outcome, metrics=metrics, called_off=called_off, seconds=1.0)


def row(text, name):
    [line] = [line for line in text.splitlines() if line.startswith(name)]
    return line.split()


def test_each_role_is_listed_with_address_status_and_loss():
    text = show(
        render_ends(
            [
                end(SECOND, TRAINED, loss=0.51),
                end(CHIEF, TRAINED, loss=0.5),
                end(SERVER, cause="ended with the others", called_off=True),
            ],
            None,
        )
    )
    assert row(text, "worker 0") == ["worker", "0", "127.0.0.1:2222", "trained", "0.5000"]
    assert row(text, "worker 1") == ["worker", "1", "127.0.0.1:2223", "trained", "0.5100"]
    assert row(text, "parameter server 0")[4:] == ["ended", "with", "the", "chief", "-"]
    assert "Causes" not in text


def test_every_cause_is_told_in_the_order_of_the_ends():
    text = show(
        render_ends(
            [
                end(SECOND, cause="killed by SIGKILL"),
                end(CHIEF, Failure(error="E", message="worker 1 is gone", exit_code=3)),
            ],
            "its last line\x1b[31m",
        )
    )
    assert row(text, "worker 0")[-2:] == ["failed", "-"]
    causes = text.partition("Causes")[2]
    first, second = causes.index("worker 1 was killed by SIGKILL"), causes.index("worker 0: worker")
    assert first < second
    assert "Last words of worker 1" in causes
    assert "\x1b[31m" not in text


def test_epochs_of_other_workers_carry_their_name():
    message = EpochDone(0, {"loss": 0.51, "accuracy": 0.9})
    assert show(epoch_of_role(SECOND, message)) == "worker 1: epoch 1  loss 0.5100\n"


def test_all_roles_are_told_before_the_training():
    text = " ".join(show(render_roles([CHIEF, SECOND])).split())
    assert text == "on this machine: worker 0 (127.0.0.1:2222), worker 1 (127.0.0.1:2223)"
