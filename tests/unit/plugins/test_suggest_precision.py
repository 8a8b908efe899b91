"""When mixed-precision proposes itself."""

from __future__ import annotations

import pytest
from tfopt_precision.mixed_precision import MixedPrecision

from tfopt_core import Diagnosis, Gpu
from tfopt_core.testing import make_machine

NATIVE = make_machine(cpu_flags=frozenset({"avx512_bf16"}), gpus=())
PLAIN = make_machine(cpu_flags=frozenset(), gpus=())
VOLTA = make_machine(gpus=(Gpu("V100", (7, 0), 2**34),))
LAYERS = {"scope": "layers", "float32_layers": "auto"}
FAST = {"float32": 1e11, "bfloat16": 3e11}


def suggested(machine=NATIVE, policy="float32", share=0.3, peaks=FAST):
    diagnosis = Diagnosis(
        machine=machine, epochs=5, steps_per_epoch=100, batch_size=32, examples=3200,
        step_seconds=1.0, input_seconds=0.1, dispatch_seconds=0.1, compute_seconds=0.8,
        data_seconds=0.1, example_bytes=None, available_memory_bytes=2**30,
        trainable_parameters=10, policy=policy, jit_compile=False, supports_jit=True,
        matmul_share=share, matmul_peaks=peaks,
    )  # fmt: skip
    return MixedPrecision().suggest(diagnosis)


@pytest.mark.parametrize(
    ("machine", "policy"), [(NATIVE, "mixed_bfloat16"), (VOLTA, "mixed_float16")]
)
def test_it_proposes_what_the_hardware_multiplies(machine, policy):
    assert suggested(machine) == {"policy": policy, **LAYERS}


def test_it_proposes_nothing_without_such_hardware():
    assert suggested(PLAIN) is None


def test_it_proposes_nothing_where_it_is_in_effect():
    assert suggested(policy="mixed_bfloat16") is None


def test_it_proposes_nothing_where_16_bits_are_no_faster_here():
    assert suggested(peaks={"float32": 1e11, "bfloat16": 0.9e11}) is None


def test_it_proposes_nothing_to_a_model_that_hardly_multiplies():
    assert suggested(share=0.001) is None
    assert suggested(share=None) == {"policy": "mixed_bfloat16", **LAYERS}  # not countable
