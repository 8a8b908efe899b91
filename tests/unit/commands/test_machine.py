"""What `tfopt doctor` finds of TensorFlow and of GPUs, and `tfopt plugins check` of a plugin."""

import json
from typing import Any

import attrs
import pytest

from tfopt_core.commands.doctor import (
    check_versions,
    device_findings,
    end_of,
    gpu_findings,
    package_findings,
    process_findings,
    read_steps,
    requirement,
    version_findings,
)
from tfopt_core.commands.plugin_check import exactness, missing_contract, round_trip
from tfopt_core.errors import InputError, cure_of
from tfopt_core.hooks.installed.discovery import registrations
from tfopt_core.hooks.machine import Gpu
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.statistics.certificate import Certificate, impossible
from tfopt_core.testing import make_machine
from tfopt_core.trials.device_check import missing_libraries


def install(folder, distribution, package, version="2.21.0"):
    """Write what a package manager writes of a distribution that installs this package."""
    name = distribution.replace("-", "_")
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    (info / "METADATA").write_text(metadata)
    (info / "top_level.txt").write_text(f"{package}\n")


@pytest.mark.parametrize("other", ["tensorflow-cpu", "tf-nightly"])
def test_a_second_distribution_of_tensorflow_is_found(other, tmp_path, monkeypatch):
    install(tmp_path, "tensorflow", "tensorflow")
    install(tmp_path, other, "tensorflow")
    monkeypatch.syspath_prepend(tmp_path)
    [finding] = package_findings()
    assert finding.ok is False
    assert "tensorflow 2.21.0" in finding.detail
    assert f"{other} 2.21.0" in finding.detail
    first, second = sorted(("tensorflow", other))
    assert f"pip uninstall {first} {second}" in finding.mend


def test_an_older_keras_beside_the_right_tensorflow_is_refused(tmp_path, monkeypatch):
    install(tmp_path, "keras", "keras", "3.0.5")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=r"Keras 3\.0\.5 is older .* pip install 'keras"):
        check_versions()
    [finding] = version_findings()
    assert (finding.subject, finding.ok) == ("version of Keras", False)
    assert finding.detail == "3.0.5, older than this tfopt was made for"


def test_one_distribution_of_each_is_no_finding():
    assert list(package_findings()) == []


def test_a_missing_package_is_found_with_what_installs_it():
    [finding] = package_findings({"no_such_package": "Nothing"})
    assert (finding.subject, finding.ok) == ("Nothing", False)
    assert finding.mend == "pip install 'no_such_package'"


def test_what_to_install_is_what_tfopt_requires_and_not_what_an_extra_does():
    required = [
        "tensorflow[and-cuda]<2.22,>=2.21; extra == 'and-cuda'", "keras<4,>=3.15",
        "tensorflow<2.22,>=2.21", "tensorflow-datasets>4",
    ]  # fmt: skip
    assert requirement("tensorflow", required) == "tensorflow<2.22,>=2.21"
    assert requirement("keras", required) == "keras<4,>=3.15"


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


def certificate(kind):
    return Certificate(kind=kind, statement="as replayed")


@pytest.mark.parametrize(
    ("equivalence", "replayed", "ok"),
    [
        ("exact", certificate("certified"), True),
        ("exact", certificate("diverges"), False),
        ("order", certificate("diverges"), False),
        ("rounding", certificate("diverges"), True),
        ("unknown", certificate("certified"), None),
        ("exact", impossible("a replay leaves out a callback"), None),
        ("changes", None, None),
        ("exact", None, None),
    ],
)
def test_what_a_plugin_declares_is_compared_with_the_replay(equivalence, replayed, ok):
    finding = exactness(equivalence, replayed, ["clip-gradients"])
    assert finding.ok is ok
    assert replayed is None or replayed.statement in finding.detail
    assert ("clip-gradients" in finding.detail) is (equivalence == "exact" and replayed is None)


def test_settings_that_json_changes_are_found():
    @attrs.frozen(kw_only=True, eq=False)
    class Keyed:
        sizes: dict[Any, int]

    finding = round_trip(StackedPlugin("keyed", Keyed(sizes={1: 2})))
    assert finding.ok is False
    assert "{'1': 2}" in finding.detail
    assert round_trip(StackedPlugin("keyed", Keyed(sizes={"1": 2}))).ok is True


def test_a_class_without_a_card_is_found_and_one_that_ships_is_not():
    cache = registrations()["cache"][0].load()
    assert missing_contract("cache", cache, {}).ok is True

    class Bare(cache):  # type: ignore[valid-type]
        pass

    finding = missing_contract("bare", Bare, {})
    assert finding.ok is False
    assert "has no docstring" in finding.detail
