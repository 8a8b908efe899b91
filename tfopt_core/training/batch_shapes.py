"""Put the shapes of a batch into words."""

from __future__ import annotations

from typing import Any


def shapes_in_words(batch: Any) -> str:
    """Return the shapes of a batch's parts: `(32, 28, 28, 1), (32,)`; `(...)` where one has any
    number of axes."""
    import tensorflow as tf

    shapes = []
    for part in tf.nest.flatten(batch):
        shape = getattr(part, "shape", ())
        if getattr(shape, "rank", 0) is None:
            shapes.append("(...)")
            continue
        sizes = ", ".join("?" if size is None else str(size) for size in shape)
        shapes.append(f"({sizes}{',' if len(shape) == 1 else ''})")
    return ", ".join(shapes)
