"""What is proposed for a script, what bounds it, and how it is written down."""

import attrs
import pytest
from support.drafts import SLOWER, Diagnosed, about, attempt, draft, left, suggestion
from support.report_results import show

from tfopt_core.diagnosis.draft import (
    LeftOut,
    check_free,
    draft_of,
    is_unchanged,
    sealed,
    what_bounds,
    why_chosen,
)
from tfopt_core.diagnosis.screening import screened
from tfopt_core.errors import InputError
from tfopt_core.hooks.diagnosis import Finding
from tfopt_core.hooks.installed.suggest import ExactForm
from tfopt_core.recipe.model import WorkloadSpec
from tfopt_core.recipe.reading import read_recipe
from tfopt_core.report.diagnosis import render_nothing_in_full, render_written
from tfopt_core.report.results.answer import render_nothing


@pytest.fixture
def path(tmp_path):
    """Where the recipe of a script is written."""
    (tmp_path / "train.py").touch()
    return tmp_path / "train.tfopt.toml"


def told_of(left_out, *findings):
    """What is said where nothing is measured."""
    diagnosed = Diagnosed()
    diagnosed.findings = findings
    nothing = attrs.evolve(draft(), diagnosed=diagnosed, left_out=left_out).nothing("train.py")
    return show(render_nothing_in_full(nothing))


def test_what_bounds_a_step_is_its_largest_part_and_the_most_that_the_rest_can_gain():
    assert what_bounds(Diagnosed()) == (
        "50% of a step is compute: what shortens only the rest of it gains 2.00x at most; while it "
        "computes, the model reaches 40% of this machine's fastest float32 matrix products"
    )


def test_what_bounds_a_fit_of_one_batch_is_fit_itself():
    diagnosed = Diagnosed()
    diagnosed.findings = (Finding(kind="fit-for-a-batch", detail=""),)
    assert what_bounds(diagnosed) == (
        "most of a call is what fit() does around its one step, which no plugin shortens"
    )


def test_where_nothing_is_gained_each_trial_is_told_and_how_to_measure_all_the_same():
    stays = screened(draft("a", "b", "c"), attempt(SLOWER), lambda plugin: None)
    told = " ".join(show(render_nothing_in_full(stays.nothing("train.py"))).split())
    assert "a: a step does not seem to become faster with it (from about 10 ms to 10.5 ms)" in told
    assert 'c: plugin "c": no GPU' in told
    assert "nothing was measured, and no recipe was written" in told
    assert "50% of a step is compute" in told
    assert "--measure-anyway" in told


def test_where_some_were_not_tried_it_does_not_say_that_nothing_is_to_be_gained():
    left_out = (
        LeftOut("a", "slower", about(20)), LeftOut("b", "no time", untried=True),
        LeftOut("a", "with other settings: no time", untried=True),
    )  # fmt: skip
    told = " ".join(told_of(left_out).split())
    assert "Nothing found so far" in told
    assert "no time was left to try b; a recipe that names them is measured" in told
    nothing = told_of(left_out[:1])
    assert "Nothing to gain" in nothing
    assert "To change by hand" not in nothing
    by_hand = Finding(kind="a", detail="", mend="call train_on_batch")
    assert "call train_on_batch" in told_of(left_out[:1], by_hand)


def test_the_answer_of_nothing_to_gain_has_ten_lines_at_most():
    left_out = [LeftOut(f"plugin-{number}", "slower", about(20)) for number in range(9)]
    left_out += [LeftOut(f"late-{number}", "no time", untried=True) for number in range(9)]
    diagnosed = Diagnosed()
    diagnosed.findings = [Finding(kind="a", detail="long " * 20, mend="call train_on_batch")] * 3
    nothing = attrs.evolve(draft(), diagnosed=diagnosed, left_out=tuple(left_out))
    told = show(render_nothing(nothing.nothing("train.py")))
    assert len(told.strip().splitlines()) <= 10, told
    assert told.startswith("train.py: nothing found so far\n")
    parts = ["why ", "bound ", "tried ", "untried ", "(2 more)", "next ", "more "]
    for said in (*parts, "about 10.0 s; with plugin-0 20.0 s"):
        assert said in told


def test_the_next_command_names_a_module_as_one_and_has_the_arguments_of_the_script():
    proposed = draft()
    nothing = attrs.evolve(proposed, workload={**proposed.workload, "args": ["--fast"]})
    told = show(render_nothing(nothing.nothing("package.train")))
    assert "tfopt apply -m package.train --verbose" in told
    assert told.rstrip().endswith("-- --fast")


@pytest.mark.parametrize("left_out", [(), (LeftOut("a", "no GPU"),)])
def test_where_nothing_could_be_tried_nothing_can_be_measured_anyway(left_out):
    assert "--measure-anyway" not in told_of(left_out)


