"""When mixed-precision proposes itself."""

from __future__ import annotations

import pytest
from support.hooks_diagnosis import diagnosis
from tfopt_precision.mixed_precision import MixedPrecision

from tfopt_core.hooks.machine import Gpu
from tfopt_core.testing import make_machine

NATIVE = make_machine(cpu_flags=frozenset({"avx512_bf16"}), gpus=())
PLAIN = make_machine(cpu_flags=frozenset(), gpus=())
VOLTA = make_machine(gpus=(Gpu("V100", (7, 0), 2**34),))
LAYERS = {"scope": "layers", "float32_layers": "auto"}
FAST = {"float32": 1e11, "bfloat16": 3e11}


def suggested(machine=NATIVE, policy="float32", share=0.3, peaks=FAST):
    found = diagnosis(
        input_=0.1, dispatch=0.1, compute=0.8, machine=machine, policy=policy, matmul_share=share,
        matmul_peaks=peaks,
    )  # fmt: skip
    return MixedPrecision().suggest(found)


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
