"""A contestant: PyTorch, eager or compiled.

    python -m peers.with_torch TASK.json

Options: `compiled`, `precision` ("float32" or "bfloat16" by autocast). Arrays stay tensors in
memory that are indexed by a random permutation, which is faster than a `DataLoader`; JPEG files
come through one with two workers.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from peers.contestant import Report, Task, read_task
from peers.files import picture
from peers.torch_models import build

SIDE = 96
# The share by which first outputs may differ: by rounding, and by how two libraries scale pictures.
ROUNDING, SCALED = 0.001, 0.1


class Pictures(torch.utils.data.Dataset):
    """JPEG files by index, mirrored in half of the cases where told."""

    def __init__(self, files: Any, *, mirrored: bool) -> None:
        self._paths, self._labels, self._mirrored = files["x"], files["y"], mirrored

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        pixels = torch.from_numpy(picture(self._paths[index], SIDE))
        if self._mirrored and torch.rand(()) < 0.5:
            pixels = pixels.flip(1)
        return pixels, int(self._labels[index])


class Arrays:
    """Batches of arrays in memory, in another order in each pass where told."""

    def __init__(self, arrays: Any, batch_size: int, *, shuffled: bool) -> None:
        self._x, self._y = torch.from_numpy(arrays["x"]), torch.from_numpy(arrays["y"])
        self._y = self._y.long() if self._y.dtype in (torch.int32, torch.uint8) else self._y
        self._batch_size, self._shuffled = batch_size, shuffled

    def __iter__(self) -> Any:
        count = len(self._y)
        order = torch.randperm(count) if self._shuffled else torch.arange(count)
        for chosen in order.split(self._batch_size):
            yield self._x[chosen], self._y[chosen]


def main(task: Task) -> None:
    """Train, and write the report."""
    torch.manual_seed(task.seed)
    compiled = json.loads((task.folder / "compiled.json").read_text(encoding="utf-8"))
    stored = np.load(task.folder / "weights.npz")
    model = build(task.line, [stored[name] for name in sorted(stored.files)])
    run = torch.compile(model) if task.options["compiled"] else model
    half = torch.autocast("cpu", torch.bfloat16, enabled=task.options["precision"] == "bfloat16")
    optimizer = torch.optim.Adam(model.parameters(), lr=compiled["rate"], eps=1e-7, fused=True)
    measure = _losses(compiled["loss"])
    train, validation = (_data(task, name) for name in ("train", "validation"))
    report = Report(task.started)
    _check_same(
        model, next(iter(validation))[0], np.load(task.folder / "output.npy"),
        ROUNDING if isinstance(validation, Arrays) else SCALED,
    )  # fmt: skip
    for _ in range(task.epochs):
        began = time.monotonic()
        total, right, count = torch.zeros(()), torch.zeros(()), 0
        for x, y in train:
            optimizer.zero_grad(set_to_none=True)
            with half:
                output = run(x)
            output = output.float()
            loss = measure(output, y)
            loss.backward()
            optimizer.step()
            total += loss.detach() * len(y)
            right += _right(output.detach(), y)  # the metric that the others count too
            count += len(y)
        mean = float(total) / count
        report.trained(time.monotonic() - began, mean)
        with torch.no_grad(), half:
            report.validation_losses.append(_mean_loss(run, measure, validation))
    report.write(task.out)


def _check_same(model: Any, batch: Any, expected: Any, most: float) -> None:
    """Exit unless the model returns for a batch what Keras' model of the same weights does."""
    with torch.no_grad():
        error = np.abs(model(batch).numpy() - expected).mean() / expected.std()
    if not error < most:
        sys.exit(f"another model than Keras': its first outputs differ by {error:.1%}")


def _data(task: Task, name: str) -> Any:
    arrays = dict(np.load(task.folder / f"{name}.npz"))
    shuffled = name == "train"
    if arrays["x"].dtype.kind == "U":
        return torch.utils.data.DataLoader(
            Pictures(arrays, mirrored=shuffled), task.batch_size, shuffle=shuffled,
            num_workers=2, persistent_workers=True,
        )  # fmt: skip
    return Arrays(arrays, task.batch_size, shuffled=shuffled)


def _losses(name: str) -> Any:
    if name == "sparse_categorical_crossentropy":
        return lambda output, y: functional.cross_entropy(output.flatten(0, -2), y.flatten())
    return functional.mse_loss


def _right(output: Any, y: Any) -> Any:
    if y.is_floating_point():
        return (output - y).abs().sum()
    return (output.argmax(-1) == y).sum()


def _mean_loss(model: Any, measure: Any, batches: Any) -> float:
    total, count = 0.0, 0
    for x, y in batches:
        total += float(measure(model(x).float(), y)) * len(y)
        count += len(y)
    return total / count


if __name__ == "__main__":
    main(read_task())
