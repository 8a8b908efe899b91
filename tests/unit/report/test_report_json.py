"""`--json`."""

from __future__ import annotations

import io
import json
import math
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.report_results import make_attribution, make_fit, make_results, make_run

from tfopt_core.errors import InputError
from tfopt_core.report.results.as_json import to_json, write_json

# docs/guide/json.md
FIELDS = {
    "": "schema_version recipe recipe_sha256 resolved machine environment runs comparison "
    "attribution",
    "runs": "id variant round seed status wall_seconds peak_rss_bytes peak_device_bytes "
    "disturbance effects fits",
    "fits": "one_time_seconds blocks step_seconds examples_per_second "
    "trainable_parameters epochs epochs_to_target seconds_to_target metrics history",
    "blocks": "steps seconds",
    "comparison": "kind speedup low high confidence pairs run_ids statement quality",
    "quality": "metric baseline optimized difference low tolerance certificate statement",
    "attribution": "plugin left_out low high run_ids statement",
}


def whole() -> dict[str, Any]:
    return to_json(make_results(attribution=(make_attribution("cache", 1.2, "faster"),)))


def test_every_field_of_the_design_is_there() -> None:
    data = whole()
    run = next(run for run in data["runs"] if run["variant"] == "full")
    parts = {
        "": data, "runs": run, "fits": run["fits"][0], "blocks": run["fits"][0]["blocks"][0],
        "comparison": data["comparison"], "quality": data["comparison"]["quality"],
        "attribution": data["attribution"][0],
    }  # fmt: skip
    for name, fields in FIELDS.items():
        assert set(fields.split()) <= set(parts[name]), name
    assert run["effects"]["cache"] == {
        "applied": True, "detail": "60,000 examples kept in memory after 2 stages",
        "tables": [],
    }  # fmt: skip


def test_numbers_that_json_does_not_know_become_null() -> None:
    metrics = {"loss": math.nan, "val_loss": -math.inf}
    results = make_results(runs=(make_run(0, fits=(make_fit(metrics=metrics),)),))
    assert to_json(results)["runs"][0]["fits"][0]["metrics"] == {"loss": None, "val_loss": None}


def test_foreign_values_of_settings_become_plain() -> None:
    settings = {"path": Path("a/b"), "set": {2, 1}, "f": np.float32(0.5), "i": np.int64(3)}
    assert to_json(make_results(resolved={"p": settings}))["resolved"]["p"] == {
        "path": "a/b", "set": [1, 2], "f": 0.5, "i": 3,
    }  # fmt: skip


@given(st.dictionaries(st.text(), st.floats() | st.text() | st.integers() | st.booleans()))
def test_anything_can_be_written_and_read_again(settings: dict[str, Any]) -> None:
    stream = io.StringIO()
    results = make_results(resolved={"p": settings})
    write_json(results, "-", stream)
    assert json.loads(stream.getvalue()) == to_json(results)


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    target = tmp_path / "results.json"
    target.write_text("old")
    write_json(make_results(), target)
    assert json.loads(target.read_text())["recipe"] == "fashion-fast"
    assert os.listdir(tmp_path) == ["results.json"]


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_the_old_file_stays_when_a_step_fails(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "results.json"
    target.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    if step == "write":

        class Full(io.FileIO):
            def write(self, _: object) -> int:
                full()
                return 0

        monkeypatch.setattr(Path, "open", lambda path, mode: Full(path, mode))
    else:
        monkeypatch.setattr(os, step, full)
    with pytest.raises(InputError, match="No space left on device"):
        write_json(make_results(), target)
    monkeypatch.undo()
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["results.json"]


def test_a_link_keeps_pointing_at_its_file(tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "real.json")
    write_json(make_results(), link)
    assert link.is_symlink()
    assert json.loads((tmp_path / "real.json").read_text())


def test_the_file_has_the_permissions_of_the_umask(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        write_json(make_results(), tmp_path / "results.json")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "results.json").stat().st_mode) == 0o640


def test_what_is_no_regular_file_is_written_to_and_never_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_json(make_results(runs=()), pipe)
        assert json.loads(os.read(reader, 2**16))
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
