"""The results' file: whole, durable, and never overwritten when something is wrong with it."""

import sqlite3

import attrs
import pytest
from support.measure_runs import make_run
from support.report_results import make_results

from tfopt_core.errors import DamagedMeasurement, InputError, StoreError
from tfopt_core.store.database import Store
from tfopt_core.training.messages import Block

RUN = make_run("full", 0, 2.5, blocks=(Block(1, 0.5, 0, "trace"), Block(10, 0.1)))


@pytest.fixture
def path(tmp_path):
    return tmp_path / ".tfopt" / "runs.sqlite"


def test_a_run_comes_back_as_it_was(path):
    with Store(path) as store:
        store.begin("m", "2026-01-01", "r", "abc", {})
        store.add_run("m", RUN)
    with Store(path) as store:
        assert store.runs("m") == (RUN,)
        assert store.results("m") is None
        assert store.measurements() == ("m",)


def test_every_commit_reaches_the_disk(path):
    with Store(path) as store:
        assert store._read("PRAGMA journal_mode", ()) == [("wal",)]
        assert store._read("PRAGMA synchronous", ()) == [(2,)]


@pytest.mark.promise(14, injected="two connections that write in turn")
def test_two_processes_share_a_file(path):
    with Store(path) as one, Store(path) as two:
        one.begin("a", "1", "r", "x", {})
        two.begin("b", "2", "r", "x", {})
        assert one.measurements() == two.measurements() == ("a", "b")


OPENED = pytest.mark.parametrize("opened", [Store, Store.existing], ids=["written", "read"])


@OPENED
def test_a_newer_schema_is_refused_and_left_alone(path, opened):
    with Store(path) as store:
        store._write("PRAGMA user_version = 99", ())
    before = path.read_bytes()
    with pytest.raises(StoreError, match="written by a newer tfopt") as caught:
        opened(path)
    assert caught.value.exit_code == 3
    assert path.read_bytes() == before


@pytest.mark.promise(13, injected="a file that is no database, or only begins as one")
@pytest.mark.parametrize("damage", [b"no database at all " * 100, b"SQLite format 3\0" + b"x" * 90])
@OPENED
def test_a_damaged_file_is_named_and_nothing_is_overwritten(path, opened, damage):
    path.parent.mkdir()
    path.write_bytes(damage)
    with pytest.raises(StoreError, match=r'runs\.sqlite" cannot be'):
        opened(path)
    assert path.read_bytes() == damage


def test_a_run_is_stored_once(path):
    with Store(path) as store:
        store.begin("m", "1", "r", "x", {})
        store.add_run("m", RUN)
        with pytest.raises(StoreError, match="UNIQUE"):
            store.add_run("m", RUN)
        assert len(store.runs("m")) == 1


# Reading what was kept

RESULTS = make_results(id="m", recipe="r", runs=(), workload="flights")
REQUEST = {"recipe": {"workload": {"factory": "f.py:build"}}, "seed": 1}


def test_a_store_that_does_not_exist_is_not_created_by_reading(path):
    with Store.existing(path) as store:
        assert store.measurements() == ()
    assert not path.parent.exists()


def test_a_file_without_tables_is_left_as_it_is(path):
    path.parent.mkdir()
    path.touch()
    with Store.existing(path) as store:
        assert store.overview() == ()
    assert path.read_bytes() == b""


def test_an_existing_store_is_read_only_and_leaves_nothing_beside_it(path):
    with Store(path) as store:
        store.begin("m", "1", "r", "x", REQUEST)
    before = path.read_bytes()
    with Store.existing(path) as store:
        assert store.measurements() == ("m",)
        assert store.request_of("m") == REQUEST
        assert store.request_of("n") == {}
        with pytest.raises(StoreError, match="readonly"):
            store.add_run("m", RUN)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["runs.sqlite"]


def test_a_store_in_a_folder_that_cannot_be_written_is_read(path):
    with Store(path) as store:
        store.begin("m", "1", "r", "x", REQUEST)
    path.chmod(0o444)
    path.parent.chmod(0o555)
    try:
        with Store.existing(path) as store:
            assert store.measurements() == ("m",)
    finally:
        path.parent.chmod(0o755)


def test_what_another_process_is_writing_can_be_read(path):
    with Store(path) as writer:
        writer.begin("m", "1", "r", "x", REQUEST)
        with Store.existing(path) as reader:
            assert reader.measurements() == ("m",)
        writer.add_run("m", RUN)
        assert writer.runs("m") == (RUN,)


def test_the_overview_tells_what_was_concluded(path):
    with Store(path) as store:
        store.begin("m", "1", "r", "abc", REQUEST)
        store.add_run("m", RUN)
        store.finish(RESULTS)
        [found] = store.overview()
    assert (found.id, found.recipe, found.workload) == ("m", "r", "flights")
    assert (found.state, found.verdict, found.speedup) == ("finished", "faster", 1.25)
    assert (found.low, found.high, found.confidence) == (1.24, 1.26, 0.98)
    assert (found.pairs, found.runs) == (4, 1)


def test_the_overview_counts_the_pairs_of_what_was_never_concluded(path):
    with Store(path) as store:
        store.begin("m", "1", "r", "abc", REQUEST)
        for round_, statuses in enumerate((("ok", "ok"), ("ok", "failed"), ("served", "ok"))):
            for variant, status in zip(("baseline", "full"), statuses, strict=True):
                run = attrs.evolve(RUN, id=f"{variant} {round_}", variant=variant, round=round_)
                store.add_run("m", attrs.evolve(run, status=status))
        [found] = store.overview()
    assert (found.state, found.verdict, found.workload) == ("unfinished", None, "f.py:build")
    assert (found.pairs, found.runs) == (1, 6)


