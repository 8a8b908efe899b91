"""Wrong options, refused before anything is loaded."""

import pytest
from tfopt_workloads import (
    clipart_jpeg,
    clipart_transfer,
    fashion_efficientnet,
    fashion_mnist,
    flights,
    flights_features,
    locations,
    stdlib_text,
    weather,
)

from tfopt_core.errors import WorkloadError

# By workload and option: values that it refuses.
WRONG = {
    fashion_mnist: {
        "examples": (0, 10_001, 5.0, True), "classes": (1, 11, "5"), "width": (0, 1.5),
        "source": ("ful", 3),
    },
    fashion_efficientnet: {"examples": (10_001,), "held_out": (10_000,)},
    clipart_transfer: {"examples": (0, 584), "train_base": ("yes",)},
    flights_features: {
        "examples": (80_001,), "batch_size": (0,), "prepare": ("map",), "width": (0,),
    },
    flights: {"examples": (-1, 80_001), "width": (0,), "prepare": ("mapp",)},
    clipart_jpeg: {
        "examples": (0, 1_184), "classes": (1, 9), "size": (15,), "ratio": (3, True),
        "augment": (1,), "width": (0,), "folder": (7, ""), "seed": (-1,),
    },
    weather: {"examples": (0, 20_000), "hours": (1, 241), "ahead": (0, 6.0), "width": (-2,)},
    stdlib_text: {
        "examples": (0, 10_000_000), "classes": (14,), "tokens": (7,), "width": ("2",),
        "blocks": (0,),
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("build", "option", "value"),
    [
        (workload.build, option, value)
        for workload, options in WRONG.items()
        for option, values in options.items()
        for value in values
    ],
)
def test_a_wrong_option_is_named_with_its_value(build, option, value):
    with pytest.raises(WorkloadError, match=f'option "{option}" takes .*, got {value!r}'):
        build(**{option: value})


def test_more_examples_than_the_classes_have_names_the_limit():
    with pytest.raises(WorkloadError, match="from 1 to 3,000, got 3001"):
        fashion_mnist.build(classes=3, examples=3_001)


def test_a_misspelt_source_is_guessed():
    with pytest.raises(WorkloadError, match='did you mean "bundled"'):
        fashion_mnist.build(source="bundeld")


def test_a_missing_full_source_names_its_package(tmp_path, monkeypatch):
    monkeypatch.setattr(locations, "FASHION_MNIST_FOLDER", tmp_path)
    with pytest.raises(WorkloadError, match="apt-get install dataset-fashion-mnist"):
        fashion_mnist.build(source="full")
