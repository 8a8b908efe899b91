"""The seven models as a user of PyTorch writes them, begun with the weights of Keras' models.

Pictures come as (n, height, width, channels); seen as (n, channels, height, width) they lie in
memory as `channels_last`, which is the faster layout on a CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

EPSILON = 1e-3  # of Keras' layer normalization


class Planes(nn.Module):
    """Sees (n, height, width, channels) as (n, channels, height, width)."""

    def forward(self, pictures: Any) -> Any:
        return pictures.permute(0, 3, 1, 2)


class Rows(nn.Module):
    """Flattens (n, channels, height, width) in Keras' order: height, width, channels."""

    def forward(self, planes: Any) -> Any:
        return planes.permute(0, 2, 3, 1).flatten(1)


class SamePadding(nn.Module):
    """Pads as "same" does for a kernel and a stride: the odd row and column at the end."""

    def __init__(self, kernel: int, stride: int, value: float = 0.0) -> None:
        super().__init__()
        self._kernel, self._stride, self._value = kernel, stride, value

    def forward(self, planes: Any) -> Any:
        sides: list[int] = []
        for size in (planes.shape[3], planes.shape[2]):
            missing = max((-(-size // self._stride) - 1) * self._stride + self._kernel - size, 0)
            sides += [missing // 2, missing - missing // 2]
        return nn.functional.pad(planes, sides, value=self._value)


class Negative(nn.Module):
    """Turns pictures to their negatives."""

    def forward(self, pictures: Any) -> Any:
        return 1.0 - pictures


class Lstm(nn.Module):
    """An LSTM of 64 units, and a dense layer on its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.change = nn.LSTM(10, 64, batch_first=True), nn.Linear(64, 1)

    def forward(self, hours: Any) -> Any:
        return self.change(self.lstm(hours)[0][:, -1])


class Block(nn.Module):
    """A Transformer block whose norms come first."""

    def __init__(self, units: int, heads: int) -> None:
        super().__init__()
        # in the order of Keras' weights
        self.first = nn.LayerNorm(units, eps=EPSILON)
        self.attention = nn.MultiheadAttention(units, heads, batch_first=True)
        self.second = nn.LayerNorm(units, eps=EPSILON)
        self.wide, self.narrow = nn.Linear(units, 2 * units), nn.Linear(2 * units, units)

    def forward(self, hidden: Any) -> Any:
        normal = self.first(hidden)
        hidden = hidden + self.attention(normal, normal, normal, need_weights=False)[0]
        return hidden + self.narrow(nn.functional.gelu(self.wide(self.second(hidden))))


class Transformer(nn.Module):
    """Embeddings of words and places, two blocks, the mean over places, a dense layer."""

    def __init__(self, words: int, tokens: int, units: int, heads: int, classes: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, units), nn.Embedding(tokens, units)
        self.blocks = nn.Sequential(*(Block(units, heads) for _ in range(2)))
        self.norm, self.logits = nn.LayerNorm(units, eps=EPSILON), nn.Linear(units, classes)
        self.register_buffer("order", torch.arange(tokens))

    def forward(self, text: Any) -> Any:
        hidden = self.words(text) + self.places(self.order)
        return self.logits(self.norm(self.blocks(hidden)).mean(1))


class Characters(nn.Module):
    """A GRU of 128 units over characters, and a dense layer on each state."""

    def __init__(self, characters: int, width: int, units: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, width)
        self.gru = nn.GRU(width, units, batch_first=True)
        self.logits = nn.Linear(units, characters)

    def forward(self, text: Any) -> Any:
        return self.logits(self.gru(self.embedding(text))[0])


def build(line: str, weights: Sequence[Any]) -> Any:
    """Return the model of a line of the race with these weights of Keras' model, in its order."""
    given = [torch.from_numpy(array) for array in weights]
    model = _MODELS[line](given)
    left = iter(given)
    with torch.no_grad():
        for part in model.modules():
            _load(part, left)
    assert next(left, None) is None, "weights are left over"
    return model


def _mlp(given: list[Any]) -> Any:
    return nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)
    )


def _cnn(given: list[Any]) -> Any:
    return nn.Sequential(
        Planes(),
        nn.Conv2d(3, 32, 3, padding="same"), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding="same"), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 64, 3, padding="same"), nn.ReLU(),
        Rows(), nn.Linear(8 * 8 * 64, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip


def _jpeg(given: list[Any]) -> Any:
    parts: list[Any] = [Negative(), Planes()]
    channels = 3
    for wider, kernel in ((24, 5), (48, 3), (96, 3), (128, 3)):
        parts += [SamePadding(kernel, 2), nn.Conv2d(channels, wider, kernel, 2), nn.ReLU()]
        channels = wider
    flat, classes = given[-4].shape[0], given[-1].shape[0]
    return nn.Sequential(
        *parts, nn.MaxPool2d(2), Rows(), nn.Linear(flat, 64), nn.ReLU(), nn.Linear(64, classes)
    )


def _autoencoder(given: list[Any]) -> Any:
    return nn.Sequential(
        Planes(),
        SamePadding(3, 2), nn.Conv2d(1, 32, 3, 2), nn.ReLU(),
        SamePadding(3, 2), nn.Conv2d(32, 64, 3, 2), nn.ReLU(),
        Transposed(64, 32), nn.ReLU(),
        Transposed(32, 1), Pictures(),
    )  # fmt: skip


class Transposed(nn.ConvTranspose2d):
    """A transposed convolution of kernel 3 that doubles the sides, as Keras' "same" does."""

    def __init__(self, channels: int, fewer: int) -> None:
        super().__init__(channels, fewer, 3, 2)

    def forward(self, planes: Any, output_size: Any = None) -> Any:
        height, width = planes.shape[2:]
        return super().forward(planes)[:, :, : 2 * height, : 2 * width]


class Pictures(nn.Module):
    """Sees (n, channels, height, width) as (n, height, width, channels)."""

    def forward(self, planes: Any) -> Any:
        return planes.permute(0, 2, 3, 1)


def _transformer(given: list[Any]) -> Any:
    (words, units), (tokens, _) = given[0].shape, given[1].shape
    return Transformer(words, tokens, units, 4, given[-1].shape[0])


def _characters(given: list[Any]) -> Any:
    characters, width = given[0].shape
    return Characters(characters, width, given[2].shape[0])


_MODELS = {
    "mlp": _mlp, "cnn": _cnn, "lstm": lambda given: Lstm(), "jpeg": _jpeg,
    "transformer": _transformer, "autoencoder": _autoencoder, "gru": _characters,
}  # fmt: skip


def _load(part: Any, left: Any) -> None:
    """Give one layer its weights, turned from Keras' layout to PyTorch's."""
    match part:
        case nn.MultiheadAttention():
            _load_attention(part, left)
        case nn.modules.linear.NonDynamicallyQuantizableLinear():
            pass  # of attention, which has loaded it
        case nn.Linear():
            part.weight.copy_(next(left).T)
            part.bias.copy_(next(left))
        case nn.Conv2d() | nn.ConvTranspose2d():
            # height, width, in, out; transposed, of both systems, out and in change places
            part.weight.copy_(next(left).permute(3, 2, 0, 1))
            part.bias.copy_(next(left))
        case nn.Embedding():
            part.weight.copy_(next(left))
        case nn.LayerNorm():
            part.weight.copy_(next(left))
            part.bias.copy_(next(left))
        case nn.LSTM():
            part.weight_ih_l0.copy_(next(left).T)
            part.weight_hh_l0.copy_(next(left).T)
            part.bias_ih_l0.copy_(next(left))
            part.bias_hh_l0.zero_()
        case nn.GRU():
            # Keras' gates are update, reset, candidate; PyTorch's reset, update, candidate
            part.weight_ih_l0.copy_(_reset_first(next(left).T))
            part.weight_hh_l0.copy_(_reset_first(next(left).T))
            both = next(left)
            part.bias_ih_l0.copy_(_reset_first(both[0]))
            part.bias_hh_l0.copy_(_reset_first(both[1]))


def _reset_first(gates: Any) -> Any:
    update, reset, candidate = gates.chunk(3)
    return torch.cat([reset, update, candidate])


def _load_attention(part: Any, left: Any) -> None:
    kernels, biases = [], []
    for _ in range(3):  # query, key, value: (units, heads, size) and (heads, size)
        kernels.append(next(left).flatten(1).T)
        biases.append(next(left).flatten())
    # Keras keeps query, key, value in this order, as PyTorch does
    part.in_proj_weight.copy_(torch.cat(kernels))
    part.in_proj_bias.copy_(torch.cat(biases))
    part.out_proj.weight.copy_(next(left).flatten(0, 1).T)
    part.out_proj.bias.copy_(next(left))
