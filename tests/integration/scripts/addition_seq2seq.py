"""
Title: Sequence to sequence learning for performing number addition
Description: A model that learns to add strings of numbers, e.g. "53+61" -> "114".
"""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(99)

TRAINING_SIZE = 2000
DIGITS = 2
MAXLEN = DIGITS + 1 + DIGITS
CHARS = "0123456789+ "


class CharacterTable:
    """Encodes strings as one-hot rows, and decodes them."""

    def __init__(self, chars):
        self.chars = sorted(set(chars))
        self.char_indices = {char: index for index, char in enumerate(self.chars)}

    def encode(self, text, num_rows):
        x = np.zeros((num_rows, len(self.chars)), dtype="float32")
        for row, char in enumerate(text):
            x[row, self.char_indices[char]] = 1
        return x

    def decode(self, rows):
        return "".join(self.chars[index] for index in rows.argmax(axis=-1))


ctable = CharacterTable(CHARS)
rng = np.random.default_rng(99)
questions, answers = [], []
for a, b in rng.integers(0, 10**DIGITS, size=(TRAINING_SIZE, 2)):
    questions.append(f"{a}+{b}".ljust(MAXLEN)[::-1])  # reversed, which is easier to learn
    answers.append(str(a + b).ljust(DIGITS + 1))

x = np.stack([ctable.encode(question, MAXLEN) for question in questions])
y = np.stack([ctable.encode(answer, DIGITS + 1) for answer in answers])
split_at = len(x) - len(x) // 10
x_train, x_val = x[:split_at], x[split_at:]
y_train, y_val = y[:split_at], y[split_at:]

print("Build model...")
model = keras.Sequential()
model.add(layers.Input((MAXLEN, len(CHARS))))
model.add(layers.LSTM(32))
model.add(layers.RepeatVector(DIGITS + 1))
model.add(layers.LSTM(32, return_sequences=True))
model.add(layers.Dense(len(CHARS), activation="softmax"))
model.compile(loss="categorical_crossentropy", optimizer="adam", metrics=["accuracy"])

epochs = 3
batch_size = 32
logs = []
for epoch in range(1, epochs):
    print("\nIteration", epoch)
    history = model.fit(
        x_train, y_train, batch_size=batch_size, epochs=1, validation_data=(x_val, y_val)
    )
    logs.append(history.history)
    # Look at some samples from the validation set
    for index in range(3):
        guess = ctable.decode(model.predict(x_val[index : index + 1], verbose=0)[0])
        print("Q", ctable.decode(x_val[index])[::-1], "T", ctable.decode(y_val[index]), guess)

for epoch, log in enumerate(logs, 1):
    print(f"history: iteration{epoch}", repr(log))
