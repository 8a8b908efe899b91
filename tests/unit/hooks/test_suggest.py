"""Plugins asked what they would do: sorted, bounded, checked; a broken one harms nobody."""

import threading
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from attrs import field, validators
from support.hooks_diagnosis import diagnosis

from tfopt_core.errors import PluginLoadError
from tfopt_core.hooks.installed import suggest
from tfopt_core.plugins import Plugin, hookimpl


@attrs.frozen
class Registered:
    """Stands in for an entry point."""

    name: str
    what: Any
    distribution: str = "theirs"
    version: str = "1.0"

    def load(self):
        if isinstance(self.what, BaseException):
            raise self.what
        return self.what


def plugin(answer=None, targets=("input",), equivalence="exact", **attributes):
    """A plugin class whose suggest gives this answer, or raises it."""

    def given(self, diagnosis):
        if isinstance(answer, BaseException):
            raise answer
        return answer() if callable(answer) else answer

    @attrs.frozen(kw_only=True, eq=False)
    class Asked(Plugin):
        """Does something."""

        size: int = field(default=1, validator=validators.ge(1))

        @hookimpl
        def build_dataset(self, run, split, plan):
            return plan

    Asked.targets, Asked.suggest, Asked.equivalence = targets, given, equivalence
    for name, value in attributes.items():
        setattr(Asked, name, value)
    return Asked


@pytest.fixture
def ask(monkeypatch):
    def asked(plugins, in_effect=(), **figures):
        known = {name: (Registered(name, what),) for name, what in plugins.items()}
        monkeypatch.setattr(suggest, "registrations", lambda: known)
        return suggest.propose(plugins, diagnosis(**figures), in_effect)

    return asked


def names(proposal):
    return [one.plugin for one in proposal.suggestions]


def test_the_most_promising_goes_first(ask):
    plugins = {
        "loop": plugin({}, ("dispatch",)),
        "in": plugin({}),
        "both": plugin({}, ("input", "dispatch")),
    }
    proposal = ask(plugins, dispatch=0.5, data=4.2)
    assert names(proposal) == ["both", "loop", "in"]
    bounds = [one.bound for one in proposal.suggestions]
    assert bounds == pytest.approx([7.5 / 4, 7.5 / 4.2, 7.5 / 4.5])


ALL = ("input", "dispatch", "compute")


@pytest.mark.parametrize(
    ("plugins", "figures", "proposed"),
    [
        # who can gain next to nothing, proposes nothing, observes, or has no suggest
        ({"in": plugin({})}, {"input_": 0.01, "data": 0.01}, []),
        ({"memory": plugin({}, ("memory",))}, {}, []),
        ({"silent": plugin(None), "watch": plugin({}, role="observer")}, {}, []),
        ({"mute": plugin({}, suggest=Plugin.suggest)}, {}, []),
        # among equals what changes the training least goes first
        ({"a": plugin({}, equivalence="rounding"), "b": plugin({}, equivalence="order"),
          "c": plugin({})}, {}, ["c", "b", "a"]),
    ],
)  # fmt: skip
def test_who_may_pay_is_proposed_in_its_order(ask, plugins, figures, proposed):
    assert names(ask(plugins, **figures)) == proposed


def test_what_is_in_effect_already_is_not_asked(ask):
    proposal = ask({"cache": plugin(RuntimeError("asked"))}, in_effect=("cache",))
    assert proposal.silent == ()


def test_proposed_settings_are_checked_as_a_recipes_are(ask):
    proposal = ask({"a": plugin({"size": 4}), "b": plugin({"size": 0}), "c": plugin({"siez": 1}),
                    "d": plugin([])})  # fmt: skip
    assert [(one.plugin, one.settings) for one in proposal.suggestions] == [("a", {"size": 4})]
    causes = {one.plugin: one.cause for one in proposal.silent}
    assert "do not fit" in causes["b"]
    assert "unknown setting" in causes["c"]
    assert "returned type list" in causes["d"]


