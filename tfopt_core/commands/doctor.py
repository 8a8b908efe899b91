"""What `tfopt doctor` finds of this machine. TensorFlow is imported in another process.

TensorFlow has several distributions (tensorflow, tensorflow-cpu, tf-nightly, ...) that install the
same files. Package managers do not notice when two are installed, and the files of the second
overwrite those of the first.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, packages_distributions, requires, version
from pathlib import Path

from tfopt_core.errors import MESSAGE_LENGTH, WITH_CUDA, InputError, cure_of
from tfopt_core.hooks.installed.discovery import registrations
from tfopt_core.hooks.machine import Machine, ask_driver, read_machine
from tfopt_core.private_api import FEATURES
from tfopt_core.report.listing import DoctorFinding
from tfopt_core.training.runtime import check_environment

# Entry points of functions that list the data sets of shipped workloads: objects with `name`,
# `present`, `detail` and `how_to_get`.
DATA_SOURCES_GROUP = "tfopt.data_sources"
TIME_LIMIT_SECONDS, DEVICE_LIMIT_SECONDS = 120, 90
PACKAGES = {"tensorflow": "TensorFlow", "keras": "Keras"}
NOT_INSTALLED = "is not installed"
# All distributions that install a package under its own version.
DISTRIBUTIONS = {
    "tensorflow": ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tf-nightly"),
    "keras": ("keras", "keras-nightly"),
}

_IMPORT_SCRIPT = """
import json, time
start = time.perf_counter()
import tensorflow as tf, keras
seconds = time.perf_counter() - start
from tfopt_core.private_api import all_missing
from tfopt_core.trials.device_check import missing_libraries
gpus = tf.config.list_physical_devices("GPU")
print(json.dumps({
    "tensorflow": tf.__version__, "keras": keras.__version__, "backend": keras.backend.backend(),
    "seconds": seconds, "missing": all_missing(),
    "devices": [d.name for d in tf.config.list_physical_devices()],
    "gpus": [gpu.name.removeprefix("/physical_device:") for gpu in gpus],
    "missing_libraries": [] if gpus else missing_libraries(),
    "built_for": list(tf.sysconfig.get_build_info().get("cuda_compute_capabilities", ())),
}))
"""


def examine() -> tuple[DoctorFinding, ...]:
    """Return the results of all checks."""
    machine = read_machine()
    return (*_tensorflow(machine), *_hardware(machine), *_data_sources())


def _tensorflow(machine: Machine) -> Iterator[DoctorFinding]:
    yield DoctorFinding("Python", True, f"{platform.python_version()} at {sys.prefix}")
    try:
        check_environment(os.environ)
    except InputError as error:
        yield DoctorFinding("environment", False, str(error))
        return
    findings = (*package_findings(), *version_findings())
    yield from findings
    if any(finding.detail == NOT_INSTALLED for finding in findings):
        return
    output, end = run_python("-c", _IMPORT_SCRIPT, time_limit_seconds=TIME_LIMIT_SECONDS)
    if end:
        detail = f"does not import: {end.removeprefix('ended with status 1: ')}"
        mend = "install it again: pip install --force-reinstall tensorflow"
        yield DoctorFinding("TensorFlow", False, detail, mend)
        return
    report = json.loads(output.splitlines()[-1])
    versions = f"{report['tensorflow']}, Keras {report['keras']} on {report['backend']}"
    yield DoctorFinding("TensorFlow", True, f"{versions}, imported in {report['seconds']:.1f} s")
    yield from private_api_findings(report["missing"])
    yield DoctorFinding("devices", None, ", ".join(report["devices"]))
    yield from gpu_findings(machine, **{
        key: report[key] for key in ("gpus", "missing_libraries", "built_for")
    })  # fmt: skip
    for device in report["gpus"]:
        yield from device_findings(device)
    if report["gpus"]:
        yield from process_findings(
            ask_driver("compute-apps", "pid", "process_name", "used_memory")
        )


def gpu_findings(
    machine: Machine, gpus: Sequence[str], missing_libraries: Sequence[str],
    built_for: Sequence[str],
) -> Iterator[DoctorFinding]:  # fmt: skip
    """Yield findings on GPUs that TensorFlow does not open, or has no code for.

    :param gpus: those that TensorFlow opens.
    :param built_for: the compute capabilities of TensorFlow's code: "sm_90", "compute_120".
    """
    if machine.gpus and not gpus:
        missing = f"; missing: {', '.join(missing_libraries)}" if missing_libraries else ""
        detail = f"the driver lists GPUs, and TensorFlow opens none{missing}"
        mend = WITH_CUDA if missing else f"{WITH_CUDA}, and look at CUDA_VISIBLE_DEVICES"
        yield DoctorFinding("GPUs", False, detail, mend)
    found = (re.fullmatch(r"(?:sm|compute)_(\d+)(\d)[a-z]?", name) for name in built_for)
    known_to_it = [(int(match[1]), int(match[2])) for match in found if match]
    for gpu in machine.gpus if gpus and known_to_it else ():
        if gpu.compute_capability > (newest := max(known_to_it)):  # as Blackwell was
            here, known = (".".join(map(str, one)) for one in (gpu.compute_capability, newest))
            detail = (
                f"{gpu.name}: its compute capability {here} is newer than TensorFlow's code, which "
                f"goes up to {known}: kernels are compiled when first used, which can take many "
                "minutes, or fail"
            )
            yield DoctorFinding("GPUs", None, detail, "use a TensorFlow that was built for it")


def process_findings(listing: str) -> Iterator[DoctorFinding]:
    """Yield a finding for each process on a GPU: its id, program and memory in MiB, as
    `nvidia-smi` lists them."""
    mend = "wait for it or stop it: timings beside it mean little"
    for line in listing.splitlines():
        pid, _, rest = line.partition(",")
        program, _, mebibytes = rest.rpartition(",")
        if pid.strip().isdigit():
            # a container is not told how much the processes outside of it use: "[N/A]"
            held = mebibytes.strip()
            held = f"holds {int(held) / 1024:.1f} GiB" if held.isdigit() else "uses memory"
            detail = f"process {pid.strip()} ({program.strip()}) {held}"
            yield DoctorFinding("GPU in use", None, detail, mend)


def device_findings(
    device: str, time_limit_seconds: float = DEVICE_LIMIT_SECONDS
) -> Iterator[DoctorFinding]:
    """Train on a device in a process of its own. Yield that all steps work, or a finding for each
    cause of a failure and for a process that did not come to its end."""
    output, end = run_python(
        "-m", "tfopt_core.trials.device_check", device, time_limit_seconds=time_limit_seconds
    )
    running, causes = read_steps(output)
    for cause, steps in causes.items():
        yield DoctorFinding(device, False, f"cannot train {', '.join(steps)}: it {cause}")
    if end:
        detail = f"training {running}" if running else "starting TensorFlow"
        yield DoctorFinding(device, False, f"{detail}: the process {end}", cure_of(end) or "")
    elif not causes:
        layers = "a convolution and a dense layer, with XLA and without"
        yield DoctorFinding(device, True, f"trains {layers}")


def read_steps(output: str) -> tuple[str, dict[str, list[str]]]:
    """Return the step that was begun and not ended, "" for none, and the steps by the cause of
    their failure. Lines that are no JSON objects are a library's."""
    running, causes = "", dict[str, list[str]]()
    for line in output.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        match record:
            case {"begins": str(running)}:
                pass
            case {"ended": str(step), "error": error}:
                running = ""
                if error:
                    causes.setdefault(error, []).append(step)
    return running, causes


