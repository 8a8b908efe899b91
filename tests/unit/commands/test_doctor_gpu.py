"""`tfopt doctor` trains on GPUs: what fails is named with its cause and what helps."""

from __future__ import annotations

import json

import pytest

from tfopt_core.commands.doctor import device_findings, end_of, read_steps
from tfopt_core.errors import cure_of


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
