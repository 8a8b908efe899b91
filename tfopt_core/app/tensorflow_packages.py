"""Which distributions installed TensorFlow and Keras: one of each is right.

TensorFlow has several distributions (tensorflow, tensorflow-cpu, tf-nightly, ...) that install the
same files. Package managers do not notice when two are installed, and the files of the second
overwrite those of the first.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, packages_distributions, requires, version

from tfopt_core.app.findings import DoctorFinding
from tfopt_core.errors import InputError

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
    for package, subject in PACKAGES.items():
        installed, required = installed_version(package), _required(package)
        if installed is not None and is_older(installed, required):
            raise InputError(
                f"{subject} {installed} is older than this tfopt needs; "
                f"run: pip install '{required}'"
            )


def version_findings() -> Iterator[DoctorFinding]:
    """Yield a finding for each package that is older or newer than what tfopt requires."""
    for package, subject in PACKAGES.items():
        installed, required = installed_version(package), _required(package)
        if installed is None:
            continue
        if is_older(installed, required) or is_newer(installed, required):
            old = is_older(installed, required)
            yield DoctorFinding(
                subject=f"version of {subject}", ok=False if old else None,
                detail=f"{installed}, {'older' if old else 'newer'} than this tfopt was made for",
                mend=f"pip install '{required}'",
            )  # fmt: skip


def installed_version(package: str) -> str | None:
    """Return the version of a package by its distribution, None if there is none."""
    for distribution in DISTRIBUTIONS[package]:
        try:
            return version(distribution)
        except PackageNotFoundError:
            continue
    return None


def is_older(installed: str, required: str) -> bool:
    """Return whether a version is below the lowest that a requirement allows."""
    lowest = re.search(r">=\s*([\d.]+)", required)
    return lowest is not None and _release(installed) < _release(lowest[1])


def is_newer(installed: str, required: str) -> bool:
    """Return whether a version is above those that a requirement allows."""
    limit = re.search(r"<\s*([\d.]+)", required)
    return limit is not None and _release(installed) >= _release(limit[1])


def _release(text: str) -> tuple[int, ...]:
    """Return major and minor version; a part that is no number counts as 0."""
    numbers = [int(found[0]) if (found := re.match(r"\d+", part)) else 0
               for part in text.split(".")[:2]]  # fmt: skip
    return tuple(numbers)


def package_findings(packages: Mapping[str, str] = PACKAGES) -> Iterator[DoctorFinding]:
    """Yield a finding for each package that is missing or that two distributions installed.

    :param packages: what a package is called in a finding, by its name.
    """
    installed = packages_distributions()
    for package, subject in packages.items():
        origins = sorted({name.replace("_", "-") for name in installed.get(package, ())})
        if not origins and importlib.util.find_spec(package) is None:
            yield DoctorFinding(
                subject=subject, ok=False, detail=NOT_INSTALLED,
                mend=f"pip install '{_required(package)}'",
            )  # fmt: skip
        elif len(origins) > 1:
            listed = " and ".join(f"{name} {version(name)}" for name in origins)
            yield DoctorFinding(
                subject="installed twice", ok=False,
                detail=f"{listed} install {subject}, and overwrite each other's files",
                mend=f"uninstall all (pip uninstall {' '.join(origins)}) and install one; "
                "docs/guide/installing.md says how to install tfopt beside it",
            )  # fmt: skip


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
