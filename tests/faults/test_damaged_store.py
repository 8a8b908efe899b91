"""A damaged row of the results' file: an error that names its measurement, the others readable."""

from __future__ import annotations

import json
import sqlite3

import pytest
from support.in_process import tfopt_here
from support.stored_measurements import (
    FIRST,
    FIRST_RESULTS,
    SECOND,
    SECOND_RESULTS,
    keep,
    make_results,
)

from tfopt_core.store.database import Store, store_path

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
