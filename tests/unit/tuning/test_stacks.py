"""Where a plugin goes in a stack, and what must leave for it."""

from __future__ import annotations

from support.simulated_search import candidate, names_of, plugin, traits_of

from tfopt_core.tuning.stacks import joined, placed, without


def test_a_plugin_stands_where_the_cards_put_it():
    cache = candidate("cache", traits=traits_of(before=("prefetch",)))
    known = {"prefetch": traits_of(), "cache": cache.traits}
    found = placed(cache, (plugin("prefetch"),), known, frozenset())
    assert names_of(found.stack) == ("cache", "prefetch")


def test_a_conflict_of_either_side_makes_it_take_the_place():
    known = {"chunked": traits_of(conflicts=("resident",)), "resident": traits_of()}
    resident = candidate("resident", traits=known["resident"])
    found = placed(resident, (plugin("chunked"),), known, frozenset())
    assert (names_of(found.stack), found.replaces) == (("resident",), ("chunked",))


def test_what_requires_the_plugin_that_leaves_leaves_too():
    known = {"a": traits_of(), "b": traits_of(requires=("a",)), "c": traits_of(conflicts=("a",))}
    stack = (plugin("a"), plugin("b"))
    found = placed(candidate("c", traits=known["c"]), stack, known, frozenset())
    assert (names_of(found.stack), found.replaces) == (("c",), ("a", "b"))
    assert without("a", stack, known) == ()


def test_a_second_strategy_takes_the_place_of_the_first():
    known = {"mirrored": traits_of(), "one-device": traits_of()}
    found = placed(candidate("mirrored"), (plugin("one-device"),), known, frozenset(known))
    assert names_of(found.stack) == ("mirrored",)


def test_a_missing_requirement_is_said():
    lone = candidate("b", traits=traits_of(requires=("a",)))
    found = placed(lone, (), {"b": lone.traits}, frozenset())
    assert found.why_not == 'it needs "a" in the stack'


def test_plugins_are_joined_but_for_those_that_exclude_one_another_or_are_there():
    traits = {"there": traits_of(), "a": traits_of(conflicts=("b",)), "b": traits_of(),
              "c": traits_of(requires=("a",)), "d": traits_of(requires=("gone",))}  # fmt: skip
    candidates = [candidate(name, traits=one) for name, one in traits.items()]
    stack, names = joined(candidates, (plugin("there"),), traits, frozenset())
    assert names == ("a", "c")
    assert set(names_of(stack)) == {"there", "a", "c"}
