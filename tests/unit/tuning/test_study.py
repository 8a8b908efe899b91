"""Values that Optuna draws, and the storage that keeps them, whose password is shown nowhere."""

from typing import get_args

import pytest
from support.simulated_settings import in_memory

from tfopt_core.errors import StoreError
from tfopt_core.recipe.formats import search_range
from tfopt_core.recipe.model import Pruner, Sampler
from tfopt_core.tuning.candidates import Tunable
from tfopt_core.tuning.results import SettingsTrial, TrialOutcome
from tfopt_core.tuning.storage import open_storage
from tfopt_core.tuning.study import Study

optuna = pytest.importorskip("optuna", reason="the tune extra is not installed")

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


def a_study(ranges=None, **given):
    return Study(ranges or space(), storage=in_memory(),
                 **{"sampler": "tpe", "pruner": "none", "seed": 1, **given})  # fmt: skip


def drawn(study, figure=lambda number: 0.5, count=1):
    """The values of so many trials, each with its figure."""
    seen = []

    def attempt(asked):
        asked.report(0.1 * len(seen), 0)
        seen.append(asked.values)
        return SettingsTrial(
            values=asked.values, outcome=TrialOutcome.MEASURED, figure=figure(len(seen))
        )

    for _ in range(count):
        study.make(attempt)
    return seen


@pytest.mark.parametrize("sampler", get_args(Sampler))
@pytest.mark.parametrize("pruner", get_args(Pruner))
def test_each_sampler_stays_within_the_ranges(sampler, pruner):
    study = a_study(sampler=sampler, pruner=pruner)
    found = drawn(study, lambda number: 0.1 * number, count=9)
    for values in found:
        for one in space():
            assert one.range.holds(values[one.key]), (one.key, values)
    assert len({values["options.rate"] for values in found}) > 3


def test_numbers_have_four_digits():
    study = a_study(sampler="random")
    rates = [values["options.rate"] for values in drawn(study, count=5)]
    assert all(value == float(f"{value:.4g}") for value in rates)
    stepped = a_study(space(drop={"low": 0.0, "high": 0.4, "step": 0.1}), sampler="random")
    drops = {values["options.drop"] for values in drawn(stepped, count=6)}
    assert drops == {0.0, 0.1, 0.2, 0.3, 0.4}


def test_the_same_seed_draws_the_same():
    one, again, other = (drawn(a_study(seed=seed)) for seed in (1, 1, 2))
    assert one == again
    assert one != other


def test_the_sampler_knows_the_untuned_values_where_all_are_in_range_and_they_are_not_tried():
    for untuned, known in ((8, True), (9, False), (None, False)):
        study = a_study(space(units=[8, 16]), sampler="random", seed=4, planned=9)
        study.begin_with({"options.units": untuned})
        tried = {one["options.units"] for one in drawn(study, count=3)}
        assert tried == ({16} if known else {8, 16})
        first = study._study.trials[0]
        assert first.value == (1.0 if known else 0.5)
        assert not known or first.params == {"options.units": 8}


def test_a_machine_goes_on_where_another_made_the_tables_of_a_new_database(tmp_path, monkeypatch):
    from sqlalchemy.exc import OperationalError

    begin, faster = optuna.storages.RDBStorage.__init__, [True, True]

    def begin_late(*args, **kwargs):
        if faster:
            faster.pop()
            raise OperationalError("CREATE TABLE studies", None, Exception("already exists"))
        begin(*args, **kwargs)

    monkeypatch.setattr(optuna.storages.RDBStorage, "__init__", begin_late)
    monkeypatch.setattr("tfopt_core.tuning.storage.TRY_SECONDS", 0.0)
    storage = open_storage(f"sqlite:///{tmp_path}/a.db")
    assert optuna.get_all_study_summaries(storage.optuna) == []


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("{}/a.log", "give the URL of a database, such as sqlite:///search.db"),
        ("sqlite:///{}/none/a.db", "unable to open database file"),
        ("sqlite:///{}/text", "not a database"),
        ("nothing://host/db", "nothing"),
        ("http+unheard://me@host", "unheard"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_an_error_of_one_line(url, why, tmp_path, monkeypatch):
    monkeypatch.setattr("tfopt_core.tuning.storage.TRY_SECONDS", 0.0)
    (tmp_path / "text").write_text("long enough to be no header of a database\n" * 9)
    with pytest.raises(StoreError, match=why) as caught:
        open_storage(url.format(tmp_path))
    assert "\n" not in str(caught.value)


def test_a_password_is_neither_shown_nor_in_an_error_or_its_causes(tmp_path, monkeypatch):
    monkeypatch.setattr("tfopt_core.tuning.storage.TRY_SECONDS", 0.0)
    with pytest.raises(StoreError) as caught:
        open_storage(f"sqlite://me:secret@/{tmp_path}/a.db")
    assert "secret" not in str(caught.value)
    assert "***" in str(caught.value)
    assert caught.value.__suppress_context__
