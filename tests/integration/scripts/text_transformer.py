"""
Title: Text classification with Transformer
Description: Code or prose? A Transformer block as custom layers, on arrays of characters.
"""

import pathlib
import sysconfig

import keras
import numpy as np
from keras import layers, ops

keras.utils.set_random_seed(3)

vocab_size, maxlen = 128, 40
embed_dim, num_heads, ff_dim = 16, 2, 32


class TransformerBlock(layers.Layer):
    def __init__(self, embed_dim, num_heads, ff_dim, rate=0.1):
        super().__init__()
        self.att = layers.MultiHeadAttention(num_heads=num_heads, key_dim=embed_dim)
        self.ffn = keras.Sequential(
            [layers.Dense(ff_dim, activation="relu"), layers.Dense(embed_dim)]
        )
        self.layernorm1 = layers.LayerNormalization(epsilon=1e-6)
        self.layernorm2 = layers.LayerNormalization(epsilon=1e-6)
        self.dropout = layers.Dropout(rate)

    def call(self, inputs, training=None):
        attended = self.dropout(self.att(inputs, inputs), training=training)
        out1 = self.layernorm1(inputs + attended)
        return self.layernorm2(out1 + self.ffn(out1))


class TokenAndPositionEmbedding(layers.Layer):
    def __init__(self, maxlen, vocab_size, embed_dim):
        super().__init__()
        self.token_emb = layers.Embedding(input_dim=vocab_size, output_dim=embed_dim)
        self.pos_emb = layers.Embedding(input_dim=maxlen, output_dim=embed_dim)

    def call(self, x):
        positions = ops.arange(0, ops.shape(x)[-1])
        return self.token_emb(x) + self.pos_emb(positions)


def read(limit):
    """Lines of the standard library; a comment is prose, everything else is code."""
    code, prose = [], []
    for path in sorted(pathlib.Path(sysconfig.get_path("stdlib")).glob("*.py")):
        for line in path.read_text("utf-8", errors="replace").splitlines():
            text = line.strip()
            if len(text) > 20:
                (prose if text.startswith("#") else code).append(text.lstrip("# "))
    texts = prose[:limit] + code[:limit]
    y = np.array([1] * len(prose[:limit]) + [0] * len(code[:limit]))
    codes = [[min(ord(sign), vocab_size - 1) for sign in text[:maxlen]] for text in texts]
    x = keras.utils.pad_sequences(codes, maxlen=maxlen, padding="post")
    order = np.random.permutation(len(x))
    return x[order], y[order]


x, y = read(900)
x_train, y_train, x_val, y_val = x[:1400], y[:1400], x[1400:], y[1400:]
print(len(x_train), "training sequences,", len(x_val), "validation sequences")

inputs = layers.Input(shape=(maxlen,))
x = TokenAndPositionEmbedding(maxlen, vocab_size, embed_dim)(inputs)
x = TransformerBlock(embed_dim, num_heads, ff_dim)(x)
x = layers.GlobalAveragePooling1D()(x)
x = layers.Dropout(0.1)(x)
outputs = layers.Dense(2, activation="softmax")(x)
model = keras.Model(inputs=inputs, outputs=outputs)

model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
history = model.fit(x_train, y_train, batch_size=64, epochs=2, validation_data=(x_val, y_val))
print("history: transformer", repr(history.history))
