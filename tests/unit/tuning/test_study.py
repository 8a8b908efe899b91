"""Values that Optuna draws: of each range, by each sampler, again from trials that were kept."""

from __future__ import annotations

import pytest

from tfopt_core.recipe.model import PRUNERS, SAMPLERS
from tfopt_core.recipe.ranges import search_range
from tfopt_core.records.settings_search import SettingsOutcome, SettingsTrial
from tfopt_core.tuning.study import Study
from tfopt_core.tuning.tunables import Tunable

pytest.importorskip("optuna", reason="the tune extra is not installed")

RANGES = {
    "rate": {"low": 1e-4, "high": 1e-2, "log": True},
    "units": {"low": 8, "high": 64, "step": 8},
    "depth": {"low": 1, "high": 4},
    "act": ["relu", "gelu"],
    "bias": [True, False],
}


def space(**ranges):
    return tuple(
        Tunable(name=name, range=search_range(written), written=written)
        for name, written in (ranges or RANGES).items()
    )


def trial(figure=0.5, outcome=SettingsOutcome.MEASURED, **values):
    return SettingsTrial(
        values={f"options.{name}": value for name, value in values.items()}, outcome=outcome,
        figure=figure if outcome is SettingsOutcome.MEASURED else None, epochs=(0.1, 0.2),
    )  # fmt: skip


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("pruner", PRUNERS)
def test_each_sampler_stays_within_the_ranges(sampler, pruner):
    study = Study(space(), sampler=sampler, pruner=pruner, seed=1)
    seen = set()
    for number in range(9):
        asked = study.ask()
        for one in space():
            assert one.range.holds(asked.values[one.key]), (one.key, asked.values)
        seen.add(asked.values["options.rate"])
        asked.report(0.1 * number, 0)
        study.tell(asked, trial(0.1 * number))
    assert len(seen) > 3


def test_numbers_have_four_digits():
    study = Study(space(), sampler="random", pruner="none", seed=1)
    drawn = [study.ask().values["options.rate"] for _ in range(5)]
    assert all(value == float(f"{value:.4g}") for value in drawn)
    stepped = Study(
        space(drop={"low": 0.0, "high": 0.4, "step": 0.1}),
        sampler="random", pruner="none", seed=1,
    )  # fmt: skip
    drawn = {stepped.ask().values["options.drop"] for _ in range(40)}
    assert drawn == {0.0, 0.1, 0.2, 0.3, 0.4}


def test_the_same_seed_draws_the_same():
    drawn = [
        [Study(space(), sampler="tpe", pruner="none", seed=seed).ask().values for _ in range(2)]
        for seed in (1, 2)
    ]
    assert drawn[0][0] == drawn[0][1]
    assert drawn[0] != drawn[1]


@pytest.mark.parametrize("outcome", list(SettingsOutcome))
def test_trials_that_were_kept_are_taken_where_the_ranges_hold_them(outcome):
    study = Study(space(units=[8, 16]), sampler="tpe", pruner="median", seed=1)
    assert study.add(trial(units=8, outcome=outcome))
    assert not study.add(trial(units=9, outcome=outcome))
    assert not study.add(trial(outcome=outcome))
    assert study.ask().values["options.units"] in (8, 16)


def test_it_begins_with_the_untuned_values_only_where_all_are_in_range():
    for untuned, first in ((8, True), (9, False), (None, False)):
        drawn = []
        for begins in (True, False):
            study = Study(
                space(units=[8, 16], act=["a", "b"]), sampler="random", pruner="none", seed=4
            )
            if begins:
                study.begin_with({"options.units": untuned, "options.act": "b"})
            drawn.append(study.ask().values)
        asked, anyway = drawn
        assert asked == ({"options.units": 8, "options.act": "b"} if first else anyway)
        assert anyway != {"options.units": 8, "options.act": "b"}
