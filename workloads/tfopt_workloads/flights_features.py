"""The workload `flights-features`: the table of flights, encoded batch by batch by Keras layers.

As in Keras' example of a FeatureSpace: the table is shuffled and batched first, and a map over
whole batches then looks up, discretizes, normalizes and crosses the columns.
"""

from __future__ import annotations

from typing import Any

from tfopt_core import Workload
from tfopt_workloads import bundled
from tfopt_workloads.flights import LATE_MINUTES
from tfopt_workloads.options import one_of, whole_number

WORDS = ("carrier", "origin", "destination")
WHOLE = ("month", "weekday")
NUMBERS = ("departure_delay", "distance", "scheduled_departure", "scheduled_arrival")
PREPARE = ("batches", "ahead")


def build(
    examples: int | None = None, batch_size: int = 128, width: int = 1, prepare: str = "batches"
) -> Workload:
    """80,000 + 20,000 flights from New York in 2013, a Keras FeatureSpace and a small MLP.

    Late flights (by more than 15 minutes) are told from what is known at take-off. The columns are
    words, whole numbers and numbers; the FeatureSpace makes 257 features of them.

    :param examples: the number of training examples, 80,000 by default; validation data stay.
    :param batch_size: of the batches that are encoded.
    :param width: multiplies the units of the hidden layers.
    :param prepare: where features are computed: in the map over "batches", each epoch anew, or
        "ahead", once for the whole table, as arrays.
    :raises WorkloadError: for a wrong option.
    """
    import keras

    batch_size = whole_number("batch_size", batch_size, low=1)
    width = whole_number("width", width, low=1)
    one_of("prepare", prepare, PREPARE)
    arrays = bundled.load("flights")
    size = len(arrays["arrival_delay"])
    held_out = size // 5
    count = size - held_out
    if examples is not None:
        count = whole_number("examples", examples, low=1, high=count)
    train, validation = table(arrays, 0, count), table(arrays, size - held_out, size)
    space = feature_space(train[0])
    features = 0

    def encoded(columns: Any, late: Any) -> Any:
        return space(columns), late

    def batches(split: tuple[Any, Any], shuffle: bool) -> Any:
        import tensorflow as tf

        data = tf.data.Dataset.from_tensor_slices(split)
        if shuffle:
            data = data.shuffle(len(split[1]))
        data = data.batch(batch_size).map(encoded, num_parallel_calls=tf.data.AUTOTUNE)
        return data.prefetch(tf.data.AUTOTUNE)

    def build_model() -> Any:
        return mlp(features, width)

    def accuracy() -> Any:
        # a logit of 0 is a probability of a half
        return keras.metrics.BinaryAccuracy(threshold=0.0, name="accuracy")

    def auc() -> Any:
        return keras.metrics.AUC(from_logits=True, name="auc")

    if prepare == "ahead":
        train, validation = encoded(*train), encoded(*validation)
        features = train[0].shape[1]
    else:
        train, validation = batches(train, shuffle=True), batches(validation, shuffle=False)
        features = train.element_spec[0].shape[1]
    return Workload(
        train=train,
        validation=validation,
        build_model=build_model,
        optimizer="adam",
        loss=keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=[accuracy, auc],
        quality_metric="val_auc",
        epochs=10,
        batch_size=batch_size,
        baseline=(
            "stock fit over tf.data as in Keras' example of a FeatureSpace: shuffled anew each "
            "epoch, batched, whole batches encoded by a parallel map, prefetched"
            if prepare == "batches"
            else "stock fit over plain tf.data: all features encoded beforehand, shuffled anew "
            "each epoch, batched; no prefetch"
        ),
    )


def table(arrays: dict[str, Any], start: int, stop: int) -> tuple[dict[str, Any], Any]:
    """The columns of some flights, each (flights,), and whether they are late, (flights, 1)."""
    rows = slice(start, stop)
    columns = {name: arrays[f"{name}_names"][arrays[name][rows]] for name in WORDS}
    columns |= {name: arrays[name][rows].astype("int64") for name in WHOLE}
    columns |= {name: arrays[name][rows].astype("float32") for name in NUMBERS}
    return columns, (arrays["arrival_delay"][rows, None] > LATE_MINUTES).astype("float32")


def feature_space(columns: dict[str, Any]) -> Any:
    """A FeatureSpace that is adapted to these columns: one vector of features for each flight."""
    import tensorflow as tf
    from keras.utils import FeatureSpace

    space = FeatureSpace(
        features={
            "carrier": FeatureSpace.string_categorical(),
            "origin": FeatureSpace.string_categorical(num_oov_indices=0),
            "destination": FeatureSpace.string_categorical(),
            "month": FeatureSpace.integer_categorical(num_oov_indices=0),
            "weekday": FeatureSpace.integer_categorical(num_oov_indices=0),
            "departure_delay": FeatureSpace.float_normalized(),
            "distance": FeatureSpace.float_normalized(),
            "scheduled_departure": FeatureSpace.float_discretized(num_bins=24),
            "scheduled_arrival": FeatureSpace.float_discretized(num_bins=24),
        },
        crosses=[FeatureSpace.cross(("carrier", "origin"), crossing_dim=64)],
        output_mode="concat",
    )
    space.adapt(tf.data.Dataset.from_tensors(columns))
    return space


def mlp(features: int, width: int = 1) -> Any:
    """Two hidden layers; nothing random in training, so runs can be compared."""
    import keras
    from keras import layers

    encoded = keras.Input((features,), name="features")
    hidden = layers.Dense(64 * width, activation="relu")(encoded)
    hidden = layers.Dense(32 * width, activation="relu")(hidden)
    return keras.Model(encoded, layers.Dense(1, name="logits")(hidden), name="features_mlp")
