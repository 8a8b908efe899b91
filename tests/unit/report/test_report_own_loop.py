"""What is printed of a training loop of a script's own."""

from typing import Any

import attrs
import pytest
from support.diagnosed import make_diagnosed, make_part
from support.report_results import make_fit, make_results, make_run, show

from tfopt_core.diagnosis.draft import (
    Draft,
    as_own_loop,
    draft_of,
    what_bounds,
    why_chosen,
)
from tfopt_core.errors import InputError
from tfopt_core.hooks.diagnosis import Finding
from tfopt_core.hooks.installed.suggest import Suggestion
from tfopt_core.recipe.model import WorkloadSpec
from tfopt_core.recipe.reading import read_recipe
from tfopt_core.records.dry_build import Estimate
from tfopt_core.records.run import OWN_LOOP
from tfopt_core.report.diagnosis import render_diagnosis
from tfopt_core.report.first_contact import render_look
from tfopt_core.report.results.pages import render_summary
from tfopt_core.report.training import render_script
from tfopt_core.trials.scripts.own_loop import baseline_in_words

EAGER = Finding(
    kind="runs-eagerly", detail="every operation of a step is started from Python",
    mend="put @tf.function above def train_step", place="train.py:12",
)  # fmt: skip
PREFETCH = Suggestion(
    plugin="prefetch", settings={}, bound=1.2, targets=("input",), equivalence="exact",
    summary="Makes batches ahead.", distribution="tfopt",
)  # fmt: skip


def diagnosed(**changes: Any) -> Any:
    given = {
        "own_loop": True, "dispatch_known": False, "input": make_part(0.2),
        "dispatch": make_part(0.0), "compute": make_part(0.8), "rounds": (), "findings": (EAGER,),
        "baseline": baseline_in_words(1200), "steps_per_epoch": 1200,
        "estimate": Estimate(step_seconds=0.01, seconds=12.0, steps=1200),
        "suggestions": (PREFETCH,), "proposed_stack": ("prefetch",),
    }  # fmt: skip
    return make_diagnosed(**{**given, **changes})


def draft(**changes: Any) -> Draft:
    found = diagnosed(**changes)
    spec = WorkloadSpec(script="train.py")
    return draft_of(found, attrs.evolve(spec, **as_own_loop(spec, found)), {})


def words(text: str) -> str:
    return " ".join(text.split())


def test_a_look_says_how_the_loop_is_measured_and_names_the_line_of_an_eager_step():
    said = words(show(render_look(draft()), 100))
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
    assert what_bounds(diagnosed()).startswith("80% of a step is dispatch and compute")
    compute = attrs.evolve(PREFETCH, targets=("compute",), bound=None)
    assert "80% of a step is dispatch and compute" in why_chosen(compute, diagnosed())


@pytest.mark.parametrize("limit", ["fit", "max_epochs"])
def test_a_limit_of_fit_is_refused_once_the_loop_is_known(limit):
    spec = WorkloadSpec(script="train.py", **{limit: 1})
    with pytest.raises(InputError, match="trains in a loop of its own; --max-steps"):
        as_own_loop(spec, diagnosed())
    assert as_own_loop(spec, make_diagnosed()) == {}


def test_a_diagnosis_claims_nothing_that_a_loop_does_not_show():
    said = words(show(render_diagnosis(diagnosed(), "mine.toml"), 100))
    assert "An update in the script's own loop takes" in said
    assert "XLA" not in said.partition("The most that can be gained")[0]


def test_a_summary_and_a_training_speak_of_updates():
    fit = attrs.evolve(make_fit(), name=OWN_LOOP, steps=1200, metrics={}, history={})
    runs = tuple(
        attrs.evolve(make_run(n, variant), fits=(fit,))
        for n, variant in enumerate(("baseline", "full"))
    )
    said = words(show(render_summary(make_results(runs=runs, baseline=baseline_in_words(None)))))
    assert "in its own loop, from the first step to its end" in said
    assert "XLA" not in said
    assert f"{OWN_LOOP}: 1,200 updates in" in words(show(render_script(runs[0], None)))
