"""Write what all contestants of one training share: arrays or file names, and initial models.

    python -m peers.prepare TASK.json

In a round every system begins from the same weights, so that equal losses can be asked of it; what
the initial model returns for the first validation batch is written too, to compare with.
"""

from __future__ import annotations

import json
from typing import Any

import keras
import numpy as np

from peers.contestant import Task, read_task
from peers.factories import ALL
from peers.files import Files
from peers.limits import step_operations
from tfopt_core.data.lower import lower

PRECISIONS = ("float32", "mixed_bfloat16")


def main(task: Task) -> None:
    """Write the files of a task into its folder, with an initial model for each of its seeds."""
    examples = task.options.get("examples")
    workload = ALL[task.line](**({} if examples is None else {"examples": examples}))
    files = Files(task.folder, task.seed)
    arrays = {"train": _arrays(workload.train), "validation": _arrays(workload.validation)}
    for split, both in arrays.items():
        np.savez(files.arrays(split), **both)
    inputs, targets = next(iter(lower(workload.validation.batch(task.batch_size))))
    for seed in task.options["seeds"]:
        model = _initial(workload, Files(task.folder, seed), inputs)
    optimizer = keras.optimizers.get(
        workload.optimizer() if callable(workload.optimizer) else workload.optimizer
    )
    model.compile(optimizer=optimizer, loss=workload.loss)
    compiled = {
        "rate": float(optimizer.learning_rate),
        "loss": workload.loss if isinstance(workload.loss, str) else workload.loss.name,
        "metrics": list(workload.metrics),
        "examples": len(arrays["train"]["y"]),
        "steps": -(-len(arrays["train"]["y"]) // task.batch_size),
        "parameters": model.count_params(),
        "step_operations": step_operations(model, (inputs, targets)),
        "example_bytes": _bytes(inputs) / len(inputs) + _bytes(targets) / len(targets),
    }
    files.compiled.write_text(json.dumps(compiled), encoding="utf-8")


def _initial(workload: Any, files: Files, inputs: Any) -> Any:
    """Write the initial model of a seed in each precision, its weights and first outputs. Return
    it in float32."""
    for precision in reversed(PRECISIONS):
        keras.config.set_dtype_policy(precision)
        keras.utils.set_random_seed(files.seed)
        model = workload.build_model()
        model.save(files.model(precision))
    weights: dict[str, Any] = {f"{i:03}": v for i, v in enumerate(model.get_weights())}
    np.savez(files.weights, **weights)
    np.save(files.output, model(inputs, training=False))
    return model


def _arrays(plan: Any) -> dict[str, Any]:
    """Return "x" and "y" of the examples that a plan begins with: arrays, or names of files."""
    x, y = plan.source.value
    return {"x": x, "y": y}


def _bytes(tensor: Any) -> float:
    return float(np.asarray(tensor).nbytes)


if __name__ == "__main__":
    main(read_task())
