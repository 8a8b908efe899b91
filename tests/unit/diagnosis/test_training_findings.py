"""Findings about a training: its callbacks and steps, its epochs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfopt_core.diagnosis.results import EpochPart
from tfopt_core.diagnosis.training_findings import epoch_findings

X = np.random.default_rng(1).random((16, 4, 4, 1), "float32")


def flat() -> list[Any]:
    import keras

    return [keras.layers.Flatten()]


def findings_of(
    folder: Path, layers: Any, *, epochs: int = 1, batch_size: int = 8, computes: float = 0.01
) -> list[Any]:
    """What the model of these layers shows, of a step of 40 ms."""
    import keras
    from support.in_process import build_here

    from tfopt_core import Workload
    from tfopt_core.diagnosis.results import StepPart
    from tfopt_core.diagnosis.step_parts import Parts
    from tfopt_core.diagnosis.training_findings import model_findings

    def build_model() -> Any:
        return keras.Sequential([keras.Input(X.shape[1:]), *layers(), keras.layers.Dense(1)])

    y = X.reshape(len(X), -1)[:, :1]
    workload = Workload(train=(X, y), build_model=build_model, optimizer="sgd", loss="mse")
    built = build_here(workload, folder=folder, epochs=epochs, batch_size=batch_size)
    part, compute = (StepPart(share=share, low=share, high=share) for share in (0.01, computes))
    parts = Parts(
        step_seconds=0.04, input=part, dispatch=part, compute=compute, data_seconds=0.0,
        dispatch_known=True,
    )  # fmt: skip
    return list(model_findings(built, parts, None))


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("epochs", "batch_size", "computes", "found"),
    [(1, 16, 0.01, 1), (2, 16, 0.01, 0), (1, 8, 0.01, 0), (1, 16, 0.8, 0)],
)
def test_a_fit_for_one_batch_that_mostly_prepares_it_is_named_with_what_to_call(
    tmp_path: Path, epochs: int, batch_size: int, computes: float, found: int
) -> None:
    given = {"epochs": epochs, "batch_size": batch_size, "computes": computes}
    every = findings_of(tmp_path, flat, **given)
    named = [one for one in every if one.kind == "fit-for-a-batch"]
    assert len(named) == found
    assert all("40 ms a call, of which the update takes 0.4 ms" in one.detail for one in named)


@pytest.mark.tensorflow
def test_layers_that_augment_within_the_model_are_named(tmp_path: Path) -> None:
    def augmenting() -> list[Any]:
        import keras

        class Mine(keras.layers.RandomRotation):
            """Derived, as a script may do."""

        inner = keras.Sequential([keras.layers.RandomFlip(), Mine(0.1), keras.layers.Rescaling(2)])
        return [inner, *flat()]

    [found] = [one for one in findings_of(tmp_path, augmenting) if "augment" in one.kind]
    assert found.detail.startswith("Mine, RandomFlip: each step waits")
    assert not [one for one in findings_of(tmp_path, flat) if "augment" in one.kind]


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("shape", "batch_size", "xla", "why"),
    [
        ((4, 4, 1), 5, True, "the last batch of an epoch is smaller"),
        ((4, 4, 1), 8, True, ""),
        ((None, 4, 1), 8, True, "batches come in several shapes"),
        ((4, 4, 1), 5, False, ""),
    ],
)
def test_shapes_for_which_xla_compiles_a_step_anew_are_known_beforehand(
    tmp_path: Path, shape: tuple[int | None, ...], batch_size: int, xla: bool, why: str
) -> None:
    import keras
    import tensorflow as tf
    from support.in_process import build_here

    from tfopt_core import Workload
    from tfopt_core.diagnosis.training_findings import _why_compiled_anew

    def build_model() -> Any:
        layers = [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(1)]
        return keras.Sequential([keras.Input(shape), *layers])

    data = tf.data.Dataset.from_tensor_slices((X, X[:, 0, 0]))
    data = data.map(lambda x, y: (tf.raw_ops.PlaceholderWithDefault(input=x, shape=shape), y))
    workload = Workload(train=data, build_model=build_model, optimizer="sgd", loss="mse")
    built = build_here(workload, folder=tmp_path, batch_size=batch_size)
    built.model.jit_compile = xla
    assert _why_compiled_anew(built) == why


# What takes a tenth of an epoch besides its steps is found, with what shortens it


def found(*parts, steps=100):
    # 1 s of steps
    return list(epoch_findings(parts, 0.01, steps))


def test_what_takes_less_than_a_tenth_is_no_finding():
    assert found(EpochPart(name="validation", seconds=0.1)) == []
    assert found(EpochPart(name="Plots", note="not timed")) == []


def test_without_a_number_of_steps_nothing_is_known():
    assert found(EpochPart(name="validation", seconds=9.0), steps=None) == []


def test_a_costly_validation_is_named_with_its_mends():
    (one,) = found(EpochPart(name="validation", seconds=1.0))
    assert (one.kind, one.split) == ("costly-validation", "validation")
    assert one.detail == "it takes 50% of an epoch"
    assert "validation_freq" in one.mend


def test_a_callback_is_found_by_name_with_the_mend_of_its_class():
    save, plots = found(
        EpochPart(name="ModelCheckpoint 2", seconds=0.5), EpochPart(name="Plots", seconds=0.5)
    )
    assert save.detail == "ModelCheckpoint 2 takes 25% of an epoch"
    assert "save_freq" in save.mend
    assert "no plugin shortens it" in plots.mend
