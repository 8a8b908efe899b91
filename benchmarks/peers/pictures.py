"""JPEG files for the peers that decode with Pillow: by index, and as a Keras PyDataset."""

from __future__ import annotations

from typing import Any

import numpy as np


def picture(path: str, side: int) -> Any:
    """Return a JPEG file as (side, side, 3) float32 from 0 to 1, scaled bilinearly."""
    from PIL import Image

    with Image.open(path) as opened:
        scaled = opened.convert("RGB").resize((side, side), Image.Resampling.BILINEAR)
    return np.asarray(scaled, np.float32) / 255.0


def keras_pictures() -> Any:
    """Return the class of batches of decoded pictures; it imports Keras."""
    import keras

    class Pictures(keras.utils.PyDataset):
        """Batches of files, in another order each epoch, decoded by two threads."""

        def __init__(
            self, files: Any, batch_size: int, side: int, *, mirrored: bool = False, **kept: Any
        ) -> None:
            super().__init__(**kept)
            self._paths, self._labels = files["x"], files["y"]
            self._batch_size, self._side, self._mirrored = batch_size, side, mirrored
            self._random = np.random.default_rng(1)
            self._order = np.arange(len(self._labels))
            self.on_epoch_end()

        def __len__(self) -> int:
            return -(-len(self._labels) // self._batch_size)

        def __getitem__(self, index: int) -> tuple[Any, Any]:
            chosen = self._order[index * self._batch_size :][: self._batch_size]
            pictures = np.stack([picture(path, self._side) for path in self._paths[chosen]])
            if self._mirrored:
                turned = self._random.random(len(chosen)) < 0.5
                pictures[turned] = pictures[turned, :, ::-1]
            return pictures, self._labels[chosen]

        def on_epoch_end(self) -> None:
            """Draw the next epoch's order."""
            if self._mirrored:
                self._random.shuffle(self._order)

    return Pictures
