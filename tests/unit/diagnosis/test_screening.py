"""Trying what is proposed for a script: exact plugins first, then what is added to them."""

from tomllib import loads as parsed

import attrs
import pytest
from support.drafts import SLOWER, about, attempt, built, draft, made, names, suggestion
from support.measure_runs import make_request

from tfopt_core.commands.first_contact import prepared_for, why_not_try
from tfopt_core.diagnosis.screening import screened, try_seconds
from tfopt_core.errors import PreparationFailed, Problem, RecipeError
from tfopt_core.trials.request import Estimate


def screen(proposal, attempt, tell=lambda plugin: None, **options):
    return screened(proposal, attempt, tell, **options)


def test_plugins_that_save_time_stay_each_on_top_of_those_before():
    stays = screen(
        draft("a", "b", "c"),
        attempt(
            {
                ("a",): about(8),
                ("a", "b", "c"): about(8),
                ("a", "b"): about(8.1),
                ("a", "c"): about(6),
            }
        ),
    )
    assert names(stays) == ["a", "c"]
    assert built(stays.tried) == ["a", "c"]
    [left] = stays.left_out
    assert left.plugin == "b"
    assert "from about 8 ms to 8.1 ms" in left.reason


def test_a_plugin_whose_start_costs_more_than_it_saves_is_left_out():
    stays = screen(draft("a"), attempt({("a",): about(5, 14)}))
    assert names(stays) == []
    assert "an estimated 14 s a training, 10 s without it" in stays.left_out[0].reason


def test_a_plugin_that_saves_less_than_starts_differ_by_is_left_out():
    short = Estimate(0.005, 1.5, steps=40)
    stays = screen(draft("a"), attempt({("a",): short}))
    assert names(stays) == []
    faster = Estimate(0.007, 2.0, steps=40)
    stays = screen(draft("a", "b"), attempt({("a",): about(8), ("a", "b"): faster}))
    assert names(stays) == ["a"]
    assert "saves only about 0.04 s of a training" in stays.left_out[0].reason


def test_a_plugin_that_the_script_cannot_take_is_left_out_without_a_place_in_a_recipe():
    problem = Problem("/tmp/x/trial.toml", 8, "workload.script", "fit 1 raised TypeError")
    stays = screen(draft("a"), attempt({("a",): RecipeError((problem,))}))
    assert stays.left_out[0].reason == "fit 1 raised TypeError"


def test_measured_anyway_is_the_one_that_costs_least_however_much():
    stays = screen(draft("a", "b", "c"), attempt(SLOWER), measure_anyway=True)
    assert names(stays) == ["b"]
    assert [left.plugin for left in stays.left_out] == ["a", "c"]
    assert stays.tried is not None
    assert not stays.hopeful
    assert "as --measure-anyway asks" in stays.text().replace("\n# ", " ")


def test_what_saves_time_is_measured_alone_whatever_is_asked_for():
    found = attempt({("a",): about(5), ("a", "b"): about(5)})
    stays = screen(draft("a", "b"), found, measure_anyway=True)
    assert names(stays) == ["a"]
    assert stays.hopeful


@pytest.mark.parametrize(
    ("why", "reason"), [("nothing to cache", "not applied: nothing to cache"), ("", "not applied")]
)
@pytest.mark.parametrize("measure_anyway", [False, True])
def test_a_plugin_without_effect_is_left_out_even_if_all_is_measured(why, reason, measure_anyway):
    stays = screen(
        draft("a"), attempt({("a",): about(5)}, {"a": why}), measure_anyway=measure_anyway
    )
    assert (names(stays), stays.tried) == ([], None)
    assert stays.left_out[0].reason.startswith(reason)
    assert stays.left_out[0].estimate is None


@pytest.mark.parametrize("printed", [(), ("", " "), ("Killed",)])
def test_a_trial_that_dies_is_left_out_with_its_cause_alone(printed):
    cause = "the dry build: it took more than 20 s to try"
    error = PreparationFailed(cause, printed)
    stays = screen(draft("a"), attempt({("a",): error}))
    assert stays.left_out[0].reason == cause
    words = f"{cause}; its last words:\nKilled" if "Killed" in printed else cause
    assert str(error) == words