def test_a_bound_is_rounded_up_so_that_it_stays_one_and_left_out_where_it_tells_nothing():
    for bound in (None, 10.0, 119.93):
        why = why_chosen(suggestion("loop", bound=bound), Diagnosed())
        assert why == "Does what loop does. Here 25% of a step is input."
    assert "at most about 2.7x" in why_chosen(suggestion("loop", bound=2.61), Diagnosed())
    assert "at most about 1.10x" in why_chosen(suggestion("loop", bound=1.1), Diagnosed())


def test_the_written_recipe_reads_back_with_its_plugins(path):
    path.write_text(left(draft("cache"), ("prefetch", "slower")).text(["faster: 2x"]))
    recipe = read_recipe(path).require()
    assert recipe.workload.script == "train.py"
    assert [entry.use for entry in recipe.plugins] == ["cache"]
    assert recipe.measure.budget_seconds == 90
    text = path.read_text()
    assert "# left out: slower" in text
    assert "# faster: 2x" in text


def test_a_recipe_that_somebody_changed_is_not_written_over(path):
    path.write_text(draft("cache").text().replace("90s", "5m"))
    with pytest.raises(InputError, match="was changed since tfopt wrote it"):
        check_free(path)


def test_the_seal_forgives_no_change_but_white_space():
    assert is_unchanged(sealed("a = 1\n"))
    assert is_unchanged(sealed("a = 1\n").replace("a = 1", "a =  1"))
    assert not is_unchanged(sealed("a = 1\n").replace("1", "2", 1))
    assert not is_unchanged("a = 1\n")


LOW = suggestion("low", equivalence="rounding", settings={"policy": "auto"})


def read(path):
    recipe = read_recipe(path).require()
    return {entry.use: dict(entry.settings) for entry in recipe.plugins}


def test_what_is_not_exact_is_written_as_a_comment_in_its_place(path):
    path.write_text(draft("a", "loop", additions=(LOW,)).text())
    assert read(path) == {"a": {}, "loop": {}}
    text = path.read_text()
    assert text.index('use = "loop"') < text.index('# use = "low"')
    path.write_text(text.replace("# [[plugins]]", "[[plugins]]").replace("# use", "use").replace(
        "# policy", "policy"
    ))  # fmt: skip
    assert read(path) == {"a": {}, "loop": {}, "low": {"policy": "auto"}}


def test_another_setting_of_a_plugin_is_a_comment_below_its_own(path):
    exact = suggestion("loop", settings={"xla": False})
    other = suggestion("loop", settings={"xla": True}, equivalence="rounding")
    made = draft(additions=(other,))
    path.write_text(type(made)(made.script, made.workload, made.diagnosed, (exact,),
                               (other,), measure=made.measure).text())  # fmt: skip
    assert read(path) == {"loop": {"xla": False}}
    assert "\n# xla = true " in path.read_text().partition("xla = false")[2]
    assert path.read_text().count('use = "loop"') == 1


def test_a_plugin_that_was_tried_with_two_settings_stands_once(path):
    made = left(
        draft("a"), ("loop", "kept exact: slow"), ("loop", "slow"),
        ("a", "where it may round differently: slow"),
    )  # fmt: skip
    path.write_text(made.text())
    assert read(path) == {"a": {}}
    assert path.read_text().count('use = "loop"') == path.read_text().count('use = "a"') == 1
    assert "left out: kept exact: slow; slow" in path.read_text()


def proposing(*suggestions):
    """A diagnosis that proposes these, in their order."""
    found = Diagnosed()
    found.suggestions = suggestions
    found.proposed_stack = tuple(one.plugin for one in suggestions)
    return found


def test_a_proposal_is_parted_into_what_is_exact_and_what_is_added_to_it():
    form = ExactForm(settings={"xla": False}, bound=1.2, equivalence="exact")
    loop = suggestion("loop", equivalence="rounding", exact_form=form)
    order = suggestion("order", equivalence="order")
    found = proposing(suggestion("a"), LOW, loop, order, suggestion("new", equivalence="unknown"))
    made = draft_of(found, WorkloadSpec(script="train.py"), {})
    assert [(one.plugin, one.settings) for one in made.stack] == [
        ("a", {}), ("loop", {"xla": False}), ("order", {})
    ]  # fmt: skip
    assert [one.plugin for one in made.additions] == ["low", "loop", "new"]
    assert [one.plugin for one in made.extended] == ["a", "low", "loop", "order", "new"]


def test_what_changes_the_algorithm_is_left_out_since_only_a_target_can_judge_it():
    found = proposing(suggestion("a"), suggestion("fewer", equivalence="changes"))
    made = draft_of(found, WorkloadSpec(script="train.py"), {})
    assert [one.plugin for one in made.extended] == ["a"]
    assert "only a recipe with a target" in made.left_out[0].reason


def test_before_it_is_measured_the_page_says_what_the_verdict_is_about(path):
    told = " ".join(show(render_written(draft("a", additions=(LOW,)), path)).split())
    assert "the stack a: should not change the results; checked by a replay" in told
    assert "on top of it low: not exact" in told
    assert "runs the script with it" in told
    told = " ".join(show(render_written(draft(additions=(LOW,)), path)).split())
    assert "low: not exact, and all that seems to save time here" in told
    assert "runs the script with it" not in told