def run_python(*arguments: str, time_limit_seconds: float) -> tuple[str, str]:
    """Run Python in a process of its own. Return its output, and how it ended badly, else ""."""
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "2"}
    try:
        done = subprocess.run(
            [sys.executable, "-P", *arguments], env=environment, capture_output=True,
            timeout=time_limit_seconds, check=False,
        )  # fmt: skip
        output, end = done.stdout, end_of(done.returncode, done.stderr.decode(errors="replace"))
    except subprocess.TimeoutExpired as error:
        output, end = error.stdout or b"", f"took longer than {time_limit_seconds:g} s"
    return output.decode(errors="replace"), end


def end_of(returncode: int, stderr: str) -> str:
    """Return how a process ended badly, with its last line; empty if it ended well."""
    if returncode == 0:
        return ""
    last = (stderr.strip().splitlines() or ["no message"])[-1][:MESSAGE_LENGTH]
    if returncode > 0:
        return f"ended with status {returncode}: {last}"
    names = {one.value: one.name for one in signal.Signals}  # real-time signals have none
    return f"crashed by {names.get(-returncode, f'signal {-returncode}')}: {last}"


def private_api_findings(missing: Sequence[str]) -> Iterator[DoctorFinding]:
    """Yield a finding on the private members of TensorFlow and Keras.

    :param missing: one sentence for each feature that is disabled because a member is missing.
    """
    if not missing:
        count = len({member for feature in FEATURES.values() for member in feature.each()})
        detail = f"all {count} members of TensorFlow and Keras that tfopt touches are there"
        yield DoctorFinding("private API", True, detail)
    mend = (
        "the rest works; if you need it, install one of the versions of TensorFlow and Keras that "
        "have it (docs/guide/installing.md), or a newer tfopt"
    )
    yield from (DoctorFinding("private API", None, sentence, mend) for sentence in missing)