@pytest.mark.parametrize(
    ("broken", "cause"),
    [
        (plugin(ZeroDivisionError("division by zero")), "ZeroDivisionError: division by zero"),
        (plugin(SystemExit("gone")), "SystemExit"),
        (PluginLoadError("bad", "ImportError: no", "theirs", "1.0"), "ImportError: no"),
    ],
    ids=["raises", "exits", "does not import"],
)
def test_a_broken_plugin_is_named_and_the_others_are_asked(ask, broken, cause):
    proposal = ask({"bad": broken, "good": plugin({})})
    assert names(proposal) == ["good"]
    [silent] = proposal.silent
    assert silent.plugin == "bad"
    assert silent.distribution == "theirs"
    assert cause in silent.cause


def test_a_plugin_that_does_not_answer_is_left_alone(ask, monkeypatch):
    over, silent = threading.Event(), []

    def wait():
        silent.append(threading.current_thread())
        over.wait()

    class Impatient(threading.Thread):
        """Is waited for as long as it takes, unless it is the one that does not answer."""

        def join(self, timeout=None):
            while self.is_alive() and self not in silent:
                super().join(0.01)

    monkeypatch.setattr(suggest, "threading", SimpleNamespace(Thread=Impatient))
    proposal = ask({"slow": plugin(wait), "good": plugin({})})
    over.set()
    assert names(proposal) == ["good"]
    assert "no answer" in proposal.silent[0].cause


@pytest.mark.parametrize(
    ("plugins", "stack", "left_out"),
    [
        ({"both": plugin({}, ("input", "compute")), "one": plugin({}, conflicts=("both",)),
          "other": plugin({})}, ("both", "other"), ['conflicts with "both"']),
        # the exact one, though the other promises more
        ({"low": plugin({}, ALL, "rounding", conflicts=("in",)), "in": plugin({})},
         ("in",), ['conflicts with "in"']),
        # who needs another that nobody proposes
        ({"a": plugin({}, requires=("b",)), "c": plugin({}, requires=("d",)), "d": plugin({})},
         ("c", "d"), None),
        # in the order that plugins ask for
        ({"a": plugin({}, after=("c",)), "b": plugin({}), "c": plugin({}, before=("b",))},
         ("c", "a", "b"), []),
        # of two strategies one
        ({name: plugin({}, build_strategy=lambda self: None) for name in ("a", "b")},
         ("a",), None),
    ],
)  # fmt: skip
def test_what_may_stand_together_is_stacked(ask, plugins, stack, left_out):
    proposal = ask(plugins)
    assert proposal.stack == stack
    if left_out is not None:
        assert [one.left_out for one in proposal.suggestions if one.left_out] == left_out


def test_without_a_bound_there_is_none(ask):
    [one] = ask({"all": plugin({}, ALL)}).suggestions
    assert one.bound is None


def both(exact, other, equivalence="rounding", targets=("dispatch",), **attributes):
    """A plugin that is exact with a size of 2, and says so where it is asked for that."""
    made = plugin({}, targets, **attributes)
    made.suggest = lambda self, diagnosis: exact if diagnosis.exact else other
    made.equivalence = lambda self: "exact" if self.size == 2 else equivalence
    return made


def test_who_may_round_otherwise_is_asked_for_exact_settings_too(ask):
    [one] = ask({"loop": both({"size": 2}, {"size": 3})}, dispatch=2.0).suggestions
    assert (one.settings, one.equivalence, one.is_exact) == ({"size": 3}, "rounding", False)
    assert (one.exactly.settings, one.exactly.equivalence) == ({"size": 2}, "exact")
    assert one.exactly.exactly == one.exactly


@pytest.mark.parametrize("exact", [None, {"size": 4}])
def test_who_has_no_exact_settings_has_no_exact_form(ask, exact):
    [one] = ask({"loop": both(exact, {"size": 3})}, dispatch=2.0).suggestions
    assert one.exact_form is one.exactly is None
