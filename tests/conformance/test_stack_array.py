"""The stacks that `make test-all` trains hold every pair that may stand together; the other pairs
are refused, with the way out."""

import re
from collections.abc import Iterable

from support.in_process import tfopt_here
from support.plugin_settings import TRIED
from support.stack_array import (
    PLUGINS_A_STACK,
    admissible_pairs,
    candidates,
    covering_array,
    pairs,
    with_required,
)

from tfopt_core.hooks.installed.assemble import assemble
from tfopt_core.recipe.model import PluginEntry

KNOWN = candidates(TRIED)
STACKS = covering_array(KNOWN)
OPEN = admissible_pairs(KNOWN)
WAYS_OUT = re.compile(r'; (keep one of them|move it (up|down)|add ")')


def problems_of(names: Iterable[str]) -> list[str]:
    """What is wrong with these plugins in this order."""
    entries = [PluginEntry(use=name, settings=TRIED.get(name, {})) for name in names]
    return list(map(str, assemble(entries)[1]))


# The array


def test_each_pair_that_may_stand_together_stands_in_a_stack() -> None:
    covered = {pair for stack in STACKS for pair in pairs(stack)}
    assert covered >= OPEN
    assert {name for stack in STACKS for name in stack} >= {name for pair in OPEN for name in pair}


def test_the_core_takes_each_stack_as_it_is() -> None:
    for stack in STACKS:
        assert problems_of(stack) == []
        long = with_required(set(stack[:1]), KNOWN) != {stack[0]}
        assert len(stack) <= PLUGINS_A_STACK or long, stack


def test_each_pair_of_exact_plugins_stands_in_a_stack_that_can_be_certified() -> None:
    exact = {name for name, one in KNOWN.items() if one.equivalence == "exact"}
    certified = {pair for stack in STACKS if set(stack) <= exact for pair in pairs(stack)}
    wanted = {p for p in OPEN if p <= exact and with_required(set(p), KNOWN) <= exact}
    assert wanted
    assert certified >= wanted


# What may not stand together


def test_a_pair_that_may_not_stand_together_is_refused_with_the_way_out() -> None:
    refused = [sorted(pair) for pair in set(pairs(tuple(KNOWN))) - OPEN]
    assert refused
    for names in (*refused, *(pair[::-1] for pair in refused)):
        found = problems_of(names)
        named = [text for text in found if all(f'"{name}"' in text for name in names)]
        excluded = [text for text in named if "must stand" not in text]
        assert len(excluded) == 1, f"said once: {found}"
        assert all(WAYS_OUT.search(text) for text in named), found


def test_the_wrong_order_of_a_pair_is_refused_with_the_way_out(tmp_path) -> None:
    wrong = [
        names
        for a, b in map(sorted, OPEN)
        for names in ((a, b), (b, a))
        if names[0] in KNOWN[names[1]].traits.before or names[1] in KNOWN[names[0]].traits.after
    ]
    assert wrong
    for names in wrong:
        [first, *_] = [text for text in problems_of(names) if "must" in text]
        assert f'"{names[0]}"' in first
        assert f'"{names[1]}"' in first
        assert WAYS_OUT.search(first)
    # as a user sees it, once
    assert ("prefetch", "cache") in wrong
    recipe = (
        '[workload]\nuse = "flights"\n[[plugins]]\nuse = "prefetch"\n[[plugins]]\nuse = "cache"\n'
    )
    (tmp_path / "recipe.toml").write_text(recipe, encoding="utf-8")
    done = tfopt_here("plan", "recipe.toml", cwd=tmp_path)
    assert done.code == 2
    assert "; move it " in done.err
