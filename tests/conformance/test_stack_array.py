"""The stacks that `make test-all` trains hold every pair that may stand together; the other pairs
are refused, with the way out."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
import tomlkit
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
REFUSED = sorted(tuple(sorted(pair)) for pair in set(pairs(tuple(KNOWN))) - OPEN)
WAYS_OUT = re.compile(r'; (keep one of them|move it (up|down)|add ")')


def in_toml(names: Iterable[str], folder: Path) -> Path:
    """A recipe with these plugins, in this order."""
    plugins = [{"use": name, **TRIED.get(name, {})} for name in names]
    recipe = {"name": "pair", "workload": {"use": "flights"}, "plugins": plugins}
    path = folder / "recipe.toml"
    path.write_text(tomlkit.dumps(recipe), encoding="utf-8")
    return path


# The array


def test_each_pair_that_may_stand_together_stands_in_a_stack() -> None:
    covered = {pair for stack in STACKS for pair in pairs(stack)}
    assert covered >= OPEN
    assert {name for stack in STACKS for name in stack} >= {name for pair in OPEN for name in pair}


@pytest.mark.parametrize("stack", STACKS, ids="+".join)
def test_the_core_takes_each_stack_as_it_is(stack: tuple[str, ...]) -> None:
    _, problems = assemble([PluginEntry(use=name, settings=TRIED.get(name, {})) for name in stack])
    assert problems == []
    assert len(stack) <= PLUGINS_A_STACK or with_required(set(stack[:1]), KNOWN) != {stack[0]}


def test_each_pair_of_exact_plugins_stands_in_a_stack_that_can_be_certified() -> None:
    exact = {name for name, one in KNOWN.items() if one.equivalence == "exact"}
    certified = {pair for stack in STACKS if set(stack) <= exact for pair in pairs(stack)}
    wanted = {p for p in OPEN if p <= exact and with_required(set(p), KNOWN) <= exact}
    assert wanted
    assert certified >= wanted


# What may not stand together


@pytest.mark.thorough
@pytest.mark.parametrize("pair", REFUSED, ids="+".join)
def test_a_pair_that_may_not_stand_together_is_refused_with_the_way_out(pair, tmp_path):
    for names in (pair, pair[::-1]):
        done = tfopt_here("plan", in_toml(names, tmp_path), cwd=tmp_path)
        assert done.code == 2
        named = [
            line for line in done.err.splitlines() if all(f'"{name}"' in line for name in pair)
        ]
        excluded = [line for line in named if "must stand" not in line]
        assert len(excluded) == 1, f"said once: {done.err}"
        assert all(WAYS_OUT.search(line) for line in named), done.err


def test_the_wrong_order_of_a_pair_is_refused_with_the_way_out(tmp_path: Path) -> None:
    wrong = []
    for pair in sorted(OPEN, key=sorted):
        a, b = sorted(pair)
        for first, second in ((a, b), (b, a)):
            rules = KNOWN[second].traits.before, KNOWN[first].traits.after
            if first in rules[0] or second in rules[1]:
                wrong.append((first, second))
    assert wrong
    entries = [[PluginEntry(use=n, settings=TRIED.get(n, {})) for n in pair] for pair in wrong]
    for pair, names in zip(entries, wrong, strict=True):
        [first, *_] = [str(problem) for problem in assemble(pair)[1] if "must" in str(problem)]
        assert f'"{names[0]}"' in first
        assert f'"{names[1]}"' in first
        assert WAYS_OUT.search(first)
    # as a user sees it, once
    done = tfopt_here("plan", in_toml(wrong[0], tmp_path), cwd=tmp_path)
    assert done.code == 2
    assert "; move it " in done.err
