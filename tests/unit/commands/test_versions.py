"""`tfopt doctor` finds TensorFlow installed twice, and TensorFlow that is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfopt_core.commands.versions import (
    check_versions,
    package_findings,
    requirement,
    version_findings,
)
from tfopt_core.errors import InputError


def install(folder: Path, distribution: str, package: str, version: str = "2.21.0") -> None:
    """Write what a package manager writes of a distribution that installs this package."""
    name = distribution.replace("-", "_")
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    (info / "METADATA").write_text(metadata)
    (info / "top_level.txt").write_text(f"{package}\n")


@pytest.mark.parametrize("other", ["tensorflow-cpu", "tf-nightly"])
def test_a_second_distribution_of_tensorflow_is_found(
    other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "tensorflow", "tensorflow")
    install(tmp_path, other, "tensorflow")
    monkeypatch.syspath_prepend(tmp_path)
    [finding] = package_findings()
    assert finding.ok is False
    assert "tensorflow 2.21.0" in finding.detail
    assert f"{other} 2.21.0" in finding.detail
    first, second = sorted(("tensorflow", other))
    assert f"pip uninstall {first} {second}" in finding.mend


def test_an_older_keras_beside_the_right_tensorflow_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "keras", "keras", "3.0.5")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=r"Keras 3\.0\.5 is older .* pip install 'keras"):
        check_versions()
    [finding] = version_findings()
    assert (finding.subject, finding.ok) == ("version of Keras", False)
    assert finding.detail == "3.0.5, older than this tfopt was made for"


def test_one_distribution_of_each_is_no_finding() -> None:
    assert list(package_findings()) == []


def test_a_missing_package_is_found_with_what_installs_it() -> None:
    [finding] = package_findings({"no_such_package": "Nothing"})
    assert (finding.subject, finding.ok) == ("Nothing", False)
    assert finding.mend == "pip install 'no_such_package'"


def test_what_to_install_is_what_tfopt_requires_and_not_what_an_extra_does() -> None:
    required = [
        "tensorflow[and-cuda]<2.22,>=2.21; extra == 'and-cuda'", "keras<4,>=3.15",
        "tensorflow<2.22,>=2.21", "tensorflow-datasets>4",
    ]  # fmt: skip
    assert requirement("tensorflow", required) == "tensorflow<2.22,>=2.21"
    assert requirement("keras", required) == "keras<4,>=3.15"
