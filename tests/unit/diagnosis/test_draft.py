"""What is proposed for a script, screened, and written down."""

import io

import pytest
from rich.console import Console

from tfopt_core.diagnosis.draft import (
    Draft,
    LeftOut,
    Tried,
    budget_seconds,
    screened,
    try_seconds,
    what_bounds,
    why_chosen,
)
from tfopt_core.diagnosis.recipe_seal import check_free, is_unchanged, sealed
from tfopt_core.errors import (
    InputError,
    PluginRefused,
    PreparationFailed,
    Problem,
    RecipeError,
)
from tfopt_core.hooks.installed.suggest import Suggestion
from tfopt_core.recipe import read_recipe
from tfopt_core.records.diagnosis import Bounds, MatmulUse, Roofline, StepPart
from tfopt_core.records.estimate import Estimate
from tfopt_core.report.first_contact import render_nothing


class Diagnosed:
    """What a draft reads of a diagnosis."""

    step_seconds = 0.012
    own_loop, dispatch_known = False, True
    input = StepPart(seconds=0.003, share=0.25, low=0.2, high=0.3)
    dispatch = StepPart(seconds=0.003, share=0.25, low=0.2, high=0.3)
    compute = StepPart(seconds=0.006, share=0.5, low=0.4, high=0.6)
    estimate = Estimate(step_seconds=0.01, seconds=10.0, steps=1000)
    matmul = MatmulUse(
        dtype="float32", operations=1e9, why_not="", share_computing=0.4, share_of_step=0.2,
        peaks={},
    )  # fmt: skip
    bounds = Bounds(
        input=1.33, dispatch=1.33, compute=1.3, compute_rounding=1.72, input_and_dispatch=2.0
    )
    roofline = Roofline(fastest="bfloat16")


def suggestion(name: str, **changes) -> Suggestion:
    plain = {
        "plugin": name, "settings": {}, "bound": 1.33, "targets": ("input",), "math": "exact",
        "summary": f"Does what {name} does.", "distribution": "tfopt",
    }  # fmt: skip
    return Suggestion(**{**plain, **changes})


def draft(*names: str) -> Draft:
    return Draft(
        "train.py", {"script": "train.py"}, Diagnosed(), tuple(map(suggestion, names)),
        measure={"budget": "90s"},
    )  # fmt: skip


def attempt(found: dict[tuple[str, ...], Estimate | Exception], idle: dict[str, str] | None = None):
    """What a training with a stack takes, by its plugins; the baseline takes 10 s."""

    def tried(candidate: Draft) -> Tried:
        names = tuple(one.plugin for one in candidate.stack)
        taken = found[names]
        if isinstance(taken, Exception):
            raise taken
        return Tried(names, taken, idle or {})

    return tried


def about(step_milliseconds: float, seconds: float | None = None) -> Estimate:
    """A training of 1,000 steps."""
    return Estimate(step_milliseconds / 1e3, seconds or step_milliseconds, steps=1000)


def shown(renderable) -> str:
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(renderable)
    return console.export_text()


def names(stack: Draft) -> list[str]:
    return [one.plugin for one in stack.stack]


def test_plugins_that_save_time_stay_each_on_top_of_those_before():
    stays, tried = screened(
        draft("a", "b", "c"),
        attempt({("a",): about(8), ("a", "b"): about(8.1), ("a", "c"): about(6)}),
        lambda plugin: None,
    )
    assert names(stays) == ["a", "c"]
    assert tried.prepared == ("a", "c")
    [left] = stays.left_out
    assert left.plugin == "b"
    assert "from about 8 ms to 8.1 ms" in left.reason


def test_a_plugin_whose_start_costs_more_than_it_saves_is_left_out():
    stays, _ = screened(draft("a"), attempt({("a",): about(5, 14)}), lambda plugin: None)
    assert names(stays) == []
    assert "about 14 s in place of 10 s" in stays.left_out[0].reason


def test_a_plugin_that_saves_less_than_starts_differ_by_is_left_out():
    short = Estimate(0.005, 1.5, steps=40)
    stays, _ = screened(draft("a"), attempt({("a",): short}), lambda plugin: None)
    assert names(stays) == []
    faster = Estimate(0.004, 2.0, steps=40)
    stays, _ = screened(
        draft("a", "b"), attempt({("a",): about(5), ("a", "b"): faster}), lambda plugin: None
    )
    assert names(stays) == ["a"]
    assert "saves about 0.04 s of a training" in stays.left_out[0].reason


