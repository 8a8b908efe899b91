"""`tfopt doctor` trains on GPUs: what fails is named with its cause and what helps."""

from __future__ import annotations

import json
import subprocess

import attrs
import pytest

from tfopt_core.commands.doctor_gpu import (
    DeviceReport,
    Step,
    check_device,
    device_findings,
    end_of,
    explain,
    newest_capability,
    process_findings,
    read_report,
    unopened_gpus,
)
from tfopt_core.hooks.machine import ask_driver
from tfopt_core.training.device_check import CONVOLUTION, DENSE, missing_libraries

# The wheel of TensorFlow 2.21.
BUILT_FOR = ("sm_60", "sm_70", "sm_80", "sm_89", "compute_90")
STEPS = tuple(Step(layer, xla, 0.5) for layer in (CONVOLUTION, DENSE) for xla in (True, False))
REPORT = DeviceReport(
    device="GPU:0", compute_capability=(9, 0), built_for=BUILT_FOR, done=STEPS
)  # fmt: skip
NO_CONFIGS = "NotFoundError: Graph execution error:\nAutotuner could not find any supported configs"


@pytest.mark.tensorflow
def test_a_process_trains_both_layers_with_xla_and_without():
    report = check_device("CPU:0")
    assert (report.end, report.running) == ("", None)
    assert [str(step) for step in report.done] == [str(step) for step in STEPS]
    [finding] = device_findings(report)
    assert finding.ok
    assert finding.detail.startswith("trains a convolution and a dense layer, with XLA and without")


def test_a_process_that_takes_too_long_is_ended_and_named():
    [finding] = device_findings(check_device("CPU:0", time_limit_seconds=0.05))
    assert finding.ok is False
    assert finding.detail == (
        "starting TensorFlow: the process took longer than 0.05 s and was ended"
    )


def test_seconds_of_all_steps_are_summed():
    [finding] = device_findings(REPORT)
    assert (finding.subject, finding.ok) == ("GPU:0", True)
    assert finding.detail.endswith("(2.0 s)")


def test_a_cudnn_that_is_too_old_for_xla_is_named_with_what_installs_a_newer_one():
    failed = attrs.evolve(REPORT, done=(Step(CONVOLUTION, True, 1.0, NO_CONFIGS), *STEPS[1:]))
    [finding] = device_findings(failed)
    assert finding.ok is False
    assert finding.detail.startswith("cannot train a convolution with XLA: XLA finds no algorithm")
    assert "pip install --upgrade 'nvidia-cudnn-cu12>=9.24,<10'" in finding.detail
    assert "jit_compile=False" in finding.detail


def test_steps_that_fail_for_the_same_reason_are_one_finding():
    done = tuple(attrs.evolve(step, error="ValueError: no\nmore") for step in STEPS)
    [finding] = device_findings(attrs.evolve(REPORT, done=done))
    assert finding.detail == (
        "cannot train a convolution with XLA, a convolution without XLA, a dense layer with XLA, "
        "a dense layer without XLA: ValueError: no"
    )


@pytest.mark.parametrize(
    ("error", "helps"),
    [
        ("Failed to load in-memory CUBIN: CUDA_ERROR_NO_BINARY_FOR_GPU", "built for this GPU"),
        ("ptxas fatal : Value 'sm_120' is not defined for option 'gpu-name'", "built for this GPU"),
        ("libdevice not found at ./libdevice.10.bc", "tfopt[and-cuda]"),
        ("ResourceExhaustedError: OOM when allocating", "end the other processes"),
        ("UnimplementedError: DNN library is not found.", "tfopt[and-cuda]"),
        ("Loaded runtime CuDNN library: 9.1.0 but source was compiled with: 9.3.0", ">=9.24"),
    ],
)
def test_known_failures_say_what_helps(error, helps):
    assert helps in explain(error)[1]


def test_a_crash_is_named_with_its_step_and_signal():
    lines = (
        "a library's own line", "3",
        json.dumps({"compute_capability": [12, 0], "built_for": BUILT_FOR}),
        json.dumps({"starts": {"layer": DENSE, "xla": False}}),
        json.dumps({"done": attrs.asdict(STEPS[3])}),
        json.dumps({"starts": {"layer": CONVOLUTION, "xla": True}}),
    )  # fmt: skip
    report = read_report("GPU:1", "\n".join(lines), end_of(-11, "one\nCheck failed: x\n"))
    assert report.done == (STEPS[3],)
    crash, too_new = device_findings(report)
    assert (crash.subject, crash.ok) == ("GPU:1", False)
    assert crash.detail == (
        "training a convolution with XLA: the process crashed by SIGSEGV: Check failed: x"
    )
    assert too_new.ok is False
    assert end_of(1, "") == "ended with status 1: no message"
    assert end_of(0, "a warning") == ""


def test_a_gpu_newer_than_the_code_is_a_warning_while_its_steps_work():
    works, too_new = device_findings(attrs.evolve(REPORT, compute_capability=(12, 0)))
    assert (works.ok, too_new.ok) == (True, None)
    assert "capability 12.0 is newer than TensorFlow's code, which goes up to 9.0" in too_new.detail


def test_the_newest_capability_is_read_from_either_kind_of_code():
    assert newest_capability(BUILT_FOR) == (9, 0)
    assert newest_capability(("sm_90a", "compute_120")) == (12, 0)
    assert newest_capability(("gfx90a",)) is None


def test_libraries_that_are_in_no_package_of_nvidia_are_missing(tmp_path):
    folder = tmp_path / "nvidia" / "cudnn" / "lib"
    folder.mkdir(parents=True)
    (folder / "libtfopt_none.so.9").touch()
    names = ("libc.so.6", "libtfopt_none.so.9", "libtfopt_none.so.8")
    assert missing_libraries(names, [str(tmp_path)]) == ["libtfopt_none.so.8"]


def test_missing_libraries_are_named_where_tensorflow_opens_no_gpu():
    assert unopened_gpus(["libcudnn.so.9"]).detail.endswith("; missing: libcudnn.so.9")
    assert "CUDA_VISIBLE_DEVICES" in unopened_gpus([]).mend


def test_other_processes_are_named_with_the_memory_they_hold():
    listing = "4711, /usr/bin/python3, -m x, 20480\n12, [Not Found], [N/A]\nNo running processes\n"
    first, second = process_findings(listing)
    assert first.detail == "process 4711 (/usr/bin/python3, -m x) holds 20.0 GiB"
    assert second.detail == "process 12 ([Not Found]) uses memory"
    assert "timings beside it mean little" in first.mend


def test_without_nvidia_smi_no_process_is_named(monkeypatch):
    def absent(*_arguments, **_options):
        raise FileNotFoundError

    monkeypatch.setattr(subprocess, "run", absent)
    assert list(process_findings(ask_driver("compute-apps", "pid"))) == []
