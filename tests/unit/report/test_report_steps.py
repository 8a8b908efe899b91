"""What `tfopt plan` and `tfopt diagnose` print, also of a training loop of a script's own."""

import io
import tomllib

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.diagnosed import make_diagnosed, make_part
from support.drafts import suggestion
from support.report_results import make_fit, make_plan, make_prepared, make_results, make_run, show

from tfopt_core.diagnosis.draft import as_own_loop, draft_of, what_bounds, why_chosen
from tfopt_core.diagnosis.results import EpochPart
from tfopt_core.errors import InputError
from tfopt_core.hooks.diagnosis import PARTS, Finding
from tfopt_core.hooks.installed.suggest import NoAnswer
from tfopt_core.recipe.model import WorkloadSpec
from tfopt_core.recipe.reading import read_recipe
from tfopt_core.report.diagnosis import Bar, lengths, render_diagnosis, render_look, snippet
from tfopt_core.report.live import make_phases
from tfopt_core.report.plan import render_plan
from tfopt_core.report.results.pages import render_summary
from tfopt_core.report.style.console import make_console
from tfopt_core.report.training import render_script
from tfopt_core.training.messages import OWN_LOOP
from tfopt_core.trials.request import Estimate
from tfopt_core.trials.scripts.own_loop import baseline_in_words


def page(target="mine.toml", width=100, **changes):
    return show(render_diagnosis(make_diagnosed(**changes), target), width)


@given(shares=st.lists(st.floats(0.001, 1), min_size=3, max_size=3), width=st.integers(1, 200))
def test_the_bar_is_as_long_as_it_is_whatever_the_shares(shares, width):
    whole = {str(n): share / sum(shares) for n, share in enumerate(shares)}
    made = lengths(whole, width)
    assert sum(made.values()) == width
    assert all(abs(made[name] - share * width) <= 1 for name, share in whole.items())


def test_a_terminal_without_blocks_gets_plain_signs():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    parts = {"input": make_part(0.5), "dispatch": make_part(0.0), "compute": make_part(0.5)}
    make_console(width=70, file=stream, environ={}).print(Bar(make_diagnosed(**parts)))
    stream.seek(0)
    assert "#" * 30 + "." * 30 in stream.read()


def test_each_part_has_its_seconds_its_share_and_what_rounds_say():
    text = page()
    bar = page(width=70).splitlines()[6]
    assert [bar.count(sign) for sign in "█▓░"] == [18, 6, 36]
    assert "A step takes 10.0 ms" in text
    assert "input     3.00 ms  30% (28 to 33%)  waiting for the next batch" in text
    assert "read alone, a batch takes 4.00 ms; medians of 3 rounds" in text


def test_what_is_within_noise_or_not_told_apart_says_so():
    text = page(dispatch_known=False, dispatch=make_part(0.0), compute=make_part(0.7))
    assert "dispatch and compute, not told apart" in text
    assert "dispatch: too small to measure" in page(dispatch=make_part(0.1, -0.05, 0.2))
    assert "too small" not in page(dispatch=make_part(0.0, -0.05, 0.0))


def test_the_peak_and_the_bounds_for_each_kind_of_plugin_are_printed():
    text = " ".join(page().split())
    assert "computes in float32, the model reaches 25.0% of this machine's matrix" in text
    assert "150 GFLOP/s" in text
    assert "GFLOP/s" not in page(matmul_share=None)
    assert all(f"any {part} plugin" in text for part in PARTS)
    assert "any input plugin 1.43x" in text
    assert "any dispatch plugin 1.67x" in text
    assert "any compute plugin 2.5x" in text
    assert "input and dispatch unlimited" in text


def test_a_finding_has_its_place_and_its_mend(monkeypatch):
    finding = Finding(
        kind="sequential-map", detail="decode is slow", mend="make it parallel", split="train",
        place="/elsewhere/data.py:12",
    )  # fmt: skip
    text = page(findings=(finding,))
    assert "sequential map: decode is slow (/elsewhere/data.py:12, train data)" in text
    assert "-> make it parallel" in text
    assert "nothing that costs time by itself" in page()