def _hardware(machine: Machine) -> Iterator[DoctorFinding]:
    cpus = f"{machine.cpu_model}, {machine.cpu_count} of {machine.cpu_count_total} usable"
    yield DoctorFinding("CPU", None, cpus)
    native = "native" if machine.has_bfloat16_cpu else "not native: it would be slow"
    yield DoctorFinding("bfloat16 on the CPU", None, native)
    gpus = (
        f"{gpu.name} (compute capability {gpu.compute_capability[0]}.{gpu.compute_capability[1]}, "
        f"{gpu.memory_bytes / 2**30:.0f} GiB)"
        for gpu in machine.gpus
    )
    yield DoctorFinding("GPUs", None, ", ".join(gpus) or "none")
    busy = os.getloadavg()[0] / machine.cpu_count
    mend = "" if busy < 0.5 else "stop what else runs: timings on a busy machine mean little"
    yield DoctorFinding("load", None, f"{busy:.0%} of the usable CPUs over the last minute", mend)
    yield DoctorFinding("memory", None, f"{machine.memory_bytes / 2**30:.1f} GiB usable")
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    yield DoctorFinding("disk", None, f"{free:.1f} GiB free in the working directory")


def _data_sources() -> Iterator[DoctorFinding]:
    for name, entries in registrations(DATA_SOURCES_GROUP).items():
        try:
            sources = entries[0].load_any()()
        except Exception as error:  # code of another distribution; the other checks go on
            yield DoctorFinding(name, None, f"{type(error).__name__}: {error}")
            continue
        for source in sources:
            mend = "" if source.present else source.how_to_get
            yield DoctorFinding(f"data: {source.name}", source.present or None, source.detail, mend)


def check_versions() -> None:
    """Refuse a TensorFlow or Keras that is older than tfopt requires, before it is imported.

    :raises InputError: naming the version, and what installs the right one.
    """
    for package, installed, age in _outside():
        if age == "older":
            raise InputError(
                f"{PACKAGES[package]} {installed} is older than this tfopt needs; "
                f"run: pip install '{requirement(package)}'"
            )


def version_findings() -> Iterator[DoctorFinding]:
    """Yield a finding for each package that is older or newer than what tfopt requires."""
    for package, installed, age in _outside():
        yield DoctorFinding(
            f"version of {PACKAGES[package]}",
            False if age == "older" else None,
            f"{installed}, {age} than this tfopt was made for",
            f"pip install '{requirement(package)}'",
        )


def _outside() -> Iterator[tuple[str, str, str]]:
    """Yield each package that is outside of what tfopt requires, its version, and its age."""
    for package, distributions in DISTRIBUTIONS.items():
        for distribution in distributions:
            try:
                installed = version(distribution)
            except PackageNotFoundError:
                continue
            if age := age_of(installed, requirement(package)):
                yield package, installed, age
            break


def age_of(installed: str, required: str) -> str:
    """Return "older" or "newer" for a version that a requirement does not allow, else ""."""
    lowest = re.search(r">=\s*([\d.]+)", required)
    limit = re.search(r"<\s*([\d.]+)", required)
    if lowest and _release(installed) < _release(lowest[1]):
        return "older"
    return "newer" if limit and _release(installed) >= _release(limit[1]) else ""


def _release(text: str) -> list[int]:
    """Return major and minor version; a part that is no number counts as 0."""
    numbers = (re.match(r"\d+", part) for part in text.split(".")[:2])
    return [0 if number is None else int(number[0]) for number in numbers]


def package_findings(packages: Mapping[str, str] = PACKAGES) -> Iterator[DoctorFinding]:
    """Yield a finding for each package that is missing or that two distributions installed.

    :param packages: what a package is called in a finding, by its name.
    """
    installed = packages_distributions()
    for package, subject in packages.items():
        origins = sorted({name.replace("_", "-") for name in installed.get(package, ())})
        if not origins and importlib.util.find_spec(package) is None:
            mend = f"pip install '{requirement(package)}'"
            yield DoctorFinding(subject, False, NOT_INSTALLED, mend)
        elif len(origins) > 1:
            listed = " and ".join(f"{name} {version(name)}" for name in origins)
            yield DoctorFinding(
                "installed twice",
                False,
                f"{listed} install {subject}, and overwrite each other's files",
                f"uninstall all (pip uninstall {' '.join(origins)}) and install one; "
                "docs/guide/installing.md says how to install tfopt beside it",
            )


def requirement(package: str, required: Sequence[str] | None = None) -> str:
    """Return what tfopt requires of a package, the bare name if that is unknown.

    :param required: the requirements of tfopt, those of its extras included; None for those of the
        one that is installed.
    """
    lines = requires("tfopt") or () if required is None else required
    plain = (line for line in lines if ";" not in line)
    return next(
        (line for line in plain if line.startswith((f"{package}<", f"{package}>"))), package
    )
