"""Results whose bytes, rows or values are damaged: shown or refused, and never written."""

import json
import random
import sqlite3

import pytest
from hypothesis import given, settings
from support.cases import THOROUGH_EXAMPLES, few_examples
from support.in_process import tfopt_here
from support.mangled import mangled
from support.stored_measurements import (
    FIRST,
    FIRST_RESULTS,
    SECOND,
    SECOND_RESULTS,
    keep,
    make_results,
)

from tfopt_core.commands.output import to_json
from tfopt_core.store.database import Store, store_path

DAMAGES = 40
COMMANDS = (["runs"], ["report", FIRST], ["compare", "aa01", "bb02"])


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of a results' file with two measurements."""
    path = store_path(tmp_path_factory.mktemp("whole"))
    with Store(path) as store:
        for results in (FIRST_RESULTS, SECOND_RESULTS):
            keep(store, results)
    return path.read_bytes()


def flipped(data: bytes, chance: random.Random) -> bytes:
    damaged = bytearray(data)
    for _ in range(chance.choice([1, 8, 200])):
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
    return bytes(damaged)


def cut(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(1, len(data))]


@pytest.mark.promise(13, injected="bits of the file flipped, its end cut off, at drawn places")
@pytest.mark.parametrize("damage", [flipped, cut])
def test_a_damaged_file_is_read_or_refused_and_never_written(whole, tmp_path, damage):
    chance = random.Random(7)
    path = store_path(tmp_path)
    path.parent.mkdir()
    for number in range(DAMAGES):
        data = damage(whole, chance)
        path.write_bytes(data)
        words = COMMANDS[number % len(COMMANDS)]
        done = tfopt_here(*words, cwd=tmp_path)
        assert done.code in (0, 2, 3), (number, words, done.err)
        assert "Traceback" not in done.err, (number, words)
        for line in done.err.splitlines():
            assert line.startswith("error: "), (number, words, line)
        assert path.read_bytes() == data, (number, words)


# A damaged row of the results' file: an error that names its measurement, the others readable

THIRD = "20261121-103000-cc03"

DAMAGE = {
    "request": "UPDATE measurement SET request = '{\"a' WHERE id = ?",
    "results": "UPDATE measurement SET results = '{\"a' WHERE id = ?",
    "run": "UPDATE run SET data = '{\"a' WHERE measurement = ? AND round = 2",
    "judged": "UPDATE run SET data = json_set(CAST(data AS TEXT), '$.judged', 7) "
    "WHERE measurement = ? AND round = 2",
}


@pytest.mark.promise(13, injected="rows of half their JSON, or with a fit that is not there")
@pytest.mark.parametrize(
    ("part", "refused"),
    [
        ("request", []),  # the pages need nothing of it
        ("results", ["compare", "report"]),
        ("run", ["compare", "report"]),
        ("judged", ["compare", "report"]),  # a fit that the run does not have
    ],
)
def test_a_damaged_measurement_is_named_and_the_others_can_be_read(tmp_path, part, refused):
    path = store_path(tmp_path)
    third = make_results(THIRD, "2026-11-21T10:30:00+00:00", 5.0, "memory")
    with Store(path) as store:
        for results in (FIRST_RESULTS, SECOND_RESULTS, third):
            keep(store, results)
    with sqlite3.connect(path) as connection:
        connection.execute(DAMAGE[part], (SECOND,))
    connection.close()
    before = path.read_bytes()

    listed = tfopt_here("runs", "--json", "-", cwd=tmp_path)
    rows = json.loads(listed.out)["measurements"]
    assert [row["id"] for row in rows] == [FIRST, SECOND, THIRD]
    assert [row["state"] for row in rows].count("damaged") == (part in ("request", "results"))
    for arguments in (("report", "last"), ("compare", FIRST, THIRD)):
        done = tfopt_here(*arguments, cwd=tmp_path)
        assert done.code == 0, done.err

    asked = {"compare": ("compare", FIRST, SECOND), "report": ("report", SECOND)}
    for command in refused:
        done = tfopt_here(*asked[command], cwd=tmp_path)
        assert done.code == 3
        assert f'error: measurement "{SECOND}" in "' in done.err
        assert len(done.err.splitlines()) == 1
    assert path.read_bytes() == before


# Results of which some values were replaced or removed: shown, or refused, and no traceback

# the same examples each time, but by tools/fuzz.py, which draws anew
few = few_examples(20, derandomize=settings().max_examples <= THOROUGH_EXAMPLES)
WHOLE = json.loads(json.dumps(to_json(FIRST_RESULTS)))

# as the store has them: the measurement without its runs, and a run
CONCLUDED = {key: value for key, value in WHOLE.items() if key != "runs"} | {"runs": []}
RUN = WHOLE["runs"][0]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project with two measurements, and each in a file."""
    folder = tmp_path_factory.mktemp("project")
    with Store(store_path(folder)) as store:
        for name, results in (("first", FIRST_RESULTS), ("second", SECOND_RESULTS)):
            keep(store, results)
            (folder / f"{name}.json").write_text(json.dumps(to_json(results)))
    return folder


def check_shown_or_refused(done):
    assert done.code in (0, 2, 3), done.err
    assert "Traceback" not in done.err
    if done.code:
        assert done.err.startswith("error: ")


@pytest.mark.thorough
@few
@given(data=mangled(WHOLE))
def test_a_mangled_file_of_results_is_compared_or_refused(project, data):
    (project / "mangled.json").write_text(json.dumps(data))
    check_shown_or_refused(tfopt_here("compare", "second.json", "mangled.json", cwd=project))


@pytest.mark.promise(13, injected="values of stored results replaced and removed, drawn")
@few
@given(results=mangled(CONCLUDED), run=mangled(RUN))
def test_mangled_results_of_a_measurement_are_shown_or_refused(project, results, run):
    changes = (
        ("UPDATE measurement SET results = ? WHERE id = ?", (json.dumps(results), FIRST)),
        ("UPDATE run SET data = ? WHERE id = ?", (json.dumps(run), RUN["id"])),
    )
    with sqlite3.connect(store_path(project)) as connection:
        for statement, values in changes:
            assert connection.execute(statement, values).rowcount == 1
    connection.close()
    check_shown_or_refused(
        tfopt_here("report", FIRST, "--markdown", "out.md", "--html", "out.html", cwd=project)
    )
    check_shown_or_refused(tfopt_here("runs", cwd=project))
