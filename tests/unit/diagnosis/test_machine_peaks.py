"""The machine's peaks: measured once in a process, the highest kept in the user's cache."""

from __future__ import annotations

import json

import pytest

from tfopt_core.diagnosis import machine_peaks as module
from tfopt_core.diagnosis.machine_peaks import MachinePeaks, machine_peaks, peaks_file
from tfopt_core.testing import make_machine


@pytest.fixture
def measured(monkeypatch):
    """What is measured, in order, with figures of the test's own."""
    calls = []
    rates = {"float32": 100.0, "bfloat16": 400.0}
    monkeypatch.setattr(module, "_measured", {})
    monkeypatch.setattr(
        module, "_products_a_second", lambda dtype, sync: calls.append(dtype) or rates[dtype]
    )
    monkeypatch.setattr(module, "_bytes_a_second", lambda sync: calls.append("bytes") or 50.0)
    return calls


def test_each_peak_is_measured_once_in_a_process(measured, tmp_path):
    file = tmp_path / "peaks.json"
    first = machine_peaks(make_machine(), ["float32", "bfloat16"], file=file)
    assert first == MachinePeaks(operations={"float32": 100.0, "bfloat16": 400.0}, bytes=50.0)
    assert machine_peaks(make_machine(), ["float32"], file=file) == first
    assert measured == ["float32", "bfloat16", "bytes"]


def test_what_a_diagnosis_has_seen_is_not_measured_again(measured, tmp_path):
    peaks = machine_peaks(
        make_machine(), ["float32"], seen={"float32": 70.0}, memory=False, file=tmp_path / "p.json"
    )
    assert peaks == MachinePeaks(operations={"float32": 70.0})
    assert measured == []


def test_the_highest_figure_of_all_processes_on_this_machine_counts(
    measured, tmp_path, monkeypatch
):
    file = tmp_path / "new" / "peaks.json"
    machine_peaks(make_machine(), ["float32"], seen={"float32": 300.0}, file=file)
    monkeypatch.setattr(module, "_measured", {})  # another process, on a busy machine
    assert machine_peaks(make_machine(), ["float32"], file=file).operations == {"float32": 300.0}
    monkeypatch.setattr(module, "_measured", {})
    other = make_machine(cpu_model="another CPU")
    assert machine_peaks(other, ["float32"], file=file).operations == {"float32": 100.0}
    assert len(json.loads(file.read_text())) == 2


@pytest.mark.promise(41, injected="damaged and foreign files of the machine's peaks")
@pytest.mark.parametrize("text", ["", "[]", '{"a": 1}', '{"a": {"operations": [], "bytes": 1}}'])
def test_a_damaged_cache_is_measured_anew_and_replaced(measured, tmp_path, text):
    file = tmp_path / "peaks.json"
    file.write_text(text)
    assert machine_peaks(make_machine(), ["float32"], file=file).operations == {"float32": 100.0}
    assert len(json.loads(file.read_text())) == 1


@pytest.mark.promise(41, injected="rates of nan, infinity, below 0 and beyond any machine")
@pytest.mark.parametrize("rate", ["NaN", "Infinity", "-1.0", "0", "1e300", '"fast"', "null"])
def test_a_kept_rate_that_is_none_is_measured_anew(measured, tmp_path, rate):
    file, key = tmp_path / "peaks.json", json.dumps(module._key(make_machine()))
    file.write_text(f'{{{key}: {{"operations": {{"float32": {rate}}}, "bytes": 40.0}}}}')
    peaks = machine_peaks(make_machine(), ["float32"], file=file)
    assert peaks == MachinePeaks(operations={"float32": 100.0}, bytes=50.0)
    assert json.loads(file.read_text())[json.loads(key)]["operations"] == {"float32": 100.0}


def test_a_cache_that_cannot_be_written_harms_nothing(measured, tmp_path):
    (tmp_path / "file").write_text("")
    peaks = machine_peaks(make_machine(), ["float32"], file=tmp_path / "file" / "peaks.json")
    assert peaks.operations == {"float32": 100.0}


def test_the_cache_is_the_users(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert peaks_file() == tmp_path / "tfopt" / "peaks.json"


@pytest.mark.tensorflow
def test_the_memory_rate_is_that_of_the_most_transfers_in_their_time(monkeypatch):
    clock = iter(range(0, 10**12, 2 * 10**9))
    monkeypatch.setattr(module, "perf_counter_ns", lambda: next(clock))
    monkeypatch.setattr(module, "MEMORY_BYTES", 4_000)
    # what reads, reads again and writes 4 kB in two seconds
    assert module._bytes_a_second(None) == 3 * 4_000 / 2
