"""Train single steps on one device, in a process of its own: `-m` with the device's name.

A step may crash the process or hang, so a line of JSON is printed before and after each.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tfopt_core.errors import describe

CONVOLUTION, DENSE = "a convolution", "a dense layer"
# What TensorFlow 2.18 to 2.21 open to use a GPU.
LIBRARIES = (
    "libcudart.so.12", "libcublas.so.12", "libcublasLt.so.12", "libcufft.so.11",
    "libcusolver.so.11", "libcusparse.so.12", "libcudnn.so.9",
)  # fmt: skip


def missing_libraries(
    libraries: Sequence[str] = LIBRARIES, search_path: Sequence[str] | None = None
) -> list[str]:
    """Return the libraries that neither the system nor a package of NVIDIA holds.

    TensorFlow finds those of packages by its RPATH, which does not hold for `ctypes`.
    """
    folders = sys.path if search_path is None else search_path
    packaged = (f"nvidia/*/lib/{name}" for name in libraries)
    return [
        name
        for name, pattern in zip(libraries, packaged, strict=True)
        if not _opens(name) and not any(any(Path(one).glob(pattern)) for one in folders)
    ]


def _opens(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def train_steps(device: str) -> Iterator[dict[str, str]]:
    """Train four steps; yield a record when one begins, and when it has ended.

    :param device: such as "GPU:0"; TensorFlow must not have been initialized.
    """
    import keras
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    used = [gpu for gpu in gpus if gpu.name.endswith(f":{device}")]
    tf.config.set_visible_devices(used, "GPU")
    for gpu in used:
        tf.config.experimental.set_memory_growth(gpu, True)  # others may use this GPU
    keras.config.set_dtype_policy("float32")
    for layer, xla in itertools.product((CONVOLUTION, DENSE), (True, False)):
        step, error = f"{layer} {'with' if xla else 'without'} XLA", ""
        yield {"begins": step}
        try:
            _train_step(layer, xla)
        except Exception as raised:  # the next step may work
            error = describe(raised)
        yield {"ended": step, "error": error}


def _train_step(layer: str, xla: bool) -> None:
    """Train a model with one layer of this kind on one batch."""
    import keras
    import numpy as np

    generator = np.random.default_rng(0)
    inputs = keras.Input((16, 16, 8))
    kernel = keras.layers.Conv2D(16, 3, padding="same") if layer == CONVOLUTION else (
        keras.layers.Dense(16)
    )  # fmt: skip
    outputs = keras.layers.GlobalAveragePooling2D()(kernel(inputs))
    model = keras.Model(inputs, outputs)
    model.compile("sgd", "mse", jit_compile=xla)
    images = generator.random((32, 16, 16, 8), np.float32)
    model.train_on_batch(images, generator.random((32, outputs.shape[-1]), np.float32))


if __name__ == "__main__":
    for record in train_steps(sys.argv[1]):
        print(json.dumps(record), flush=True)
