"""Explain why a script did not train by `fit`, and what to do about it. No TensorFlow."""

from __future__ import annotations

import sys

import attrs

from tfopt_core.training.scripts.running import ScriptEnd

# What tfopt offers for a training that does not call `fit`.
IN_PYTHON = (
    "tfopt_core.optimize(dataset, recipe) rewrites its data, and tfopt_core.stacked(recipe) sets "
    "precision and strategy around it"
)
# How such a training is measured.
AS_OWN_LOOP = (
    'to measure the loop as a whole, add loop = "own" to [workload]; tfopt apply SCRIPT does so'
)
BOTH = (
    "the script trains in a loop of its own and by fit() too, and its loop alone is measured: take "
    'loop = "own" out of [workload] to measure its calls of fit, or the calls out of the script'
)
NO_OPTIMIZER = (
    "the script computes gradients (tf.GradientTape) and never calls an optimizer of Keras, whose "
    "updates tfopt counts as the steps of a loop of the script's own; update the weights by "
    "optimizer.apply(gradients, variables)"
)


@attrs.frozen(kw_only=True)
class TrainingCalls:
    """How often a script called functions that train a model.

    :param fits: calls of Keras' `fit`.
    :param updates: updates of variables by an optimizer outside of them.
    :param batches_alone: calls of `train_on_batch` outside of them.
    :param tapes: gradient tapes that were entered outside of them, as far as that was watched.
    """

    fits: int = 0
    updates: int = 0
    batches_alone: int = 0
    tapes: int = 0


def why_nothing_trained(end: ScriptEnd, calls: TrainingCalls) -> str:
    """Return why there was no call of `fit`, in one sentence."""
    if end.read_input and end.error is not None and "EOFError" in end.error:
        return (
            f"{end.error}; the script reads standard input, which is empty in runs: take what "
            'it reads from its arguments (args = ["..."])'
        )
    if isinstance(end.raised, ModuleNotFoundError):
        return (
            f"{end.error}; install what it needs where tfopt is installed (pip of {sys.executable})"
        )
    if end.error is not None:
        if calls.fits:
            return f"the script failed in or after fit {calls.fits}: {end.error}"
        return f"the script failed before it called fit(): {end.error}"
    if calls.fits:
        return "the script's calls of fit() had no data and trained nothing"
    if end.exited is not None:
        return f"the script ended by {end.exited} before it called fit()"
    if calls.batches_alone:
        return (
            f"the script trains by train_on_batch ({calls.batches_alone:,} calls) in a loop of its "
            f"own and never calls fit(); {AS_OWN_LOOP}; {IN_PYTHON}"
        )
    if calls.updates:
        return (
            "the script trains in a loop of its own (optimizer.apply_gradients) and never calls "
            f"fit(); {AS_OWN_LOOP}; {IN_PYTHON}"
        )
    if calls.tapes:
        return NO_OPTIMIZER
    if "tf_keras" in sys.modules:
        return (
            "the script trains with legacy Keras (tf_keras), which has its own fit(); port it to "
            f"Keras 3, or: {IN_PYTHON}"
        )
    if "keras" not in sys.modules:
        return "the script never imports Keras, so there is no training to look at"
    return "the script never calls fit(), so there is no training to look at"
