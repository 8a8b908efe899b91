"""`tfopt doctor` trains on GPUs: what fails is named with its cause and what helps."""

from __future__ import annotations

import json

import pytest

from tfopt_core.commands.doctor import (
    device_findings,
    end_of,
    gpu_findings,
    process_findings,
    read_steps,
)
from tfopt_core.errors import cure_of
from tfopt_core.hooks.machine import Gpu
from tfopt_core.testing import make_machine
from tfopt_core.trials.device_check import missing_libraries

BLACKWELL = make_machine(gpus=(Gpu("GB200", (12, 0), 2**37),))


@pytest.mark.thorough
@pytest.mark.tensorflow
def test_a_process_trains_both_layers_with_xla_and_without():
    [finding] = device_findings("CPU:0")
    assert finding.ok
    assert finding.detail == "trains a convolution and a dense layer, with XLA and without"


def test_a_process_that_takes_too_long_is_ended_and_named():
    [finding] = device_findings("CPU:0", time_limit_seconds=0.05)
    assert finding.ok is False
    assert finding.detail == "starting TensorFlow: the process took longer than 0.05 s"


@pytest.mark.parametrize(
    ("error", "helps"),
    [
        ("Failed to load in-memory CUBIN: CUDA_ERROR_NO_BINARY_FOR_GPU", "was built for it"),
        ("ptxas fatal : Value 'sm_120' is not defined for option 'gpu-name'", "was built for it"),
        ("libdevice not found at ./libdevice.10.bc", "tfopt[and-cuda]"),
        ("UnimplementedError: DNN library is not found.", "tfopt[and-cuda]"),
        ("Loaded runtime CuDNN library: 9.1.0 but source was compiled with: 9.3.0", ">=9.24"),
    ],
)
def test_known_failures_say_what_helps(error, helps):
    assert helps in cure_of(error)


def test_steps_that_fail_for_the_same_reason_and_one_that_never_ended_are_told_apart():
    records = (
        {"begins": "a"}, {"ended": "a", "error": "raised X"}, {"begins": "b"},
        {"ended": "b", "error": ""}, {"begins": "c"}, {"ended": "c", "error": "raised X"},
        {"begins": "d"},
    )  # fmt: skip
    lines = ("a library's own line", "3", *map(json.dumps, records))
    assert read_steps("\n".join(lines)) == ("d", {"raised X": ["a", "c"]})


def test_a_crash_is_named_with_its_signal():
    assert end_of(-11, "one\nCheck failed: x\n") == "crashed by SIGSEGV: Check failed: x"
    assert end_of(-40, "") == "crashed by signal 40: no message"
    assert end_of(1, "") == "ended with status 1: no message"
    assert end_of(0, "a warning") == ""


def test_libraries_that_are_in_no_package_of_nvidia_are_named_where_no_gpu_is_opened(tmp_path):
    folder = tmp_path / "nvidia" / "cudnn" / "lib"
    folder.mkdir(parents=True)
    (folder / "libtfopt_none.so.9").touch()
    names = ("libc.so.6", "libtfopt_none.so.9", "libtfopt_none.so.8")
    missing = missing_libraries(names, [str(tmp_path)])
    [finding] = gpu_findings(BLACKWELL, [], missing, [])
    assert finding.detail.endswith("; missing: libtfopt_none.so.8")
    [finding] = gpu_findings(BLACKWELL, [], [], [])
    assert "CUDA_VISIBLE_DEVICES" in finding.mend


def test_a_gpu_newer_than_the_code_is_a_warning():
    [finding] = gpu_findings(BLACKWELL, ["GPU:0"], [], ["sm_70", "sm_90a", "gfx90a"])
    assert "capability 12.0 is newer than TensorFlow's code, which goes up to 9.0" in finding.detail
    assert list(gpu_findings(BLACKWELL, ["GPU:0"], [], ["sm_90", "compute_120"])) == []


def test_other_processes_are_named_with_the_memory_they_hold():
    listing = "4711, /usr/bin/python3, -m x, 20480\n12, [Not Found], [N/A]\nNo running processes\n"
    first, second = process_findings(listing)
    assert first.detail == "process 4711 (/usr/bin/python3, -m x) holds 20.0 GiB"
    assert second.detail == "process 12 ([Not Found]) uses memory"
