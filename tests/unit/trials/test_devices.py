"""The GPUs that TensorFlow uses, on pretended machines."""

import pytest
from support.lazy_modules import tf

from tfopt_core.hooks.machine import Gpu
from tfopt_core.testing import make_machine
from tfopt_core.training.runtime import as_tensorflow_sees

T4, A100 = Gpu("T4", (7, 5), 16, 15), Gpu("A100", (8, 0), 40, 30)


@pytest.fixture
def sees(monkeypatch):
    """Have TensorFlow list GPUs of these names, of compute capability 8.0."""

    def with_names(*names):
        devices = [tf.config.PhysicalDevice(f"/GPU:{i}", "GPU") for i in range(len(names))]
        details = dict(zip((one.name for one in devices), names, strict=True))
        monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: devices)
        monkeypatch.setattr(
            tf.config.experimental, "get_device_details",
            lambda device: {"device_name": details[device.name], "compute_capability": (8, 0)},
        )  # fmt: skip

    return with_names


@pytest.mark.parametrize(
    ("listed", "seen", "memory"),
    [
        ((T4, A100), ("A100",), [(40, 30)]),  # the other one is hidden
        ((A100,), ("NVIDIA A100",), [(40, 30)]),  # another name for the same
        ((A100, A100), ("A100", "A100"), [(40, 30), (40, 30)]),
        ((T4, A100), ("H100",), [(0, 0)]),
        ((), ("AMD GPU",), [(0, 0)]),  # no nvidia-smi
    ],
)
def test_tensorflow_says_which_gpus_there_are_and_the_driver_how_large(listed, seen, memory, sees):
    sees(*seen)
    found = as_tensorflow_sees(make_machine(gpus=listed)).gpus
    assert [(gpu.name, gpu.compute_capability) for gpu in found] == [(n, (8, 0)) for n in seen]
    assert [(gpu.memory_bytes, gpu.free_bytes) for gpu in found] == memory
