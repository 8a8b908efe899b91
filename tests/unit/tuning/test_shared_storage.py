"""Where machines share a search: what can be opened, and that a password is shown nowhere."""

from __future__ import annotations

import pytest

from tfopt_core.errors import InputError, StoreError
from tfopt_core.tuning.shared_storage import SharedStorage, open_storage

optuna = pytest.importorskip("optuna", reason="the tune extra is not installed")


@pytest.mark.parametrize("url", ["{}/a.log", "journal:{}/a.log", "sqlite:///{}/a.db"])
def test_a_journal_file_and_a_database_are_opened_twice_and_hold_a_study(url, tmp_path):
    for name in ("one", "two"):
        storage = open_storage(url.format(tmp_path))
        optuna.create_study(storage=storage.optuna, study_name=name)
    names = [one.study_name for one in optuna.get_all_study_summaries(storage.optuna)]
    assert names == ["one", "two"]


def test_a_machine_goes_on_where_another_made_the_tables_of_a_new_database(tmp_path, monkeypatch):
    from sqlalchemy.exc import OperationalError

    begin, faster = optuna.storages.RDBStorage.__init__, [True, True]

    def begin_late(*args, **kwargs):
        if faster:
            faster.pop()
            raise OperationalError("CREATE TABLE studies", None, Exception("already exists"))
        begin(*args, **kwargs)

    monkeypatch.setattr(optuna.storages.RDBStorage, "__init__", begin_late)
    monkeypatch.setattr("tfopt_core.tuning.shared_storage.TRY_SECONDS", 0.0)
    storage = open_storage(f"sqlite:///{tmp_path}/a.db")
    assert optuna.get_all_study_summaries(storage.optuna) == []


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a database, a file that is none, and a journal with a torn line."""
    folder = tmp_path_factory.mktemp("storages")
    open_storage(f"sqlite:///{folder}/read-only.db")
    (folder / "text").write_text("no journal, and long enough to be no header of a database\n")
    open_storage(str(folder / "torn"))
    entries = (folder / "torn").read_text().splitlines(keepends=True)
    (folder / "torn").write_text(entries[0] + entries[1][:20])
    return folder


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("journal:", "names no file"),
        ("{}", "names no file"),
        ("{}/none/a.log", "there is no folder"),
        ("{}/text", "line 1 of .* is damaged, or it is no journal"),
        ("{}/torn", "line 2 of .* is damaged"),
        ("sqlite:///{}/none/a.db", "unable to open database file"),
        ("sqlite:///file:{}/read-only.db?mode=ro&uri=true", "readonly"),
        ("sqlite:///{}/text", "not a database"),
        ("nothing://host/db", "nothing"),
        ("http+unheard://me@host", "unheard"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_an_error_of_one_line_and_written_nowhere(url, why, place):
    before = {one.name: one.read_bytes() for one in place.iterdir()}
    with pytest.raises(InputError, match=why) as caught:
        open_storage(url.format(place))
    assert str(caught.value).startswith("--storage: ")
    assert "\n" not in str(caught.value)
    assert {one.name: one.read_bytes() for one in place.iterdir()} == before


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:p%40ss/w0rd@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me:a@b@host:1/db", "postgresql://me:***@host:1/db"),
        ("mysql+pymysql://host/db?user=me&password=secret", "mysql+pymysql://host/db?user=me&"
         "password=***"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        ("sqlite:///here.db", "sqlite:///here.db"),
        ("/shared/a@b:c", "/shared/a@b:c"),
    ],
)  # fmt: skip
def test_a_password_is_neither_shown_nor_in_an_error_or_its_causes(url, shown):
    storage = SharedStorage(url)
    assert storage.shown == shown
    assert url not in repr(storage)
    with pytest.raises(StoreError) as caught, storage.guarded():
        raise ValueError(f"no connection to {url}: p@ss/w0rd, a@b, secret")
    text = str(caught.value)
    assert (url in text) is (url == shown)
    for secret, written in {"p@ss/w0rd": "p%40ss", "a@b": "me:a@b", "secret": "=secret"}.items():
        assert (secret in text.rpartition(": ")[2]) is (written not in url)
    assert caught.value.__suppress_context__
