"""Which distributions installed TensorFlow and Keras: one of each, and as new as tfopt requires.

TensorFlow has several distributions (tensorflow, tensorflow-cpu, tf-nightly, ...) that install the
same files. Package managers do not notice when two are installed, and the files of the second
overwrite those of the first.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, packages_distributions, requires, version

from tfopt_core.errors import InputError
from tfopt_core.report.listing import DoctorFinding

PACKAGES = {"tensorflow": "TensorFlow", "keras": "Keras"}
NOT_INSTALLED = "is not installed"
# All distributions that install a package under its own version.
DISTRIBUTIONS = {
    "tensorflow": ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tf-nightly"),
    "keras": ("keras", "keras-nightly"),
}


def check_versions() -> None:
    """Refuse a TensorFlow or Keras that is older than tfopt requires, before it is imported.

    :raises InputError: naming the version, and what installs the right one.
    """
    for package, installed, age in _outside():
        if age == "older":
            raise InputError(
                f"{PACKAGES[package]} {installed} is older than this tfopt needs; "
                f"run: pip install '{_required(package)}'"
            )


def version_findings() -> Iterator[DoctorFinding]:
    """Yield a finding for each package that is older or newer than what tfopt requires."""
    for package, installed, age in _outside():
        yield DoctorFinding(
            f"version of {PACKAGES[package]}",
            False if age == "older" else None,
            f"{installed}, {age} than this tfopt was made for",
            f"pip install '{_required(package)}'",
        )


def _outside() -> Iterator[tuple[str, str, str]]:
    """Yield each package that is outside of what tfopt requires, its version, and its age."""
    for package, distributions in DISTRIBUTIONS.items():
        for distribution in distributions:
            try:
                installed = version(distribution)
            except PackageNotFoundError:
                continue
            if age := age_of(installed, _required(package)):
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
            mend = f"pip install '{_required(package)}'"
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


def _required(package: str) -> str:
    """Return what the installed tfopt requires of a package."""
    return requirement(package, requires("tfopt") or ())


def requirement(package: str, required: Sequence[str]) -> str:
    """Return what tfopt requires of a package, the bare name if that is unknown.

    :param required: the requirements of tfopt, those of its extras included.
    """
    plain = (line for line in required if ";" not in line)
    return next(
        (line for line in plain if line.startswith((f"{package}<", f"{package}>"))), package
    )
