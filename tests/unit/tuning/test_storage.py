"""Where a search is kept: what can be opened, and that a password is shown nowhere."""

from __future__ import annotations

import pytest

from tfopt_core.errors import StoreError
from tfopt_core.tuning.storage import StudyStorage, open_storage

optuna = pytest.importorskip("optuna", reason="the tune extra is not installed")


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


def test_what_fails_later_names_the_storage():
    from sqlalchemy.exc import OperationalError

    storage = StudyStorage("postgresql://me:***@host/db", None)
    with (
        pytest.raises(StoreError, match=r"me:\*\*\*@host.*: gone; the trials so far"),
        storage.guarded(),
    ):
        raise OperationalError("SELECT 1", None, Exception("gone"))