def test_a_plugin_that_the_script_cannot_take_is_left_out_without_a_place_in_a_recipe():
    problem = Problem("/tmp/x/trial.toml", 8, "workload.script", "fit 1 raised TypeError")
    stays, _ = screened(draft("a"), attempt({("a",): RecipeError((problem,))}), lambda plugin: None)
    assert stays.left_out[0].reason == "fit 1 raised TypeError"


SLOWER = {("a",): about(10.5, 30), ("b",): about(10, 20), ("c",): PluginRefused("no GPU", "c")}


def test_where_none_seems_to_save_time_none_stays_and_what_each_did_is_kept():
    stays, tried = screened(draft("a", "b", "c"), attempt(SLOWER), lambda plugin: None)
    assert names(stays) == []
    assert tried is None
    found = {left.plugin: left.estimate for left in stays.left_out}
    assert found == {"a": about(10.5, 30), "b": about(10, 20), "c": None}


def test_measured_anyway_is_the_one_that_costs_least_however_much():
    stays, tried = screened(
        draft("a", "b", "c"), attempt(SLOWER), lambda plugin: None, measure_anyway=True
    )
    assert names(stays) == ["b"]
    assert [left.plugin for left in stays.left_out] == ["a", "c"]
    assert tried is not None
    assert not stays.hopeful
    assert "as --measure-anyway asks" in stays.text().replace("\n# ", " ")


def test_what_saves_time_is_measured_alone_whatever_is_asked_for():
    found = attempt({("a",): about(5), ("a", "b"): about(5)})
    stays, _ = screened(draft("a", "b"), found, lambda plugin: None, measure_anyway=True)
    assert names(stays) == ["a"]
    assert stays.hopeful


def test_nothing_without_effect_is_measured_anyway():
    stays, tried = screened(
        draft("a"), attempt({("a",): about(5)}, {"a": "nothing to cache"}), lambda plugin: None,
        measure_anyway=True,
    )  # fmt: skip
    assert (names(stays), tried) == ([], None)
    assert stays.left_out[0].estimate is None


def test_what_bounds_a_step_is_its_largest_part_and_the_most_that_the_rest_can_gain():
    assert what_bounds(Diagnosed()) == (
        "50% of a step is compute: what shortens only the rest of it gains 2.00x at most; while it "
        "computes, the model reaches 40% of this machine's fastest float32 matrix products; at "
        "this machine's peak in bfloat16 a step would be at most about 1.72x faster"
    )


def test_where_nothing_is_gained_each_trial_is_told_and_how_to_measure_all_the_same():
    stays, _ = screened(draft("a", "b", "c"), attempt(SLOWER), lambda plugin: None)
    told = " ".join(shown(render_nothing(what_bounds(Diagnosed()), stays.left_out)).split())
    assert "a: a step does not seem to become faster with it (from about 10 ms to 10.5 ms)" in told
    assert 'c: plugin "c": no GPU' in told
    assert "nothing was measured, and no recipe was written" in told
    assert "50% of a step is compute" in told
    assert "--measure-anyway" in told


@pytest.mark.parametrize("left_out", [(), (LeftOut("a", "no GPU"),)])
def test_where_nothing_could_be_tried_nothing_can_be_measured_anyway(left_out):
    assert "--measure-anyway" not in shown(render_nothing("", left_out))


def test_a_plugin_that_fails_is_left_out_with_its_reason():
    stays, _ = screened(
        draft("a", "b"),
        attempt({("a",): PluginRefused("no such hardware", "a"), ("b",): about(5)}),
        lambda plugin: None,
    )
    assert names(stays) == ["b"]
    assert "no such hardware" in stays.left_out[0].reason


@pytest.mark.parametrize("printed", [(), ("", " "), ("Killed",)])
def test_a_trial_that_dies_is_left_out_with_its_cause_alone(printed):
    cause = "the dry build: it took more than 20 s to try"
    error = PreparationFailed(cause, printed)
    stays, _ = screened(draft("a"), attempt({("a",): error}), lambda plugin: None)
    assert stays.left_out[0].reason == cause
    words = f"{cause}; its last words:\nKilled" if "Killed" in printed else cause
    assert str(error) == words


@pytest.mark.parametrize(
    ("training", "most"), [(3.0, 20.0), (200.0, 20.0), (500.0, 50.0), (9000.0, 120.0)]
)
def test_a_trial_may_take_a_tenth_of_the_training_within_limits(training, most):
    assert try_seconds(Estimate(0.01, training, (training - 2.0) / 0.01)) == most


