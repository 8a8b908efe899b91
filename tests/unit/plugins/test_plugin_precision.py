"""Mixed precision follows the hardware, and proposes itself where that multiplies faster."""

from collections.abc import Callable
from typing import Any

import pytest
from support.hooks_diagnosis import diagnosis
from support.lazy_modules import keras
from support.plugin_drive import BFLOAT16_CPU, CPU, Driven, FakeProbe, machine_with
from tfopt_precision.mixed_precision import MixedPrecision, choose_policy, formats_of_gpu

from tfopt_core.hooks.machine import Gpu
from tfopt_core.plugins import PluginRefused
from tfopt_core.testing import make_machine


@pytest.mark.parametrize(
    ("machine", "policy", "reason"),
    [
        (CPU, "float32", "neither"),
        (BFLOAT16_CPU, "mixed_bfloat16", "natively"),
        (machine_with((8, 0)), "mixed_bfloat16", "8.0"),
        (machine_with((9, 0), (9, 0)), "mixed_bfloat16", "9.0"),
        (machine_with((9, 0), (7, 5)), "mixed_float16", "7.5"),
        (machine_with((7, 0)), "mixed_float16", "7.0"),
        (machine_with((6, 1)), "float32", "no tensor cores"),
    ],
)
def test_policy_is_what_the_weakest_device_computes_natively(machine, policy, reason):
    chosen, why = choose_policy(machine)
    assert chosen == policy
    assert reason in why
    assert MixedPrecision().resolve(FakeProbe(machine=machine)).policy == policy


@pytest.mark.tensorflow
@pytest.mark.parametrize("policy", ["auto", "mixed_float16"])
def test_the_plan_says_what_the_gpu_computes_on_tensor_cores(policy: Any) -> None:
    probe = FakeProbe(machine=machine_with((8, 6)))
    MixedPrecision(policy=policy).resolve(probe)
    gpu = "GPU 0 has compute capability 8.6: float16, bfloat16 and TensorFloat-32 on tensor cores"
    already = "the last in products of float32 already, which is what 16 bits must beat"
    assert probe.notes == [f"{gpu}, {already}"]
    assert "the last switched off" in formats_of_gpu(probe.machine, tf32_enabled=False)
    older = FakeProbe(machine=machine_with((7, 5)))
    MixedPrecision(policy=policy).resolve(older)
    assert older.notes[0].endswith("float16 on tensor cores, neither bfloat16 nor TensorFloat-32")


def test_float16_without_a_gpu_is_refused_unless_forced() -> None:
    with pytest.raises(PluginRefused, match="without a GPU"):
        MixedPrecision(policy="mixed_float16").resolve(FakeProbe(machine=BFLOAT16_CPU))
    forced = MixedPrecision(policy="mixed_float16", force=True)
    assert forced.resolve(FakeProbe(machine=CPU)).policy == "mixed_float16"


@pytest.mark.tensorflow
def test_float16_without_a_gpu_is_refused_in_the_run_too(train: Callable[..., Driven]) -> None:
    with pytest.raises(PluginRefused, match='plugin "it": float16 without a GPU'):
        train(MixedPrecision(policy="mixed_float16"))


@pytest.mark.tensorflow
def test_bfloat16_counts_layers_and_names_the_float32_ones(train: Callable[..., Driven]) -> None:
    effect = train(MixedPrecision(policy="mixed_bfloat16"), machine=BFLOAT16_CPU).effect
    assert effect.applied
    assert "1 of 2 layers with weights compute in bfloat16" in effect.detail
    assert 'in float32: "out"' in effect.detail
    assert "emulates" not in effect.detail


@pytest.mark.tensorflow
def test_emulated_bfloat16_says_so(train: Callable[..., Driven]) -> None:
    assert "emulates it" in train(MixedPrecision(policy="mixed_bfloat16")).effect.detail


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("scale", "said"), [("dynamic", "dynamic loss scale, now"), (128.0, "loss scale 128")]
)
def test_float16_reports_its_loss_scale(train, scale, said):
    plugin = MixedPrecision(policy="mixed_float16", force=True, loss_scale=scale)
    assert said in train(plugin).effect.detail


@pytest.mark.tensorflow
def test_float32_by_the_hardware_keeps_the_reason(train: Callable[..., Driven]) -> None:
    effect = train(MixedPrecision().resolve(FakeProbe(machine=CPU))).effect
    assert not effect.applied
    assert "neither bfloat16 nor float16" in effect.detail


@pytest.mark.tensorflow
def test_model_that_pins_float32_is_not_applied(train: Callable[..., Driven]) -> None:
    def pinned() -> Any:
        dense = keras.layers.Dense
        return keras.Sequential(
            [keras.Input((4,)), dense(8, dtype="float32", name="pin"), dense(1, dtype="float32")]
        )

    effect = train(MixedPrecision(policy="mixed_bfloat16"), model=pinned).effect
    assert not effect.applied
    assert '"pin" keeps float32' in effect.detail


# When mixed-precision proposes itself

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
    ("facts", "policy"),
    [
        ({}, "mixed_bfloat16"),
        ({"machine": VOLTA}, "mixed_float16"),
        ({"machine": PLAIN}, None),
        ({"policy": "mixed_bfloat16"}, None),
        ({"peaks": {"float32": 1e11, "bfloat16": 0.9e11}}, None),
        ({"share": 0.001}, None),
        ({"share": None}, "mixed_bfloat16"),  # not countable
    ],
)
def test_it_proposes_what_the_hardware_multiplies_faster_to_a_model_that_multiplies(facts, policy):
    assert suggested(**facts) == (policy and {"policy": policy, **LAYERS})
