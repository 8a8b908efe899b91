"""What `--json` wrote is read back whole; anything else is refused with its reason."""

import json
import math
import os

import attrs
import pytest
from support.measure_runs import make_run
from support.report_results import make_results

from tfopt_core.commands.output import to_json, write_json
from tfopt_core.errors import InputError
from tfopt_core.statistics.results import Verdict
from tfopt_core.store.decoding import read_results
from tfopt_core.training.messages import Block

RUN = make_run("full", 0, 2.5, blocks=(Block(10, 0.1),), step_seconds=None)
RESULTS = make_results(id="m", runs=(RUN,))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results.json"


def test_results_come_back_as_they_were_written(path):
    for verdict in Verdict:
        comparison = attrs.evolve(RESULTS.comparison, verdict=verdict)
        results = attrs.evolve(RESULTS, comparison=comparison)
        write_json(results, path)
        assert read_results(path) == results
        assert read_results(path).comparison.verdict is verdict


def test_a_number_that_json_does_not_have_comes_back_as_nan(path):
    fit = attrs.evolve(RUN.fit, metrics={"loss": math.nan}, history={"loss": (0.7, math.inf)})
    write_json(attrs.evolve(RESULTS, runs=(attrs.evolve(RUN, fits=(fit,)),)), path)
    [run] = read_results(path).runs
    assert math.isnan(run.fit.metrics["loss"])
    assert math.isnan(run.fit.history["loss"][1])
    assert run.fit.step_seconds is None


def test_a_field_of_a_later_version_is_ignored(path):
    path.write_text(json.dumps({**to_json(RESULTS), "mood": "good"}))
    assert read_results(path) == RESULTS


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ('{"measurements": []}', "is not a measurement; name a file that `tfopt apply"),
        ("[]", "is not a measurement; name a file that `tfopt apply"),
        ("name = 1", "is no JSON; a recipe is measured with `tfopt apply`"),
        ("[" * 100_000, "is no JSON"),
        ({"schema_version": 5}, "by a newer tfopt (schema 5, this one knows 4); upgrade tfopt"),
        ({"schema_version": 2}, "by an older tfopt (schema 2, this one knows 4); measure again"),
        ({"runs": [{**to_json(RUN), "seed": "many"}]}, "runs[0].seed"),
        (
            {"comparison": {**to_json(RESULTS.comparison), "verdict": "better"}},
            "edited: invalid value for type, expected Verdict at comparison.verdict",
        ),
    ],
)
def test_anything_else_is_refused_with_the_reason(tmp_path, data, message):
    text = data if isinstance(data, str) else json.dumps({**to_json(RESULTS), **data})
    file = tmp_path / "recipe.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_results(file)
    assert message in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_results(tmp_path / "absent.json")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read_results(tmp_path)


@pytest.mark.parametrize("size", [2**20, 2**20 + 1])
def test_of_a_file_without_end_no_more_is_read_than_a_measurement_may_have(
    size, tmp_path, monkeypatch
):
    monkeypatch.setattr("tfopt_core.store.decoding.MAX_SIGNS", 2**20)
    (tmp_path / "zeros").symlink_to("/dev/zero")
    with pytest.raises(InputError, match='zeros" is larger than 1 MiB'):
        read_results(tmp_path / "zeros")
    (tmp_path / "sparse.json").touch()
    os.truncate(tmp_path / "sparse.json", size)
    with pytest.raises(InputError, match="larger than 1 MiB" if size > 2**20 else "is no JSON"):
        read_results(tmp_path / "sparse.json")