def test_the_overview_has_the_oldest_first_and_tells_interrupted_ones(path):
    with Store(path) as store:
        for id_, created_at in (("b", "2"), ("a", "1")):
            store.begin(id_, created_at, "r", "abc", {})
        store.finish(attrs.evolve(RESULTS, id="b", interrupted=True))
        assert [(o.id, o.state) for o in store.overview()] == [
            ("a", "unfinished"), ("b", "interrupted"),
        ]  # fmt: skip


# A damaged row

DAMAGES = {
    "cut short": b'{"comparison": {',
    "no text": b"\xff\xfe\x00{",
    "of another form": b"[1, 2]",
    "with holes": b"{}",
    "nested without end": b"[" * 100_000,
}
# An empty request is one without the facts of a measurement, and no damage to reading it.
DAMAGED_REQUESTS = {name: data for name, data in DAMAGES.items() if name != "with holes"}


def damage(path, table, column, id_, data):
    with sqlite3.connect(path) as connection:
        statement = f"UPDATE {table} SET {column} = CAST(? AS TEXT) WHERE id = ?"
        assert connection.execute(statement, (data, id_)).rowcount == 1
    connection.close()


def two_measurements(path):
    """ "good" and "m", both finished and with one run; "m" is the newer one."""
    with Store(path) as store:
        for number, id_ in enumerate(("good", "m")):
            store.begin(id_, str(number), "r", "abc", REQUEST)
            store.add_run(id_, attrs.evolve(RUN, id=f"{id_}-00"))
            store.finish(attrs.evolve(RESULTS, id=id_))


@pytest.mark.parametrize("data", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize(("table", "column", "id_"), [("measurement", "results", "m"),
                                                      ("run", "data", "m-00")])  # fmt: skip
def test_damaged_results_are_an_error_that_names_the_measurement(path, table, column, id_, data):
    two_measurements(path)
    damage(path, table, column, id_, data)
    with Store(path) as store:
        with pytest.raises(DamagedMeasurement, match=r'measurement "m" in ".*runs\.sqlite"') as e:
            store.results("m")
        assert e.value.measurement == "m"
        assert e.value.exit_code == 3
        assert ('run "m-00"' if table == "run" else "results") in str(e.value)
        assert store.results("good").runs[0].id == "good-00"


@pytest.mark.parametrize("column", ["request", "results"])
@pytest.mark.parametrize("data", DAMAGED_REQUESTS.values(), ids=DAMAGED_REQUESTS)
def test_the_overview_lists_a_damaged_measurement_as_such_and_the_others(path, column, data):
    two_measurements(path)
    damage(path, "measurement", column, "m", data)
    with Store(path) as store:
        good, bad = store.overview()
        with pytest.raises(DamagedMeasurement, match='measurement "m"'):
            store.overview_of("m")
        if column == "request":
            with pytest.raises(DamagedMeasurement, match='measurement "m"'):
                store.request_of("m")
            # what was concluded is whole all the same
            assert store.results("m").comparison == RESULTS.comparison
    assert (good.id, good.state, good.damage) == ("good", "finished", None)
    assert (bad.id, bad.state, bad.recipe, bad.verdict, bad.runs) == ("m", "damaged", "r", None, 1)
    assert column in bad.damage


def test_an_undecodable_name_is_shown_with_a_substitute(path):
    two_measurements(path)
    damage(path, "measurement", "recipe", "m", b"fash\xffon")
    with Store(path) as store:
        assert [overview.recipe for overview in store.overview()] == ["r", "fash\ufffdon"]


def test_a_page_that_sqlite_cannot_follow_damages_its_measurement_alone(path):
    # a request of several pages: all but its beginning lies on pages of its own
    with Store(path) as store:
        store.begin("good", "0", "r", "abc", REQUEST)
        store.begin("m", "1", "r", "abc", {**REQUEST, "filler": "x" * 20_000})
        store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = bytearray(path.read_bytes())
    # the first 4 bytes of such a page say which one comes next
    page = next(begin for begin in range(0, len(whole), 4096)
                if whole[begin + 100 : begin + 4096] == b"x" * 3996)  # fmt: skip
    whole[page : page + 4] = b"\xff\xff\xff\xff"
    path.write_bytes(whole)
    with Store.existing(path) as store:
        assert [overview.state for overview in store.overview()] == ["unfinished", "damaged"]
        with pytest.raises(DamagedMeasurement, match="malformed"):
            store.request_of("m")


def test_results_of_a_newer_tfopt_are_no_damage(path):
    two_measurements(path)
    damage(path, "measurement", "results", "m", b'{"schema_version": 99, "all": "new"}')
    with Store(path) as store, pytest.raises(InputError, match="concluded by a newer tfopt"):
        store.results("m")


@pytest.mark.parametrize("data", DAMAGES.values(), ids=DAMAGES)
def test_a_measurement_whose_end_cannot_be_read_is_among_the_unfinished(path, data):
    with Store(path) as store:
        store.begin("begun", "1", "r", "abc", REQUEST)
        store.begin("ended", "2", "r", "abc", REQUEST)
        store.finish(attrs.evolve(RESULTS, id="ended"))
    damage(path, "measurement", "results", "ended", data)
    with Store(path) as store:
        ended, begun = store.unfinished()
        assert store.request_of("begun") == REQUEST
    assert [(one.id, one.state) for one in (begun, ended)] == [
        ("begun", "unfinished"), ("ended", "damaged"),
    ]  # fmt: skip
