"""Which package of the standard library is this line from? Vectorized batch by batch."""

import pathlib
import re
import string
import sysconfig

import keras
import tensorflow as tf
from keras import layers

PACKAGES = ["asyncio", "email", "unittest"]
MAX_FEATURES = 4000
EMBEDDING_DIM = 32
SEQUENCE_LENGTH = 32
BATCH_SIZE = 32

keras.utils.set_random_seed(1337)

# --- read the source text -------------------------------------------------------------------
lines, labels = [], []
for label, package in enumerate(PACKAGES):
    folder = pathlib.Path(sysconfig.get_path("stdlib")) / package
    found = []
    for path in sorted(folder.glob("*.py")):
        found += [line.strip() for line in path.read_text("utf-8").splitlines()]
    found = [line for line in found if len(line) > 20][:3000]
    lines += found
    labels += [label] * len(found)

raw_ds = tf.data.Dataset.from_tensor_slices((lines, labels)).shuffle(
    len(lines), reshuffle_each_iteration=False
)
raw_val_ds = raw_ds.take(1500).batch(BATCH_SIZE)
raw_train_ds = raw_ds.skip(1500).shuffle(len(lines)).batch(BATCH_SIZE)


# --- prepare the data -----------------------------------------------------------------------
def custom_standardization(input_data):
    lowercase = tf.strings.lower(input_data)
    return tf.strings.regex_replace(lowercase, f"[{re.escape(string.punctuation)}]", " ")


vectorize_layer = layers.TextVectorization(
    standardize=custom_standardization,
    max_tokens=MAX_FEATURES,
    output_mode="int",
    output_sequence_length=SEQUENCE_LENGTH,
)
text_ds = raw_train_ds.map(lambda x, y: x)
vectorize_layer.adapt(text_ds)


def vectorize_text(text, label):
    text = tf.expand_dims(text, -1)
    return vectorize_layer(text), label


train_ds = raw_train_ds.map(vectorize_text).prefetch(buffer_size=10)
val_ds = raw_val_ds.map(vectorize_text).prefetch(buffer_size=10)

# --- the model ------------------------------------------------------------------------------
inputs = keras.Input(shape=(None,), dtype="int64")
x = layers.Embedding(MAX_FEATURES, EMBEDDING_DIM)(inputs)
x = layers.Dropout(0.5)(x)
x = layers.GlobalAveragePooling1D()(x)
x = layers.Dense(EMBEDDING_DIM, activation="relu")(x)
predictions = layers.Dense(len(PACKAGES), activation="softmax", name="predictions")(x)
model = keras.Model(inputs, predictions, name="vectorized")
model.compile(loss="sparse_categorical_crossentropy", optimizer="adam", metrics=["accuracy"])

history = model.fit(train_ds, validation_data=val_ds, epochs=5)
loss, accuracy = model.evaluate(val_ds)
print("Accuracy:", accuracy)
print("history: vectorized", repr(history.history))