def test_suggestions_are_numbered_bounded_and_can_be_pasted():
    both = (
        suggestion("cache", bound=1.5, settings={"storage": "disk", "sizes": [1, 2]}),
        suggestion("chunked", bound=None, equivalence="order", left_out='conflicts with "cache"'),
    )
    text = page(suggestions=both, proposed_stack=("cache",))
    assert "1.  cache    at most about 1.50x  Does what cache does; storage" in text
    assert "2.  chunked                       Does what chunked does" in text
    assert 'not below: conflicts with "cache"' in " ".join(text.split())
    assert "tfopt apply mine.toml" in " ".join(text.split())
    pasted = text[text.index("[[plugins]]") : text.index("took ")]
    lines = "\n".join(line.strip() for line in pasted.splitlines())
    assert tomllib.loads(lines) == {
        "plugins": [{"use": "cache", "storage": "disk", "sizes": [1, 2]}]
    }


@given(
    st.dictionaries(
        st.from_regex(r"[a-z_]{1,9}", fullmatch=True).filter(lambda key: key != "use"),
        st.booleans() | st.integers(-99, 99) | st.text() | st.lists(st.integers(0, 9))
        | st.floats(allow_nan=False, allow_infinity=False),
    )
)  # fmt: skip
def test_whatever_settings_are_proposed_the_snippet_is_toml(settings):
    read = tomllib.loads(snippet([suggestion("a", settings=settings)]))
    assert read == {"plugins": [{"use": "a", **settings}]}


def test_plugins_without_an_answer_are_named():
    silent = NoAnswer(plugin="bad", distribution="theirs", cause="ImportError: \x1b[31mno")
    text = page(silent=(silent,))
    assert "bad (theirs): ImportError: \\x1b[31mno" in text


def test_phases_are_lines_where_there_is_no_terminal_and_nothing_if_quiet():
    for quiet, expected in ((False, "building\ntiming\n"), (True, "")):
        stream = io.StringIO()
        with make_phases(make_console(quiet=quiet, file=stream, environ={})) as tell:
            tell("building")
            tell("timing")
        assert stream.getvalue() == expected


def test_the_parts_of_an_epoch_have_their_seconds_and_share():
    parts = (
        EpochPart(name="validation", seconds=0.5, note="projected from 5 of 10 batches"),
        EpochPart(name="ModelCheckpoint", seconds=0.5),
        EpochPart(name="Mine", note="not timed: it is not called"),
    )
    page = show(render_diagnosis(make_diagnosed(epoch_parts=parts), "mine.toml"))
    assert "An epoch takes 2.00 s" in page
    rows = [" ".join(line.split()) for line in page.splitlines()]
    assert "steps 1.00 s 50% 100 steps" in rows
    assert "validation 500 ms 25% projected from 5 of 10 batches" in rows
    assert "Mine not timed: it is not called" in rows
    open_ended = make_diagnosed(epoch_parts=parts, steps_per_epoch=None)
    page = show(render_diagnosis(open_ended, "mine.toml"))
    assert "Besides its steps an epoch takes 1.00 s" in page
    assert "An epoch takes" not in show(render_diagnosis(make_diagnosed(), "mine.toml"))


def plan(width=80, **changes):
    return show(render_plan(make_prepared(**changes), "fashion-fast"), width)


def test_settings_show_what_auto_became():
    text = plan()
    assert "policy: auto -> mixed_bfloat16, keep: []" in text
    assert "storage: memory" in text
    assert "the same training, rounded differently" in text


def test_plugins_stand_in_the_order_of_the_stack_with_what_they_change():
    text = plan()
    assert text.index("1. mixed-precision") < text.index("2. cache")
    assert "configure_precision        policy: float32 -> mixed_bfloat16" in text
    assert "build_dataset, train       cache: in memory, after map_examples" in text
    assert "build_dataset, validation" not in text


def test_a_plugin_that_would_change_nothing_says_so_with_the_reason_if_it_is_certain():
    idle = make_plan("idle")
    assert "nothing here\n" in plan(plugins=(idle,))
    assert "nothing here: no GPU" in plan(plugins=(idle,), not_applied={"idle": "no GPU"})


def test_a_data_plan_is_compared_stage_by_stage():
    lines = [line.strip() for line in plan().splitlines()]
    assert "+  cache: in memory" in lines
    assert "unchanged by the stack" in lines  # that of the validation
    assert lines.index("-  prefetch: 1") < lines.index("+  prefetch: auto")


def test_facts_and_warnings_are_shown():
    text = plan(warnings=("no GPU was found",))
    for part in ("421,642 trainable", "5 epochs of 1,875 steps, batch size 32", "val_accuracy, "
                 "higher is better; 10,000 validation examples", "- no GPU was found"):  # fmt: skip
        assert part in text
    assert "no metric that is known to be better high, or low" in plan(quality_metric="")