@pytest.mark.parametrize(
    ("training", "most"), [(3.0, 30.0), (200.0, 30.0), (500.0, 50.0), (9000.0, 120.0)]
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


def test_a_trial_of_a_training_of_unknown_length_has_a_limit_too():
    assert 20 < try_seconds(None) < 120


def test_where_steps_cannot_be_counted_what_works_stays():
    stays = screen(draft("a"), lambda one: made(one, None))
    assert names(stays) == ["a"]


LOW = suggestion("low", equivalence="rounding")


def test_what_is_not_exact_is_tried_on_top_of_what_is_with_its_settings():
    tried = []

    def attempt(candidate):
        tried.append({one.plugin: one.settings for one in candidate.stack})
        takes = {("a",): 8, ("a", "low"): 5}[tuple(one.plugin for one in candidate.stack)]
        return made(candidate, about(takes), {"a": {"size": 4}})

    found = screen(draft("a", additions=(LOW,)), attempt)
    assert tried == [{"a": {}}, {"a": {"size": 4}, "low": {}}]
    assert names(found) == ["a"]
    assert [one.plugin for one in found.additions] == ["low"]
    assert built(found.tried) == ["a"]
    assert built(found.tried_extended) == ["a", "low"]
    # the recipe leaves the search for its settings to the next measurement
    assert found.stack[0].settings == {}


def test_what_stays_is_not_searched_for_again_with_each_further_plugin():
    """The search for settings may take half a minute; how they were found is told at the end."""
    tried = []
    other = suggestion("lower", equivalence="rounding")
    takes = {("a",): 9.5, ("a", "b"): 9, ("a", "b", "low"): 8, ("a", "b", "low", "lower"): 7}

    def attempt(candidate):
        tried.append({one.plugin: one.settings for one in candidate.stack})
        found = made(
            candidate, about(takes[tuple(tried[-1])]), {name: {"size": 4} for name in tried[-1]}
        )
        plugins = tuple(
            attrs.evolve(
                one, asked=tried[-1][one.name],
                search_notes=() if tried[-1][one.name] else (f"{one.name} was searched for",),
            )
            for one in found.prepared.plugins
        )  # fmt: skip
        prepared = attrs.evolve(found.prepared, plugins=plugins)
        return attrs.evolve(found, prepared=attrs.evolve(prepared, warnings=prepared.search_notes))

    found = screen(draft("a", "b", additions=(LOW, other)), attempt)
    size = {"size": 4}
    assert tried == [
        {"a": {}}, {"a": size, "b": {}}, {"a": size, "b": size, "low": {}},
        {"a": size, "b": size, "low": size, "lower": {}},
    ]  # fmt: skip
    assert [one.settings for one in (*found.stack, *found.additions)] == [{}] * 4
    prepared = found.tried_extended.prepared
    assert [one.asked for one in prepared.plugins] == [{}] * 4
    names = ("a", "b", "low", "lower")
    assert prepared.warnings == tuple(f"{name} was searched for" for name in names)


def test_an_addition_that_saves_nothing_on_top_of_the_stack_is_left_out():
    found = screen(
        draft("a", additions=(LOW,)), attempt({("a",): about(5), ("a", "low"): about(5)})
    )
    assert (names(found), found.additions, found.tried_extended) == (["a"], (), None)
    assert [left.plugin for left in found.left_out] == ["low"]


def test_what_can_gain_most_is_tried_first_and_what_is_then_saved_already_is_not_tried():
    tried = []
    loop = suggestion("loop", bound=None, targets=("input", "dispatch"))
    other = suggestion("c", targets=("compute",))
    proposal = attrs.evolve(draft("a"), stack=(suggestion("a"), other, loop))
    found = screen(
        proposal, attempt({("loop",): about(7), ("c", "loop"): about(6.8)}), tried.append
    )
    assert tried == ["loop", "c"]
    assert names(found) == ["loop"]
    [saved, slow] = found.left_out
    assert (saved.plugin, slow.plugin) == ("a", "c")
    assert "alone it would make a step 7.52 ms long at best" in saved.reason
    assert '"loop" it takes 7 ms' in saved.reason
    assert not saved.untried


def test_exact_plugins_behind_the_first_are_tried_together():
    tried = []
    takes = {("a",): about(9.5), ("a", "b", "c"): about(8)}
    found = screen(draft("a", "b", "c"), attempt(takes), tried.append)
    assert tried == ["a", "b and c together"]
    assert (names(found), built(found.tried), found.left_out) == (["a", "b", "c"],) * 2 + ((),)


def test_of_plugins_that_are_tried_together_those_without_effect_are_left_out(tmp_path):
    why = "no callback allows it"

    def attempt(candidate):
        takes = {("a",): 9.5, ("a", "b", "c", "loop"): 8}[tuple(names(candidate))]
        idle = {"loop": why} if len(candidate.stack) > 1 else {}
        tried = made(candidate, about(takes), not_applied=idle)
        return attrs.evolve(tried, request=make_request(folder=tmp_path))

    found = screen(draft("a", "b", "c", "loop"), attempt)
    assert (names(found), built(found.tried)) == (["a", "b", "c"],) * 2
    assert [left.reason for left in found.left_out] == [f"not applied: {why}"]


def test_what_did_not_stay_together_is_said_of_each_that_there_is_no_time_for():
    tried = []
    found = screen(
        draft("a", "b", "c"), attempt({("a",): about(9), ("a", "b", "c"): about(9.5)}),
        tried.append, why_not_try=lambda found: "no time" if len(tried) > 1 else "",
    )  # fmt: skip
    assert names(found) == ["a"]
    assert [left.plugin for left in found.left_out] == ["b", "c"]
    assert all("tried with others: a step does not" in left.reason for left in found.left_out)
    assert not any(left.untried for left in found.left_out)


def test_what_would_be_a_third_side_must_save_a_tenth():
    takes = {("a",): about(9), ("a", "low"): about(8.3), ("low",): about(9.2)}
    found = screen(draft("a", additions=(LOW,)), attempt(takes))
    assert found.additions == ()
    assert "10% faster" in found.left_out[0].reason
    assert names(screen(draft(additions=(LOW,)), attempt(takes))) == ["low"]


def test_what_there_is_no_time_for_is_left_out_untried():
    tried, asked = [], []

    def why_not_try(found):
        asked.append(found)
        return "no time" if found else ""

    found = screen(
        draft("a", "b", additions=(LOW,)),
        attempt({("a",): about(8)}),
        tried.append,
        why_not_try=why_not_try,
    )
    assert asked == [False, True, True]
    assert tried == names(found) == ["a"]
    assert [(left.plugin, left.reason, left.untried) for left in found.left_out] == [
        ("b", "no time", True), ("low", "no time", True),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("tried", "seconds", "found", "another"),
    [(2, 20.0, True, True), (2, 21.0, True, False), (2, 31.0, False, True), (1, 90.0, True, True)],
)
def test_a_trial_begins_if_it_would_end_in_time_by_those_before_it(tried, seconds, found, another):
    assert (why_not_try(tried, seconds, 20.0, found=found) == "") is another


def test_where_nothing_exact_saves_time_the_others_are_the_stack_of_the_recipe():
    found = screen(draft("a", additions=(LOW,)), attempt({("a",): about(10), ("low",): about(5)}))
    assert (names(found), found.additions, found.tried_extended) == (["low"], (), None)
    assert built(found.tried) == ["low"]
    assert "No exact plugin" in found.text()
    planned = {one["use"]: one.get("enabled", True) for one in parsed(found.text())["plugins"]}
    assert planned == {"low": True, "a": False}
    as_found = screen(draft(additions=(LOW,)), lambda one: made(one, about(5), maths="exact"))
    assert "No exact plugin" not in as_found.text()


def test_of_a_plugin_with_both_the_settings_that_were_found_are_kept_apart():
    """An exact loop stays, and is faster still where it may round differently."""
    other = suggestion("loop", equivalence="rounding", settings={})

    def attempt(candidate):
        [one] = candidate.stack
        xla = one.settings.get("xla", True)
        math = "rounding" if xla else "exact"
        settings = {"loop": {"xla": xla, "steps": 8}}
        return made(candidate, about(5 if xla else 8), settings, math)

    proposal = draft(additions=(other,))
    proposal = type(proposal)(
        proposal.script, proposal.workload, proposal.diagnosed,
        (suggestion("loop", settings={"xla": False}),), (other,),
    )  # fmt: skip
    found = screen(proposal, attempt)
    assert [one.settings for one in found.stack] == [{"xla": False}]
    assert [one.settings for one in found.additions] == [{"xla": True}]
    assert found.left_out == ()


def test_what_turns_out_exact_on_top_of_its_exact_form_is_no_addition():
    other = suggestion("loop", equivalence="rounding", settings={})
    proposal = draft("loop", additions=(other,))
    takes = iter((8, 5))

    def attempt(candidate):
        return made(candidate, about(next(takes)), {"loop": {"xla": False}})

    found = screen(proposal, attempt)
    assert found.additions == ()
    assert found.left_out[0].reason == (
        "where it may round differently: what was found for it is exact all the same"
    )


def test_a_plugin_whose_settings_turn_out_to_round_is_not_in_the_stack():
    found = screen(draft("a"), lambda candidate: made(candidate, about(5), maths="rounding"))
    assert names(found) == []
    assert "not exact with the settings" in found.left_out[0].reason


def test_measured_anyway_may_be_what_is_not_exact():
    found = screen(
        draft("a", additions=(LOW,)),
        attempt({("a",): about(20), ("low",): about(11)}),
        measure_anyway=True,
    )
    assert (names(found), built(found.tried)) == (["low"], ["low"])
    assert not found.hopeful


def test_what_no_time_was_left_to_try_is_said_with_the_verdict(tmp_path):
    found = screen(
        draft("a", "b"),
        attempt({("a",): about(8)}),
        why_not_try=lambda found: "not tried: it took 58 s" if found else "",
    )
    request = make_request(folder=tmp_path)
    found = attrs.evolve(found, tried=attrs.evolve(found.tried, request=request))
    prepared, _, _ = prepared_for(found, request, tmp_path / "train.tfopt.toml")
    assert prepared.warnings[-1] == (
        "no time was left to try b: tfopt tune train.tfopt.toml tries more"
    )
