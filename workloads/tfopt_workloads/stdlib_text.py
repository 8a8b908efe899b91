"""The workload `stdlib-text`: which package of Python's standard library is a snippet from?

A small Transformer: many small products of matrices, layer norms and softmaxes, which is where a
compiler or another precision shows; nothing is computed in the input pipeline.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfopt_core import DataPlan, Workload, WorkloadError
from tfopt_workloads import stdlib_source
from tfopt_workloads.options import whole_number
from tfopt_workloads.stdlib_source import PACKAGES, VOCABULARY

EXAMPLES = 20_000
VALIDATION_EXAMPLES = 4_000

_WIDTH = 64
_HEADS = 4


def build(
    examples: int = EXAMPLES,
    classes: int = 8,
    tokens: int = 64,
    width: int = 1,
    blocks: int = 2,
) -> Workload:
    """20,000 + 4,000 snippets of the source of the running Python, and a small Transformer.

    Snippets are spread evenly over the files of their package and overlap; each package has as
    many. Whole files are held out for validation, so no snippet overlaps one of the other part.
    The network reaches an accuracy of 0.62 on them; guessing has 0.125.

    :param examples: the number of training snippets; there are always 4,000 to validate on.
    :param classes: how many packages, the largest first, 2 to 13.
    :param tokens: the length of a snippet in words, numbers and signs, 8 to 512.
    :param width: multiplies the width of the blocks.
    :param blocks: the number of Transformer blocks.
    :raises WorkloadError: for a wrong option, and for a Python without the source of its library.
    """
    examples = whole_number("examples", examples, low=1)
    classes = whole_number("classes", classes, low=2, high=len(PACKAGES))
    tokens = whole_number("tokens", tokens, low=8, high=512)
    width = whole_number("width", width, low=1)
    blocks = whole_number("blocks", blocks, low=1)
    packages = stdlib_source.read_packages(PACKAGES[:classes])
    most = min(len(snippet_starts(package.train, tokens)) for package in packages)
    held_out = min(len(snippet_starts(package.validation, tokens)) for package in packages)
    if not (most and held_out):
        raise WorkloadError(
            f'the files in "{stdlib_source.stdlib_folder()}" are too short for snippets of '
            f"{tokens} tokens"
        )
    whole_number("examples", examples, low=1, high=most * classes)

    def build_model() -> Any:
        return small_transformer(classes, tokens, width, blocks)

    def slow_adam() -> Any:
        # snippets overlap; at Adam's 1e-3 the network knows the training files by heart in an epoch
        return keras.optimizers.Adam(2e-4)

    import keras

    return Workload(
        train=_plan([package.train for package in packages], tokens, examples),
        validation=_plan([package.validation for package in packages], tokens, VALIDATION_EXAMPLES),
        build_model=build_model,
        optimizer=slow_adam,
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        quality_metric="val_accuracy",
        epochs=3,
        batch_size=32,
        baseline=(
            "stock fit over plain tf.data: text turned to numbers beforehand, shuffled anew each "
            "epoch, batched; no prefetch"
        ),
    )


def snippet_starts(files: Sequence[Any], tokens: int) -> Any:
    """Where a snippet may begin in the files one after the other, (starts,) int64.

    A snippet lies within a file; a file shorter than a snippet has none.
    """
    import numpy as np

    ends = np.cumsum([len(file) for file in files])
    starts = [
        np.arange(end - len(file), end - tokens + 1) for file, end in zip(files, ends, strict=True)
    ]
    return np.concatenate([np.empty(0, np.int64), *starts])


def snippets(files: Sequence[Any], tokens: int, count: int) -> Any:
    """So many snippets spread evenly over the files, (count, tokens) int32."""
    import numpy as np

    starts = snippet_starts(files, tokens)
    taken = starts[np.linspace(0, len(starts) - 1, count).astype(int)]
    return np.concatenate(files)[taken[:, None] + np.arange(tokens)]


def _plan(packages: Sequence[Sequence[Any]], tokens: int, examples: int) -> DataPlan:
    import numpy as np

    share, rest = divmod(examples, len(packages))
    counts = [share + (label < rest) for label in range(len(packages))]
    texts = [snippets(files, tokens, count) for files, count in zip(packages, counts, strict=True)]
    labels = np.repeat(np.arange(len(packages), dtype=np.int32), counts)
    return DataPlan.from_arrays(np.concatenate(texts), labels)


def small_transformer(classes: int, tokens: int, width: int = 1, blocks: int = 2) -> Any:
    """Embeddings of words and places, Transformer blocks, the mean over places, a dense layer.

    Norms come before attention and before the dense part of a block (Xiong et al. 2020,
    arXiv:2002.04745), so it needs no warm-up. Nothing random, layers of Keras alone.
    """
    import keras
    from keras import layers, ops

    units = _WIDTH * width
    text = keras.Input((tokens,), dtype="int32", name="text")
    places = ops.cumsum(ops.ones_like(text), axis=1) - 1
    hidden = layers.Add()(
        [
            layers.Embedding(VOCABULARY, units, name="words")(text),
            layers.Embedding(tokens, units, name="places")(places),
        ]
    )
    for _ in range(blocks):
        normal = layers.LayerNormalization()(hidden)
        attended = layers.MultiHeadAttention(_HEADS, units // _HEADS)(normal, normal)
        hidden = layers.Add()([hidden, attended])
        normal = layers.LayerNormalization()(hidden)
        wide = layers.Dense(2 * units, activation="gelu")(normal)
        hidden = layers.Add()([hidden, layers.Dense(units)(wide)])
    hidden = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(hidden))
    logits = layers.Dense(classes, name="logits")(hidden)
    return keras.Model(text, logits, name="small_transformer")