def test_a_loop_of_the_scripts_own_has_no_epochs_and_no_metric():
    loop = {"own_loop": True, "quality_metric": "", "quality_direction": None}
    text = " ".join(plan(**loop, steps_per_epoch=None).split())
    assert "training as long as the script's own loop goes on, batch size 32" in text
    assert "its time alone" in text
    assert "300 updates, after which a run ends" in plan(**loop, steps_per_epoch=300)


def test_unknown_facts_are_left_out():
    text = plan(steps_per_epoch=None, batch_size=None, validation_examples=None, baseline="",
                versions={}, data_before={}, data_after={})  # fmt: skip
    assert "None" not in text


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_no_line_is_wider_than_the_console(width):
    name = "x" * 100
    long = make_plan(name, settings={name: name}, asked={name: "auto"}, summary=name)
    text = plan(width, plugins=(long,), data_after={"train": (name, name)}, baseline=name)
    assert max(map(len, text.splitlines())) <= width


EAGER = Finding(
    kind="runs-eagerly", detail="every operation of a step is started from Python",
    mend="put @tf.function above def train_step", place="train.py:12",
)  # fmt: skip
PREFETCH = suggestion("prefetch", bound=1.2)


def of_loop(**changes):
    given = {
        "own_loop": True, "dispatch_known": False, "input": make_part(0.2),
        "dispatch": make_part(0.0), "compute": make_part(0.8), "rounds": (), "findings": (EAGER,),
        "baseline": baseline_in_words(1200), "steps_per_epoch": 1200,
        "estimate": Estimate(step_seconds=0.01, seconds=12.0, steps=1200),
        "suggestions": (PREFETCH,), "proposed_stack": ("prefetch",),
    }  # fmt: skip
    return make_diagnosed(**{**given, **changes})


def draft(**changes):
    found = of_loop(**changes)
    spec = WorkloadSpec(script="train.py")
    return draft_of(found, attrs.evolve(spec, **as_own_loop(spec, found)), {})


def flowing(text):
    return " ".join(text.split())


def test_a_look_says_how_the_loop_is_measured_and_names_the_line_of_an_eager_step():
    said = flowing(show(render_look(draft()), 100))
    assert "An update in the loop of train.py takes" in said
    assert "input 20% dispatch and compute 80%" in said
    assert "from the first step to its update 1,200" in said
    assert "train.py:12" in said
    assert "put @tf.function above def train_step" in said


def test_the_recipe_names_the_loop_and_where_its_runs_end(tmp_path):
    text = draft().text()
    (tmp_path / "train.tfopt.toml").write_text(text)
    workload = read_recipe(tmp_path / "train.tfopt.toml").require().workload
    assert (workload.loop, workload.max_steps) == ("own", 1200)
    assert "an update in its own loop took" in text
    assert "max_epochs" not in text
    assert "quality" not in text


def test_what_is_not_told_apart_is_one_part():
    assert what_bounds(of_loop()).startswith("80% of a step is dispatch and compute")
    compute = attrs.evolve(PREFETCH, targets=("compute",), bound=None)
    assert "80% of a step is dispatch and compute" in why_chosen(compute, of_loop())


@pytest.mark.parametrize("limit", ["fit", "max_epochs"])
def test_a_limit_of_fit_is_refused_once_the_loop_is_known(limit):
    spec = WorkloadSpec(script="train.py", **{limit: 1})
    with pytest.raises(InputError, match="trains in a loop of its own; --max-steps"):
        as_own_loop(spec, of_loop())
    assert as_own_loop(spec, make_diagnosed()) == {}


def test_a_diagnosis_claims_nothing_that_a_loop_does_not_show():
    said = flowing(show(render_diagnosis(of_loop(), "mine.toml"), 100))
    assert "An update in the script's own loop takes" in said
    assert "XLA" not in said.partition("The most that can be gained")[0]


def test_a_summary_and_a_training_speak_of_updates():
    fit = attrs.evolve(make_fit(), name=OWN_LOOP, steps=1200, metrics={}, history={})
    runs = tuple(
        attrs.evolve(make_run(n, variant), fits=(fit,))
        for n, variant in enumerate(("baseline", "full"))
    )
    said = flowing(show(render_summary(make_results(runs=runs, baseline=baseline_in_words(None)))))
    assert "in its own loop, from the first step to its end" in said
    assert "XLA" not in said
    assert f"{OWN_LOOP}: 1,200 updates in" in flowing(show(render_script(runs[0], None)))
