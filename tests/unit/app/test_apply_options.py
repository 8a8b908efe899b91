"""What the options of `tfopt apply` ask for."""

from __future__ import annotations

import pytest

from tfopt_core.app.apply_options import ApplyOptions
from tfopt_core.app.first_contact import check_contact
from tfopt_core.errors import InputError
from tfopt_core.recipe import WorkloadSpec


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({}, (None, None)),
        ({"budget": "5m"}, ("5m", None)),
        ({"overrides": ("measure.budget=20m",)}, ("20m", None)),
        ({"overrides": ("measure.pairs=6",)}, (None, 6)),
        ({"overrides": ('measure={pairs=6, length="full"}',)}, (None, 6)),
        ({"overrides": ("measure.pairs=auto",)}, (None, None)),
        ({"overrides": ("measure.length=full", "plugins.cache.pairs=6", "no path")}, (None, None)),
    ],
)
def test_how_long_measuring_may_take_is_asked_by_an_option_or_by_set(options, asked):
    assert ApplyOptions(target="train.py", **options).time_asked() == asked


def test_a_budget_beside_a_number_of_pairs_is_refused_before_a_look(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    options = ApplyOptions(target="train.py", pairs=4, overrides=("measure.budget=5m",))
    with pytest.raises(InputError, match="--pairs takes as long as it takes"):
        check_contact(options, WorkloadSpec(script="train.py"))
