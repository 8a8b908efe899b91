"""Write what all contestants of one training share: arrays or file names, and one initial model.

    python -m peers.prepare TASK.json

Every system begins from the same weights, so that equal losses can be asked of it; what the
initial model returns for the first validation batch is written too, to compare with.
"""

from __future__ import annotations

import json
from typing import Any

import keras
import numpy as np

from peers.contestant import Task, read_task
from peers.factories import ALL
from tfopt_core.data.lower import lower

PRECISIONS = ("float32", "mixed_bfloat16")
TRAIN, VALIDATION = "train.npz", "validation.npz"
WEIGHTS, COMPILED, OUTPUT = "weights.npz", "compiled.json", "output.npy"


def model_file(precision: str) -> str:
    """Return the name of the file that holds the initial model in this dtype policy."""
    return f"{precision}.keras"


def main(task: Task) -> None:
    """Write the files of a task into its folder."""
    examples = task.options.get("examples")
    workload = ALL[task.line](**({} if examples is None else {"examples": examples}))
    for name, plan in ((TRAIN, workload.train), (VALIDATION, workload.validation)):
        np.savez(task.folder / name, **_arrays(plan))
    for precision in PRECISIONS:
        keras.config.set_dtype_policy(precision)
        keras.utils.set_random_seed(task.seed)
        model = workload.build_model()
        model.save(task.folder / model_file(precision))
        if precision == "float32":
            weights: dict[str, Any] = {f"{i:03}": v for i, v in enumerate(model.get_weights())}
            np.savez(task.folder / WEIGHTS, **weights)
            inputs, _ = next(iter(lower(workload.validation.batch(task.batch_size))))
            np.save(task.folder / OUTPUT, model(inputs, training=False))
    keras.config.set_dtype_policy("float32")
    optimizer = workload.optimizer() if callable(workload.optimizer) else workload.optimizer
    compiled = {
        "rate": float(keras.optimizers.get(optimizer).learning_rate),
        "loss": workload.loss if isinstance(workload.loss, str) else workload.loss.name,
        "metrics": list(workload.metrics),
    }
    (task.folder / COMPILED).write_text(json.dumps(compiled), encoding="utf-8")


def _arrays(plan: Any) -> dict[str, Any]:
    """Return "x" and "y" of the examples that a plan begins with: arrays, or names of files."""
    x, y = plan.source.value
    return {"x": x, "y": y}


if __name__ == "__main__":
    main(read_task())
