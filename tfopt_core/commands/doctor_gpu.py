"""What `tfopt doctor` finds out by training on a GPU: which steps fail, why, and what helps."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from tfopt_core.errors import cure_of
from tfopt_core.report.listing import DoctorFinding

TIME_LIMIT_SECONDS = 90
WITH_CUDA = "pip install 'tfopt[and-cuda]'"
# What a message holds, what it means and what helps; the first that matches counts.
KNOWN_FAILURES = (
    (
        "Loaded runtime CuDNN library",
        "the cuDNN that was loaded is older than the one TensorFlow was built with",
        "pip install --upgrade 'nvidia-cudnn-cu12>=9.24,<10', and look for another cuDNN in "
        "LD_LIBRARY_PATH",
    ),
    (
        r"(?i)INVALID_PTX|NO_BINARY_FOR_GPU|no kernel image|invalid PTX|option 'gpu-name'",
        "TensorFlow's libraries have no code for this GPU",
        "use a TensorFlow that was built for this GPU",
    ),
    (r"libdevice|ptxas|PTX compilation provider", "XLA does not find CUDA's compiler", WITH_CUDA),
    (
        r"ResourceExhausted|OUT_OF_MEMORY|out of memory",
        "the GPU's memory is used up",
        "end the other processes on the GPU",
    ),
    (r"(?i)DNN library|cudnn", "cuDNN cannot be used", WITH_CUDA),
)


@attrs.frozen
class Step:
    """One training step: a layer, with XLA or without. `error` is empty if it worked."""

    layer: str
    xla: bool
    seconds: float = 0.0
    error: str = ""

    def __str__(self) -> str:
        return f"{self.layer} {'with' if self.xla else 'without'} XLA"


@attrs.frozen(kw_only=True)
class DeviceReport:
    """What a process told that trained on a device.

    `running` is the step that it never finished, and `end` says why its process did not end well,
    empty if it did.
    """

    device: str
    compute_capability: tuple[int, int] | None = None
    built_for: tuple[str, ...] = ()
    done: tuple[Step, ...] = ()
    running: Step | None = None
    end: str = ""


def check_device(device: str, time_limit_seconds: float = TIME_LIMIT_SECONDS) -> DeviceReport:
    """Train on a device in a process of its own, and return how far it came."""
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "2"}
    command = [sys.executable, "-P", "-m", "tfopt_core.training.device_check", device]
    try:
        ended = subprocess.run(
            command, env=environment, capture_output=True, timeout=time_limit_seconds, check=False
        )
    except subprocess.TimeoutExpired as error:
        end = f"took longer than {time_limit_seconds:g} s and was ended"
        return read_report(device, _text(error.stdout), end)
    return read_report(device, _text(ended.stdout), end_of(ended.returncode, _text(ended.stderr)))


def _text(output: bytes | None) -> str:
    return (output or b"").decode(errors="replace")


def end_of(returncode: int, stderr: str) -> str:
    """Return how a process ended badly, with its last line; empty if it ended well."""
    if returncode == 0:
        return ""
    last = shortened((stderr.strip().splitlines() or ["no message"])[-1])
    if returncode > 0:
        return f"ended with status {returncode}: {last}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:  # a real-time signal
        name = f"signal {-returncode}"
    return f"crashed by {name}: {last}"


def read_report(device: str, output: str, end: str) -> DeviceReport:
    """Return the report in what the process printed; lines that are no JSON objects are skipped."""
    facts: dict[str, Any] = {}
    done: list[Step] = []
    running = None
    for line in output.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        match record:
            case {"starts": step}:
                running = Step(**step)
            case {"done": step}:
                done.append(Step(**step))
                running = None
            case dict():
                facts.update(record)
    capability = facts.get("compute_capability")
    return DeviceReport(
        device=device,
        compute_capability=(capability[0], capability[1]) if capability else None,
        built_for=tuple(facts.get("built_for", ())),
        done=tuple(done), running=running, end=end,
    )  # fmt: skip


def device_findings(report: DeviceReport) -> Iterator[DoctorFinding]:
    """Yield a finding that all steps work, or one for each cause of failures."""
    failures: dict[tuple[str, str], list[Step]] = {}
    for step in report.done:
        if step.error:
            failures.setdefault(explain(step.error), []).append(step)
    works = not failures and not report.end
    if works:
        seconds = sum(step.seconds for step in report.done)
        layers = "a convolution and a dense layer, with XLA and without"
        yield DoctorFinding(report.device, True, f"trains {layers} ({seconds:.1f} s)")
    for (cause, mend), steps in failures.items():
        failed = ", ".join(map(str, steps))
        yield DoctorFinding(report.device, False, f"cannot train {failed}: {cause}", mend)
    if report.end:
        doing = f"training {report.running}" if report.running else "starting TensorFlow"
        _, mend = explain(report.end)
        yield DoctorFinding(report.device, False, f"{doing}: the process {report.end}", mend)
    # TensorFlow may have been built before there was such a GPU, as for Blackwell
    newest, here = newest_capability(report.built_for), report.compute_capability
    if newest is not None and here is not None and here > newest:
        yield DoctorFinding(
            report.device,
            None if works else False,
            f"its compute capability {here[0]}.{here[1]} is newer than TensorFlow's code, which "
            f"goes up to {newest[0]}.{newest[1]}: kernels are compiled when first used, which can "
            "take many minutes, or fail with invalid PTX",
            "" if works else "use a TensorFlow that was built for this GPU",
        )


def explain(error: str) -> tuple[str, str]:
    """Return what an exception's text means, and what helps; the text itself if it is unknown."""
    if known := cure_of(error):
        return known, ""
    for pattern, cause, mend in KNOWN_FAILURES:
        if re.search(pattern, error):
            return cause, mend
    return shortened(error), ""


def shortened(text: str, length: int = 200) -> str:
    """Return the first line of a text, cut to this many characters."""
    line = (text.strip().splitlines() or [""])[0]
    return line if len(line) <= length else f"{line[: length - 3]}..."


def newest_capability(built_for: Sequence[str]) -> tuple[int, int] | None:
    """Return the newest compute capability in TensorFlow's list, such as "sm_90", "compute_120"."""
    found = (re.fullmatch(r"(?:sm|compute)_(\d+)(\d)[a-z]?", name) for name in built_for)
    return max(((int(match[1]), int(match[2])) for match in found if match), default=None)


def unopened_gpus(missing: Sequence[str]) -> DoctorFinding:
    """Return the finding on GPUs that the driver lists and TensorFlow does not open.

    :param missing: the libraries that are not installed.
    """
    libraries = f"; missing: {', '.join(missing)}" if missing else ""
    mend = WITH_CUDA if missing else f"{WITH_CUDA}, and look at CUDA_VISIBLE_DEVICES"
    detail = f"the driver lists GPUs, and TensorFlow opens none{libraries}"
    return DoctorFinding("GPUs", False, detail, mend)


def process_findings(listing: str) -> Iterator[DoctorFinding]:
    """Yield a finding for each line of `nvidia-smi`: process id, its program, memory in MiB."""
    for line in listing.splitlines():
        pid, _, rest = line.partition(",")
        program, _, mebibytes = rest.rpartition(",")
        if not pid.strip().isdigit():
            continue
        # a container is not told how much the processes outside of it use: "[N/A]"
        amount = mebibytes.strip()
        held = f"holds {int(amount) / 1024:.1f} GiB" if amount.isdigit() else "uses memory"
        yield DoctorFinding(
            "GPU in use",
            None,
            f"process {pid.strip()} ({program.strip()}) {held}",
            "wait for it or stop it: timings beside it mean little",
        )
