"""Import what the forked trainings use, all of it at once, and run no operation of TensorFlow."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import pkgutil
import sys

# where tfopt is imported from, if not from where it is installed
TREE = "DRAWN_FITS_TREE"
_PACKAGES = (
    "tfopt_core", "tfopt_data", "tfopt_distribute", "tfopt_model", "tfopt_observe",
    "tfopt_precision", "tfopt_runtime", "tfopt_training",
)  # fmt: skip


def _import_all() -> None:
    """Import every module now, so that all trainings see the same code while files are edited."""
    if tree := os.environ.get(TREE):
        sys.path[:0] = [tree, f"{tree}/plugins"]
    for name in ("h5py", "support.drawn_fits.names"):
        importlib.import_module(name)
    for name in _PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not module.name.endswith("__main__"):
                with contextlib.suppress(ImportError):
                    importlib.import_module(module.name)


# TensorFlow's start-up says that there is no GPU
_error, _null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
os.dup2(_null, 2)
try:
    _import_all()
finally:
    os.dup2(_error, 2)
# no search for cycles goes through all of TensorFlow in each of the forks
gc.freeze()
