"""A contestant: PyTorch, eager or compiled.

    python -m peers.with_torch TASK.json

Options: `compiled`, `precision` ("float32" or "bfloat16" by autocast). Arrays stay tensors in
memory that are indexed by a random permutation, which is faster than a `DataLoader`; JPEG files
come through one with two workers.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from peers.contestant import EpochTimer, Patience, Report, Task, run
from peers.files import Files
from peers.pictures import picture
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


def train(task: Task, patience: Patience | None) -> Report:
    """Train and return the report; with a patience until that is spent."""
    torch.compiler.reset()
    torch.manual_seed(task.seed)
    files = Files(task.folder, task.seed)
    compiled = files.read_compiled()
    model = build(task.line, files.read_weights())
    step = torch.compile(model) if task.options["compiled"] else model
    half = torch.autocast("cpu", torch.bfloat16, enabled=task.options["precision"] == "bfloat16")
    optimizer = torch.optim.Adam(model.parameters(), lr=compiled["rate"], eps=1e-7, fused=True)
    measure = _losses(compiled["loss"])
    training, validation = files.read_arrays(task.examples, task.batch_size)
    batches, held_out = _data(task, training, mixed=True), _data(task, validation, mixed=False)
    timer = EpochTimer(task.started, task.epochs)
    _check_same(
        model, next(iter(held_out))[0], files.read_output(),
        ROUNDING if isinstance(held_out, Arrays) else SCALED,
    )  # fmt: skip
    for epoch in range(timer.most_epochs):
        timer.begin()
        since = time.monotonic()
        total, right, count = torch.zeros(()), torch.zeros(()), 0
        for x, y in batches:
            optimizer.zero_grad(set_to_none=True)
            with half:
                output = step(x)
            output = output.float()
            loss = measure(output, y)
            loss.backward()
            optimizer.step()
            total += loss.detach() * len(y)
            right += _right(output.detach(), y)  # the metric that the others count too
            count += len(y)
            if patience is not None:
                if not epoch and count == len(y):
                    since = time.monotonic()  # the first step compiles
                if patience.is_spent(time.monotonic() - since, epoch):
                    timer.report.cut = True
                    return timer.report
        mean, seconds = float(total) / count, timer.passed()
        with torch.no_grad(), half:
            timer.end(seconds, mean, _mean_loss(step, measure, held_out))
        if timer.is_over:
            break
    return timer.report


def _check_same(model: Any, batch: Any, expected: Any, most: float) -> None:
    """Check that the model returns for a batch what Keras' model of the same weights does.

    :raises ValueError: if it does not.
    """
    with torch.no_grad():
        error = np.abs(model(batch).numpy() - expected).mean() / expected.std()
    if not error < most:
        raise ValueError(f"another model than Keras': its first outputs differ by {error:.1%}")


def _data(task: Task, arrays: Any, *, mixed: bool) -> Any:
    """Return batches of these examples: of training data in a new order in each epoch."""
    if arrays["x"].dtype.kind == "U":
        return torch.utils.data.DataLoader(
            Pictures(arrays, mirrored=mixed), task.batch_size, shuffle=mixed,
            num_workers=2, persistent_workers=True,
        )  # fmt: skip
    return Arrays(arrays, task.batch_size, shuffled=mixed)


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
    run(train)
