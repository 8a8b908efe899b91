"""Hold the rows of a tensor in the memory of a GPU, and gather them there.

On a GPU TensorFlow 2.21 keeps int32 tensors in the memory of the machine, and gathers rows of small
integers (pictures of uint8, say) on the CPU: a loop there would copy the whole tensor in each step.
Their bytes are held as float32 words, which are never computed with.
"""

from __future__ import annotations

import math
from typing import Any

WORD_BYTES = 4


# no class of attrs, which `tf.nest` would take for a structure
class DeviceRows:
    """A tensor whose rows are gathered, held where TensorFlow places what is computed now.

    :param on_gpu: whether that is a GPU.
    """

    def __init__(self, tensor: Any, *, on_gpu: bool) -> None:
        import tensorflow as tf

        self._dtype, self._shape = tensor.dtype, tuple(int(size) for size in tensor.shape[1:])
        small = tensor.dtype.is_integer and tensor.dtype != tf.int64
        self._in_words = on_gpu and small and 0 not in tensor.shape
        self._held = tf.identity(_words_of(tensor) if self._in_words else tensor)

    def gather(self, rows: Any) -> Any:
        """Return the rows at these indices."""
        import tensorflow as tf

        found = tf.gather(self._held, rows)
        if not self._in_words:
            return found
        count, size, shape = tf.shape(rows)[0], self._dtype.size, self._shape
        flat = tf.reshape(tf.bitcast(found, tf.uint8), [count, -1])
        width = size * math.prod(shape)
        flat = flat[:, :width] if width % WORD_BYTES else flat
        flat = tf.reshape(flat, [count, *shape, size] if size > 1 else [count, *shape])
        return tf.ensure_shape(tf.bitcast(flat, self._dtype), [rows.shape[0], *shape])


def _words_of(tensor: Any) -> Any:
    """Return the bytes of each row as float32, padded to whole words."""
    import tensorflow as tf

    count = int(tensor.shape[0])
    flat = tf.reshape(tf.bitcast(tensor, tf.uint8), [count, -1])
    flat = tf.pad(flat, [[0, 0], [0, -int(flat.shape[1]) % WORD_BYTES]])
    return tf.bitcast(tf.reshape(flat, [count, -1, WORD_BYTES]), tf.float32)
