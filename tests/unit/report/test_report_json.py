"""`--json`."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.report_results import make_fit, make_results, make_run

from tfopt_core.commands.output import to_json, write_json


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
    with contextlib.redirect_stdout(stream):
        write_json(results, Path("-"))
    assert json.loads(stream.getvalue()) == to_json(results)


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
