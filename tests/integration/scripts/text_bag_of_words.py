"""Which package of the standard library is this line from? A bag of words."""

import pathlib
import random
import sysconfig

import tensorflow as tf
from tensorflow.keras import Sequential, callbacks, layers, losses

PACKAGES = ["asyncio", "email", "unittest"]
SEED = 123

tf.keras.utils.set_random_seed(SEED)

# --- read the source text -------------------------------------------------------------------
lines, labels = [], []
for label, package in enumerate(PACKAGES):
    folder = pathlib.Path(sysconfig.get_path("stdlib")) / package
    found = []
    for path in sorted(folder.glob("*.py")):
        found += [line.strip() for line in path.read_text("utf-8").splitlines()]
    found = [line for line in found if len(line) > 20][:1500]
    lines += found
    labels += [label] * len(found)

together = list(zip(lines, labels, strict=True))
random.shuffle(together)
lines, labels = [line for line, _ in together], [label for _, label in together]
cut = len(lines) * 4 // 5
raw_train_ds = tf.data.Dataset.from_tensor_slices((lines[:cut], labels[:cut])).batch(32)
raw_val_ds = tf.data.Dataset.from_tensor_slices((lines[cut:], labels[cut:])).batch(32)

# --- vectorize in the data pipeline ---------------------------------------------------------
vectorize_layer = layers.TextVectorization(max_tokens=2000, output_sequence_length=24)
vectorize_layer.adapt(raw_train_ds.map(lambda text, label: text))


def vectorize_text(text, label):
    return vectorize_layer(text), label


train_ds = raw_train_ds.map(vectorize_text).cache().shuffle(200).prefetch(tf.data.AUTOTUNE)
val_ds = raw_val_ds.map(vectorize_text).cache().prefetch(tf.data.AUTOTUNE)

# --- the model ------------------------------------------------------------------------------
model = Sequential(
    [
        layers.Embedding(2000, 16),
        layers.Dropout(0.2),
        layers.GlobalAveragePooling1D(),
        layers.Dense(len(PACKAGES)),
    ]
)
model.compile(
    loss=losses.SparseCategoricalCrossentropy(from_logits=True),
    optimizer=tf.keras.optimizers.Adam(0.02),
    metrics=["accuracy"],
)
history = model.fit(
    train_ds,
    validation_data=val_ds,
    epochs=4,
    callbacks=[
        callbacks.EarlyStopping(monitor="val_loss", patience=1, restore_best_weights=True),
        callbacks.ModelCheckpoint(
            "checkpoints/best.weights.h5",
            "val_accuracy",
            save_best_only=True,
            save_weights_only=True,
        ),
    ],
)
loss, accuracy = model.evaluate(val_ds)
print("Accuracy:", accuracy)
print("history: bag_of_words", repr(history.history))
