"""The files of one line of the race, which `prepare` writes and every contestant reads.

Only NumPy and the standard library are imported: each system has this in its own environment.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Files:
    """Arrays or file names that all seeds share, and the initial model of one seed."""

    folder: Path
    seed: int

    def model(self, precision: str) -> Path:
        """Return the file of the initial Keras model in this dtype policy."""
        return self.folder / f"{precision}-{self.seed}.keras"

    @property
    def compiled(self) -> Path:
        """The file of learning rate, loss and metrics; written last."""
        return self.folder / "compiled.json"

    @property
    def weights(self) -> Path:
        """The file of the initial weights, in Keras' order."""
        return self.folder / f"weights-{self.seed}.npz"

    @property
    def output(self) -> Path:
        """The file of what the initial model returns for the first validation batch."""
        return self.folder / f"output-{self.seed}.npy"

    def arrays(self, split: str) -> Path:
        """Return the file of a split's examples, "x" and "y"."""
        return self.folder / f"{split}.npz"

    def read_compiled(self) -> dict[str, Any]:
        """Return learning rate, loss and metrics, and what the limits are computed from."""
        return dict(json.loads(self.compiled.read_text(encoding="utf-8")))

    def read_weights(self) -> list[Any]:
        """Return the initial weights in Keras' order."""
        with np.load(self.weights) as stored:
            return [stored[name] for name in sorted(stored.files)]

    def read_output(self) -> Any:
        """Return what the initial model returns for the first validation batch."""
        return np.load(self.output)

    def read_arrays(
        self, examples: int | None, batch_size: int
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the training examples, the first ones or all, and those for validation: with the
        first ones an eighth as many, and at least a batch."""
        held_out = None if examples is None else max(batch_size, examples // 8)
        with np.load(self.arrays("train")) as train, np.load(self.arrays("validation")) as rest:
            return (
                {name: train[name][:examples] for name in train.files},
                {name: rest[name][:held_out] for name in rest.files},
            )