def test_a_trial_may_take_longer_where_building_and_stepping_are_slow():
    slow_steps = Estimate(20.0, 20_010.0, 1000)
    assert try_seconds(slow_steps) == 8 * 10.0 + 12 * 20.0
    busy_machine = Estimate(0.01, 20.0, 1000)
    assert try_seconds(busy_machine) == pytest.approx(8 * 10.0 + 12 * 0.01)
    assert try_seconds(busy_machine, look_seconds=95.0) == 95.0


def test_a_trial_is_compared_with_the_baseline_of_its_own_moment():
    # the machine is half as fast as it was in the look
    look, now = Estimate(0.01, 12.0, 1000), Estimate(0.02, 24.0, 1000)
    assert Estimate(0.016, 20.0, 1000).at_pace(look, now) == Estimate(0.008, 10.0, 1000)


@pytest.mark.parametrize(
    ("estimate", "seconds"),
    [
        (None, 300.0),
        (Estimate(0.01, 200.0, 1000), 300.0),
        (Estimate(20.0, 20_010.0, 1000), 1.2 * 8 * (7 + 10 + 80)),
        (Estimate(20.0, 810.0, 40), 405.0),
    ],
)  # fmt: skip
def test_the_budget_holds_four_pairs_where_steps_are_slow(estimate, seconds):
    assert budget_seconds(estimate) == pytest.approx(seconds)


def test_a_trial_of_a_training_of_unknown_length_has_a_limit_too():
    assert 20 < try_seconds(None) < 120


def test_a_plugin_without_effect_is_left_out():
    stays, tried = screened(
        draft("a"),
        attempt({("a",): about(5)}, {"a": "there is nothing to cache"}),
        lambda plugin: None,
    )
    assert names(stays) == []
    assert tried is None
    assert stays.left_out[0].reason == "not applied: there is nothing to cache"


def test_where_steps_cannot_be_counted_what_works_stays():
    stays, _ = screened(draft("a"), lambda one: Tried(one, None, {}), lambda plugin: None)
    assert names(stays) == ["a"]


@pytest.mark.parametrize("bound", [None, 10.0, 119.93])
def test_a_bound_that_tells_nothing_is_not_printed(bound):
    why = why_chosen(suggestion("loop", bound=bound), Diagnosed())
    assert why == "Does what loop does. Here 25% of a step is input."


def test_a_bound_is_rounded_up_so_that_it_stays_one():
    assert "at most about 2.7x" in why_chosen(suggestion("loop", bound=2.61), Diagnosed())
    assert "at most about 1.10x" in why_chosen(suggestion("loop", bound=1.1), Diagnosed())


def test_why_names_the_parts_and_the_bound():
    assert why_chosen(suggestion("cache"), Diagnosed()) == (
        "Does what cache does. Here 25% of a step is input, so at most about 1.33x."
    )


def test_the_written_recipe_reads_back_with_its_plugins(tmp_path):
    (tmp_path / "train.py").write_text("")
    path = tmp_path / "train.tfopt.toml"
    path.write_text(draft("cache", "prefetch").without("prefetch", "slower").text(["faster: 2x"]))
    recipe = read_recipe(path).require()
    assert recipe.workload.script == "train.py"
    assert [entry.use for entry in recipe.plugins] == ["cache"]
    assert recipe.measure.budget_seconds == 90
    text = path.read_text()
    assert "# left out: slower" in text
    assert "# faster: 2x" in text


def test_a_recipe_as_tfopt_wrote_it_may_be_written_anew(tmp_path):
    path = tmp_path / "train.tfopt.toml"
    path.write_text(draft("cache").text())
    check_free(path)


def test_a_recipe_that_somebody_changed_is_not_written_over(tmp_path):
    path = tmp_path / "train.tfopt.toml"
    path.write_text(draft("cache").text().replace("90s", "5m"))
    with pytest.raises(InputError, match="was changed since tfopt wrote it"):
        check_free(path)


def test_the_seal_forgives_no_change_but_white_space():
    assert is_unchanged(sealed("a = 1\n"))
    assert is_unchanged(sealed("a = 1\n").replace("a = 1", "a =  1"))
    assert not is_unchanged(sealed("a = 1\n").replace("1", "2", 1))
    assert not is_unchanged("a = 1\n")
