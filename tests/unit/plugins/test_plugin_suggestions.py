"""Where each plugin proposes itself, and with which settings: where it may pay."""

import attrs
import numpy as np
import pytest
from support.hooks_diagnosis import diagnosis
from support.lazy_modules import tf
from support.plugin_drive import CPU, machine_with
from tfopt_data.autotune import Autotune
from tfopt_data.batch import Batch
from tfopt_data.cache import Cache
from tfopt_data.data_service import DataService
from tfopt_data.frozen_features import FrozenFeatures
from tfopt_data.interleave import Interleave
from tfopt_data.parallel_map import ParallelMap
from tfopt_data.prefetch import Prefetch
from tfopt_data.prefetch_to_device import PrefetchToDevice
from tfopt_data.shuffle import Shuffle
from tfopt_data.vectorize_map import VectorizeMap
from tfopt_model.fused_recurrent import FusedRecurrent
from tfopt_model.fused_transformer import FusedTransformer
from tfopt_precision.mixed_precision import MixedPrecision
from tfopt_runtime.chunked import Chunked
from tfopt_runtime.resident import Resident
from tfopt_runtime.split_batch import SplitBatch
from tfopt_runtime.steps_per_execution import StepsPerExecution
from tfopt_runtime.threads import Threads, tensorflow_default
from tfopt_runtime.xla import Xla
from tfopt_training.fused_optimizer import FusedOptimizer

from tfopt_core import DataPlan
from tfopt_core.hooks.machine import Gpu
from tfopt_core.plugins import Finding
from tfopt_core.testing import make_machine


def twice(x):
    return x * 2


def noisy(x, y):
    return x + tf.random.normal(tf.shape(x)), y


def fed_by(plan, batch_size=2, example_bytes=8.0):
    return diagnosis(
        0.5, 0.1, 0.4, 0.5, plans={"train": plan}, machine=CPU, batch_size=batch_size, examples=20,
        example_bytes=example_bytes,
    )  # fmt: skip


GPU = machine_with((8, 0))
NUMBERS = DataPlan.from_arrays(np.arange(20))
ROWS = DataPlan.from_arrays(np.zeros((20, 3), "float32"), np.zeros(20, "float32"))
SLOW_MAP = fed_by(NUMBERS.map(twice).batch(2))
PARALLEL = fed_by(NUMBERS.map(twice, parallel=2).cache().batch(2).prefetch())
HEAVY = attrs.evolve(
    fed_by(NUMBERS.map(twice).shuffle(20).batch(8), batch_size=8, example_bytes=2.0**30),
    jit_compile=True,
)
FILES = fed_by(
    DataPlan.from_arrays(np.array(["a", "b"])).interleave(twice, cycle_length=1).batch(2)
)
SHORT_EPOCHS = diagnosis(
    input_=0.0, dispatch=0.001, compute=0.009, data=0.0001, example_bytes=8.0, epochs=3,
    machine=make_machine(cpu_count=2, cpu_count_total=8), plans={"train": NUMBERS.batch(2)},
)  # fmt: skip
WAITING = diagnosis(
    input_=0.08, dispatch=0.01, compute=0.01, data=0.08, example_bytes=100.0, epochs=3,
    machine=make_machine(cpu_count=16),
    plans={"train": NUMBERS.map(twice, parallel="auto").batch(4)},
)  # fmt: skip
FROZEN = diagnosis(
    findings=(Finding(kind="frozen-layers", detail="98% of the model's weights are frozen"),),
    plans={"train": ROWS}, epochs=5,
)  # fmt: skip
MULTIPLIES = diagnosis(
    input_=0.1, dispatch=0.1, compute=0.8, matmul_share=0.3,
    matmul_peaks={"float32": 1e11, "bfloat16": 3e11},
    machine=make_machine(cpu_flags=frozenset({"avx512_bf16"}), gpus=()),
)  # fmt: skip
LOOPS = diagnosis(
    input_=0.2, dispatch=0.5, compute=0.3, data=0.2, example_bytes=64.0, epochs=3, batch_size=8,
    machine=attrs.evolve(CPU, cpu_count=tensorflow_default()), examples=800,
    available_memory_bytes=2**30, plans={"train": ROWS.batch(4)},
)  # fmt: skip
EXACT = LOOPS.exact_only()
COMPUTING = {"input_seconds": 0.0, "dispatch_seconds": 0.01, "compute_seconds": 0.99}
SLOW = {**COMPUTING, "step_seconds": 29.0, "dispatch_seconds": 14.0, "compute_seconds": 15.0}
SLOW_INPUT = {**SLOW, "input_seconds": 20.0, "dispatch_seconds": 1.0}
RANDOM = {"plans": {"train": ROWS.map(noisy, deterministic=False).batch(4)}}
ONE_CPU = {"machine": make_machine(cpu_count=1)}
PLAIN = {"machine": make_machine(cpu_flags=frozenset(), gpus=())}
VOLTA = {"machine": make_machine(gpus=(Gpu("V100", (7, 0), 2**34),))}
LARGE = {"trainable_parameters": 100_000}
SEQUENTIAL = {"findings": (Finding(kind="sequential-map", detail="slow", split="train"),)}
LOW = {"scope": "layers", "float32_layers": "auto"}
ANY = diagnosis()
OF_INPUT = (Cache, ParallelMap, Prefetch, VectorizeMap)
XLA_OFF = {"xla": False}


