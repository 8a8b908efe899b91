"""What a plugin reads back of a training: that it took effect, or why it did not."""

import re

import numpy as np
import pytest
from support.lazy_modules import keras, layers
from support.plugin_drive import BFLOAT16_CPU, CPU, FakeProbe
from tfopt_data.batch import Batch
from tfopt_data.cache import Cache
from tfopt_data.parallel_map import ParallelMap
from tfopt_data.prefetch_to_device import PrefetchToDevice
from tfopt_data.shard import Shard
from tfopt_data.shuffle import Shuffle
from tfopt_data.vectorize_map import VectorizeMap
from tfopt_distribute.mirrored import Mirrored
from tfopt_distribute.one_device import OneDevice
from tfopt_model.dropconnect import DropConnect
from tfopt_model.l2 import L2
from tfopt_model.slim_head import SlimHead
from tfopt_observe.profile import Profile
from tfopt_precision.mixed_precision import MixedPrecision
from tfopt_runtime.grappler import Grappler
from tfopt_runtime.steps_per_execution import StepsPerExecution
from tfopt_runtime.threads import Threads
from tfopt_runtime.xla import Xla
from tfopt_training.fit_batch import FitBatch
from tfopt_training.lr_schedule import LrSchedule
from tfopt_training.target_stop import TargetStop

from tfopt_core import DataPlan
from tfopt_core.data.anatomy import TENSOR_OVERHEAD_BYTES
from tfopt_core.errors import PluginError
from tfopt_core.plugins import PluginRefused

X = np.random.default_rng(0).random((64, 4), dtype="float32")
PLAN = DataPlan.from_arrays(X, X[:, :1])
DOUBLED = PLAN.map(lambda x, y: (x * 2, y))
KEPT_KIB = 64 * (5 * 4 + 2 * TENSOR_OVERHEAD_BYTES) / 1024


def one_layer():
    return keras.Sequential([keras.Input((4,)), layers.Dense(1, name="out")])


def pinned():
    dense = layers.Dense
    return keras.Sequential(
        [keras.Input((4,)), dense(8, dtype="float32", name="pin"), dense(1, dtype="float32")]
    )


def blocked():
    class NoXla(keras.layers.Layer):
        def __init__(self, **given):
            super().__init__(**given)
            self.supports_jit = False

        def call(self, x):
            return x

    return keras.Sequential([keras.Input((4,)), NoXla(name="turn"), layers.Dense(1)])


def in_float16(scale):
    return MixedPrecision(policy="mixed_float16", force=True, loss_scale=scale)


IN_BFLOAT16 = MixedPrecision(policy="mixed_bfloat16")


@pytest.mark.filterwarnings("ignore:Model doesn't support")
@pytest.mark.parametrize(
    ("plugin", "given", "applied", "said"),
    [
        (Batch(last="drop"), {"plan": PLAN.batch(24)}, True, "^train: drops 16 examples an epoch"),
        (Batch(), {"plan": PLAN.batch(24)}, True, "^train: pads the last batch by 8 examples"),
        (Cache(storage="memory"), {"plan": DOUBLED.shuffle().batch(16)}, True,
         f"train: in memory, after map_examples.*about {KEPT_KIB:.0f} KiB$"),
        (Cache(storage="memory"), {"plan": DOUBLED.batch(16), "epochs": 1}, False, "one epoch"),
        (ParallelMap(), {}, False, "there is no map stage"),
        (PrefetchToDevice(), {}, False, "no accelerator"),
        (Shard(count=2, index=1), {}, True, "^train: shard: 2 of 2$"),
        (Shuffle(), {"plan": DOUBLED.shuffle(8).batch(16)}, True, "^train: shuffle: all examples"),
        (VectorizeMap(), {"plan": DOUBLED.batch(16)}, True, "as it is"),
        (OneDevice(device="/cpu:0"), {}, True, "OneDeviceStrategy.*(CPU|cpu):0"),
        (Mirrored(devices=("/cpu:0",)), {}, False, "^the strategy has one replica, on CPU:0$"),
        (DropConnect(), {"model": one_layer}, False, '^"out" makes the outputs$'),
        (L2(strength=0.01), {}, True, r"2 kernels penalized with 0\.01; model\.losses has 2"),
        (SlimHead(), {}, False, "no feature map .* dense layer only; rank is off"),
        (Profile(skip=99), {}, False,
         "ended after 8 steps, and 99 are skipped; set a smaller skip"),
        (IN_BFLOAT16, {"machine": BFLOAT16_CPU}, True,
         '^(?!.*emulates).*1 of 2 layers with weights .* bfloat16.*in float32: "out"'),
        (IN_BFLOAT16, {"model": pinned}, False, '"pin" keeps float32'),
        (in_float16("dynamic"), {}, True, "dynamic loss scale, now"),
        (MixedPrecision().resolve(FakeProbe(machine=CPU)), {}, False,
         "neither bfloat16 nor float16"),
        (Grappler(remapping=True), {}, False, "TensorFlow's own choice"),
        (StepsPerExecution(steps=2), {}, True, "^2 steps a call$"),
        (Threads(intra_op=3, inter_op=5), {}, False, "reads back"),
        (Xla(), {}, True, ""),
        (Xla(), {"model": blocked}, False, 'layer "turn"'),
        (LrSchedule(final_fraction=0.1), {"optimizer": "adam"}, True,
         r"^CosineDecay, learning rate 0\.0001 after 8 steps$"),
        (TargetStop(metric="loss", at_most=1e-9), {}, False, "never reached; best was"),
        (TargetStop(metric="loss", at_most=1e9, patience=2), {"epochs": 2}, False, "last epoch"),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "__attrs_attrs__") else "",
)  # fmt: skip
def test_the_effect_says_whether_it_was_applied_and_what_is_there(
    train, plugin, given, applied, said
):
    effect = train(plugin, **given).effect
    assert effect.applied is applied
    assert re.search(said, effect.detail), effect.detail


@pytest.mark.parametrize(
    ("plugin", "given", "said"),
    [
        (OneDevice(device="/gpu:9"), {}, 'no device "/gpu:9"; TensorFlow sees cpu:0'),
        (MixedPrecision(policy="mixed_float16"), {}, 'plugin "it": float16 without a GPU'),
        (TargetStop(metric="val_loss", at_most=1.0), {},
         'no metric "val_loss"; the metrics are: loss'),
        (FitBatch(batch_size=4), {"plan": PLAN.apply(lambda data: data.batch(2))},
         "leave fit-batch out"),
    ],
)  # fmt: skip
def test_what_a_training_shows_to_be_impossible_is_refused(train, plugin, given, said):
    with pytest.raises((PluginError, PluginRefused), match=said):
        train(plugin, **given)
