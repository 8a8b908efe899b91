"""The checks of `tfopt doctor`. TensorFlow is imported in a separate process."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tfopt_core.app.findings import DoctorFinding
from tfopt_core.app.gpu_check import (
    check_device,
    device_findings,
    other_processes,
    unopened_gpus,
)
from tfopt_core.app.tensorflow_packages import NOT_INSTALLED, package_findings, version_findings
from tfopt_core.errors import InputError
from tfopt_core.hooks import Machine, read_machine
from tfopt_core.hooks.installed.discovery import registrations
from tfopt_core.private_api import FEATURES
from tfopt_core.training.runtime import check_environment

# Entry points of functions that list the data sets of shipped workloads: objects with `name`,
# `present`, `detail` and `how_to_get`.
DATA_SOURCES_GROUP = "tfopt.data_sources"
TIME_LIMIT_SECONDS = 120

_IMPORT_SCRIPT = """
import json, time
start = time.perf_counter()
import tensorflow as tf, keras
seconds = time.perf_counter() - start
from tfopt_core.private_api import all_missing
from tfopt_core.training.device_check import missing_libraries
gpus = tf.config.list_physical_devices("GPU")
print(json.dumps({
    "tensorflow": tf.__version__, "keras": keras.__version__, "backend": keras.backend.backend(),
    "seconds": seconds, "missing": all_missing(),
    "devices": [d.name for d in tf.config.list_physical_devices()],
    "gpus": [gpu.name.removeprefix("/physical_device:") for gpu in gpus],
    "missing_libraries": [] if gpus else missing_libraries(),
}))
"""


def examine() -> tuple[DoctorFinding, ...]:
    """Return the results of all checks."""
    machine = read_machine()
    return (
        DoctorFinding(
            subject="Python", ok=True, detail=f"{platform.python_version()} at {sys.prefix}"
        ),
        *_tensorflow(machine),
        *_hardware(machine),
        *_disk(),
        *_data_sources(),
    )


def _tensorflow(machine: Machine) -> Iterator[DoctorFinding]:
    try:
        check_environment(os.environ)
    except InputError as error:
        yield DoctorFinding(subject="environment", ok=False, detail=str(error))
        return
    findings = (*package_findings(), *version_findings())
    yield from findings
    if any(finding.detail == NOT_INSTALLED for finding in findings):
        return
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", _IMPORT_SCRIPT], env=environment, capture_output=True,
            text=True, timeout=TIME_LIMIT_SECONDS, check=True,
        )  # fmt: skip
        report = json.loads(done.stdout.splitlines()[-1])
    except subprocess.CalledProcessError as error:
        last = (error.stderr or "").strip().splitlines()[-1:] or ["no message"]
        yield DoctorFinding(
            subject="TensorFlow", ok=False, detail=f"does not import: {last[0]}",
            mend="install it again: pip install --force-reinstall tensorflow",
        )  # fmt: skip
        return
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired) as error:
        yield DoctorFinding(subject="TensorFlow", ok=False, detail=f"gave no answer: {error}")
        return
    yield DoctorFinding(
        subject="TensorFlow", ok=True,
        detail=f"{report['tensorflow']}, Keras {report['keras']} on {report['backend']}, imported "
        f"in {report['seconds']:.1f} s",
    )  # fmt: skip
    yield from private_api_findings(report["missing"])
    yield DoctorFinding(subject="devices", ok=None, detail=", ".join(report["devices"]))
    if machine.gpus and not report["gpus"]:
        yield unopened_gpus(report["missing_libraries"])
    if report["gpus"]:
        yield from other_processes()
    for device in report["gpus"]:
        yield from device_findings(check_device(device))


def private_api_findings(missing: Sequence[str]) -> Iterator[DoctorFinding]:
    """Yield a finding on the private members of TensorFlow and Keras.

    :param missing: one sentence for each feature that is disabled because a member is missing.
    """
    if not missing:
        count = len({member for feature in FEATURES for member in feature})
        yield DoctorFinding(
            subject="private API", ok=True,
            detail=f"all {count} members of TensorFlow and Keras that tfopt touches are there",
        )  # fmt: skip
    for sentence in missing:
        yield DoctorFinding(
            subject="private API", ok=None, detail=sentence,
            mend="the rest works; if you need it, install one of the versions of TensorFlow and "
            "Keras that have it (docs/guide/versions.md), or a newer tfopt",
        )  # fmt: skip


def _hardware(machine: Machine) -> Iterator[DoctorFinding]:
    yield DoctorFinding(
        subject="CPU", ok=None,
        detail=f"{machine.cpu_model}, {machine.cpu_count} of {machine.cpu_count_total} usable",
    )  # fmt: skip
    yield DoctorFinding(
        subject="bfloat16 on the CPU", ok=None,
        detail="native" if machine.has_bfloat16_cpu else "not native: it would be slow",
    )  # fmt: skip
    yield DoctorFinding(
        subject="GPUs", ok=None,
        detail=", ".join(
            f"{gpu.name} (compute capability {gpu.compute_capability[0]}."
            f"{gpu.compute_capability[1]}, {gpu.memory_bytes / 2**30:.0f} GiB)"
            for gpu in machine.gpus
        ) or "none",
    )  # fmt: skip
    busy = os.getloadavg()[0] / machine.cpu_count
    yield DoctorFinding(
        subject="load", ok=None,
        detail=f"{busy:.0%} of the usable CPUs over the last minute",
        mend="" if busy < 0.5 else "stop what else runs: timings on a busy machine mean little",
    )  # fmt: skip
    gib = machine.memory_bytes / 2**30
    yield DoctorFinding(subject="memory", ok=None, detail=f"{gib:.1f} GiB usable")


def _disk() -> Iterator[DoctorFinding]:
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    yield DoctorFinding(
        subject="disk", ok=None, detail=f"{free:.1f} GiB free in the working directory"
    )


def _data_sources() -> Iterator[DoctorFinding]:
    for name, entries in registrations(DATA_SOURCES_GROUP).items():
        try:
            sources = entries[0].load_any()()
        except Exception as error:  # code of another distribution; the other checks go on
            yield DoctorFinding(subject=name, ok=None, detail=f"{type(error).__name__}: {error}")
            continue
        for source in sources:
            yield DoctorFinding(
                subject=f"data: {source.name}", ok=True if source.present else None,
                detail=source.detail, mend="" if source.present else source.how_to_get,
            )  # fmt: skip
