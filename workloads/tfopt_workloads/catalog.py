"""Which data the shipped workloads can train on, and which of it this machine has.

`tfopt doctor` prints it. Only headers are read, and neither TensorFlow nor NumPy is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import attrs

from tfopt_workloads import bundled, folders, idx, locations, stdlib_source

_FASHION = "fashion-mnist"
_FLIGHTS = "flights"
_FEATURES = "flights-features"
_GRADIENTS = "fashion-gradients"
_EFFICIENTNET = "fashion-efficientnet"
_CLIPART = "clipart-jpeg"
_TRANSFER = "clipart-transfer"
_WEATHER = "weather"
_STDLIB = "stdlib-text"

Kind = Literal["bundled", "debian", "keras", "python"]


@attrs.frozen(kw_only=True)
class DataSource:
    """One place where a workload's data may lie.

    :param name: the workload.
    :param kind: "bundled" with tfopt, "debian" package, "keras" cache of `keras.datasets`,
        "python" itself.
    :param path: the file or folder.
    :param present: whether it is there and readable.
    :param detail: what it holds, or why it is not there.
    :param licence: of the data.
    :param how_to_get: a command or option; empty where nothing is to be done.
    """

    name: str
    kind: Kind
    path: Path
    present: bool
    detail: str
    licence: str
    how_to_get: str = ""


def data_sources() -> tuple[DataSource, ...]:
    """All sources of the shipped workloads' data, looked up now on this machine."""
    keras_folder = locations.keras_cache() / _FASHION
    package = locations.FASHION_MNIST_PACKAGE
    return (
        _source(_FASHION, "bundled", locations.BUNDLED / "fashion_mnist.npz", _images, "MIT"),
        _source(
            _FASHION, "debian", locations.FASHION_MNIST_FOLDER, _idx_images, "MIT",
            f"apt-get install {package}",
        ),
        _source(
            _FASHION, "keras", keras_folder, _idx_images, "MIT",
            'option source = "keras" downloads it',
        ),
        _source(_GRADIENTS, "bundled", locations.BUNDLED / "fashion_mnist.npz", _images, "MIT"),
        _source(_EFFICIENTNET, "bundled", locations.BUNDLED / "fashion_mnist.npz", _images, "MIT"),
        _source(_FLIGHTS, "bundled", locations.BUNDLED / "flights.npz", _flights, "CC0-1.0"),
        _source(_FEATURES, "bundled", locations.BUNDLED / "flights.npz", _flights, "CC0-1.0"),
        _source(_CLIPART, "bundled", locations.BUNDLED / "clipart", _pictures, "public domain"),
        _source(
            _TRANSFER, "bundled", locations.BUNDLED / "clipart_base.npz", _base, "public domain"
        ),
        _source(_WEATHER, "bundled", locations.BUNDLED / "weather.npz", _weather, "CC0-1.0"),
        _source(
            _STDLIB, "python", stdlib_source.stdlib_folder(), _source_text, "PSF-2.0",
            "take a Python whose standard library has its source",
        ),
    )  # fmt: skip


def _source(
    name: str,
    kind: Kind,
    path: Path,
    describe: Callable[[Path], str],
    licence: str,
    how_to_get: str = "install tfopt again",
) -> DataSource:
    try:
        detail, present = describe(path), True
    except FileNotFoundError:
        detail, present = "not there", False
    except (OSError, ValueError, LookupError) as error:
        detail, present = f"not readable: {error}", False
    return DataSource(
        name=name, kind=kind, path=path, present=present, detail=detail, licence=licence,
        how_to_get="" if present else how_to_get,
    )  # fmt: skip


def _images(path: Path) -> str:
    lengths = bundled.lengths(path)
    train, validation = lengths["train_images"], lengths["validation_images"]
    return f"{train:,} training and {validation:,} validation images"


def _idx_images(folder: Path) -> str:
    lengths = {name: idx.idx_length(folder / file) for name, file in idx.FILES.items()}
    train, validation = lengths["train_images"], lengths["validation_images"]
    return f"{train:,} training and {validation:,} validation images"


def _flights(path: Path) -> str:
    return f"{bundled.lengths(path)['arrival_delay']:,} flights, one fifth of them for validation"


def _pictures(folder: Path) -> str:
    found = folders.pictures(folder)
    if not found:
        raise ValueError(f'"{folder}" holds no .jpg files')
    held_out = sum(len(folders.split(paths)[1]) for paths in found.values())
    train = sum(map(len, found.values())) - held_out
    return f"{train:,} training and {held_out:,} validation JPEG files"


def _base(path: Path) -> str:
    return f"{len(bundled.lengths(path))} arrays of weights, beside the pictures of {_CLIPART}"


def _weather(path: Path) -> str:
    lengths = bundled.lengths(path)
    return f"{lengths['hour']:,} hours at {lengths['airport_names']} airports"


def _source_text(folder: Path) -> str:
    missing = stdlib_source.missing_packages(folder)
    if missing:
        raise FileNotFoundError(f"no source of {', '.join(missing)}")
    return f"source of {len(stdlib_source.PACKAGES)} packages of this Python"
