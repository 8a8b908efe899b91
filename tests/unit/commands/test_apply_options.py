"""What the options of `tfopt apply` ask for."""

from __future__ import annotations

import pytest

from tfopt_core.commands.apply_options import ApplyOptions
from tfopt_core.commands.first_contact import check_contact
from tfopt_core.errors import InputError
from tfopt_core.recipe.model import WorkloadSpec


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({}, {}),
        ({"budget": "5m"}, {"budget": "5m"}),
        ({"overrides": ("measure.budget=20m",)}, {"budget": "20m"}),
        ({"overrides": ("measure.pairs=6",)}, {"pairs": 6}),
        ({"overrides": ('measure={pairs=6, seconds="whole"}',)}, {"pairs": 6, "seconds": "whole"}),
        ({"full": True}, {"seconds": "whole"}),
        ({"overrides": ("measure.objective=memory", "plugins.cache.pairs=6", "no path")}, {}),
    ],
)
def test_how_long_measuring_may_take_is_asked_by_an_option_or_by_set(options, asked):
    assert ApplyOptions(target="train.py", **options).measure_asked() == asked


def test_seconds_of_a_whole_training_are_refused():
    options = ApplyOptions(target="recipe.toml", seconds=8.0, full=True)
    for asked in (options.measure_asked, options.changes):
        with pytest.raises(InputError, match="leave --full or --seconds out"):
            asked()


def test_a_budget_beside_a_number_of_pairs_is_refused_before_a_look(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    options = ApplyOptions(target="train.py", pairs=4, overrides=("measure.budget=5m",))
    with pytest.raises(InputError, match="a budget chooses the pairs"):
        check_contact(options, WorkloadSpec(script="train.py"))
