"""Which distributions installed TensorFlow and Keras: one of each is right.

TensorFlow has several distributions (tensorflow, tensorflow-cpu, tf-nightly, ...) that install the
same files. Package managers do not notice when two are installed, and the files of the second
overwrite those of the first.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import packages_distributions, requires, version

from tfopt_core.records.doctor import DoctorFinding

PACKAGES = {"tensorflow": "TensorFlow", "keras": "Keras"}
NOT_INSTALLED = "is not installed"


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
                mend=f"pip install '{requirement(package, requires('tfopt') or ())}'",
            )  # fmt: skip
        elif len(origins) > 1:
            listed = " and ".join(f"{name} {version(name)}" for name in origins)
            yield DoctorFinding(
                subject="installed twice", ok=False,
                detail=f"{listed} install {subject}, and overwrite each other's files",
                mend=f"uninstall all (pip uninstall {' '.join(origins)}) and install one; "
                "docs/guide/installing.md says how to install tfopt beside it",
            )  # fmt: skip


def requirement(package: str, required: Sequence[str]) -> str:
    """Return what tfopt requires of a package, the bare name if that is unknown.

    :param required: the requirements of tfopt, those of its extras included.
    """
    plain = (line for line in required if ";" not in line)
    return next(
        (line for line in plain if line.startswith((f"{package}<", f"{package}>"))), package
    )
