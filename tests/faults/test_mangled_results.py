"""Results of which some values were replaced or removed: shown, or refused, and no traceback."""

from __future__ import annotations

import json
import sqlite3

import pytest
from hypothesis import given, settings
from support.cases import THOROUGH_EXAMPLES, few_examples
from support.in_process import tfopt_here
from support.mangled import mangled
from support.stored_measurements import FIRST, FIRST_RESULTS, SECOND_RESULTS, keep

from tfopt_core.commands.output import to_json
from tfopt_core.store.database import Store, store_path

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