@pytest.mark.parametrize(
    ("plugins", "told", "changes", "answer"),
    [
        (OF_INPUT, SLOW_MAP, {}, {}),
        (OF_INPUT, SLOW_MAP, {"input_seconds": 0.01, "data_seconds": 0.01}, None),
        (OF_INPUT, PARALLEL, {}, None),
        ((Shuffle, Batch), HEAVY, {}, {}),
        ((Shuffle, Batch), HEAVY, {"example_bytes": 8.0, "jit_compile": False}, None),
        ((Batch,), HEAVY, {"batch_size": 10}, None),
        ((PrefetchToDevice,), HEAVY, {"machine": GPU}, {}),
        ((PrefetchToDevice, Interleave), HEAVY, {}, None),
        ((Interleave,), FILES, {}, {}),
        ((Autotune,), SHORT_EPOCHS, {}, {"mode": "off"}),
        ((Autotune,), SHORT_EPOCHS, {"input_seconds": 0.5, "step_seconds": 1.0},
         {"mode": "budget"}),
        ((DataService,), WAITING, {}, {"workers": 1}),
        ((DataService,), WAITING, {"machine": make_machine(cpu_count=2)}, None),
        ((DataService,), WAITING, SEQUENTIAL, None),
        ((FrozenFeatures,), FROZEN, {}, {}),
        ((FrozenFeatures,), FROZEN, {"findings": ()}, None),
        ((FrozenFeatures,), FROZEN, {"epochs": 1}, None),
        ((FusedOptimizer,), ANY, LARGE, {}),
        ((FusedOptimizer,), ANY, {"trainable_parameters": 1000}, None),
        ((FusedOptimizer,), ANY, {**LARGE, "machine": GPU}, None),
        ((FusedOptimizer,), ANY, {**LARGE, "jit_compile": True, "layers": ("Embedding",)}, {}),
        ((FusedRecurrent,), ANY, {"layers": ("Dense", "LSTM")}, {}),
        ((FusedRecurrent,), ANY, {"layers": ("Dense", "SimpleRNN")}, None),
        ((FusedTransformer,), ANY, {"layers": ("LayerNormalization",)}, {}),
        ((FusedTransformer,), ANY, {"layers": ("Conv2D",)}, None),
        ((FusedTransformer,), ANY,
         {"layers": ("LayerNormalization",), "policy": "mixed_bfloat16"}, None),
        ((MixedPrecision,), MULTIPLIES, {}, {"policy": "mixed_bfloat16", **LOW}),
        ((MixedPrecision,), MULTIPLIES, VOLTA, {"policy": "mixed_float16", **LOW}),
        ((MixedPrecision,), MULTIPLIES, PLAIN, None),
        ((MixedPrecision,), MULTIPLIES, {"policy": "mixed_bfloat16"}, None),
        ((MixedPrecision,), MULTIPLIES, {"matmul_share": 0.001}, None),
        ((SplitBatch,), ANY, {"layers": ("Dense", "LSTM")}, {**XLA_OFF, "own_cores": True}),
        ((SplitBatch,), ANY, {"layers": ("Conv2D", "BatchNormalization")}, None),
        ((SplitBatch,), ANY, {"jit_compile": True}, {}),
        ((SplitBatch,), ANY, ONE_CPU, None),
        ((Threads,), LOOPS, {}, None),
        ((Threads,), LOOPS,
         {"machine": attrs.evolve(CPU, cpu_count=tensorflow_default() + 1)}, {}),
        ((Chunked, Resident, StepsPerExecution, Xla), LOOPS, {}, {}),
        ((Chunked, Resident, StepsPerExecution), LOOPS, {"batch_callbacks": ("Each",)}, None),
        ((Resident,), LOOPS, {"example_bytes": 2.0**29}, None),
        ((Resident,), LOOPS, RANDOM, None),
        # where XLA cannot compile a layer, none that would time it
        ((Chunked, Resident), LOOPS, {"supports_jit": False}, XLA_OFF),
        # it was set for the model in spite of the layer
        ((Chunked, Resident), LOOPS, {"supports_jit": False, "jit_compile": True}, {}),
        ((Xla,), LOOPS, {"jit_compile": True}, None),
        # where computing is all, what compiles: it times XLA, and may choose none
        ((StepsPerExecution, Xla), LOOPS, COMPUTING, None),
        ((Chunked,), LOOPS, COMPUTING, {}),
        ((StepsPerExecution,), LOOPS, SLOW, None),
        ((Chunked, Resident), LOOPS, SLOW, {}),
        # where nothing but what is exact is asked for
        ((Chunked, Resident), EXACT, {}, XLA_OFF),
        ((StepsPerExecution,), EXACT, {}, {}),
        ((Chunked, Resident), EXACT, SLOW, None),
        ((Chunked, Resident), EXACT, SLOW_INPUT, XLA_OFF),
        ((Chunked, Resident), EXACT, {"jit_compile": True}, None),  # to take XLA away is not exact
    ],
)  # fmt: skip
def test_it_is_proposed_where_it_may_pay_and_nowhere_else(plugins, told, changes, answer):
    told = attrs.evolve(told, **changes)
    assert [plugin().suggest(told) for plugin in plugins] == [answer] * len(plugins)
