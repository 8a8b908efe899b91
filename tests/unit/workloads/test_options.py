"""Wrong options, refused before anything is loaded."""

import pytest
from tfopt_workloads import (
    clipart_jpeg,
    fashion_mnist,
    flights,
    locations,
    stdlib_text,
    weather,
)

from tfopt_core.errors import WorkloadError


@pytest.mark.parametrize(
    ("build", "option", "value"),
    [
        (fashion_mnist.build, "examples", 0),
        (fashion_mnist.build, "examples", 10_001),
        (fashion_mnist.build, "examples", 5.0),
        (fashion_mnist.build, "examples", True),
        (fashion_mnist.build, "classes", 1),
        (fashion_mnist.build, "classes", 11),
        (fashion_mnist.build, "classes", "5"),
        (fashion_mnist.build, "width", 0),
        (fashion_mnist.build, "width", 1.5),
        (fashion_mnist.build, "source", "ful"),
        (fashion_mnist.build, "source", 3),
        (flights.build, "examples", -1),
        (flights.build, "examples", 80_001),
        (flights.build, "width", 0),
        (flights.build, "prepare", "mapp"),
        (clipart_jpeg.build, "examples", 0),
        (clipart_jpeg.build, "examples", 1_184),
        (clipart_jpeg.build, "classes", 1),
        (clipart_jpeg.build, "classes", 9),
        (clipart_jpeg.build, "size", 15),
        (clipart_jpeg.build, "ratio", 3),
        (clipart_jpeg.build, "ratio", True),
        (clipart_jpeg.build, "augment", 1),
        (clipart_jpeg.build, "width", 0),
        (clipart_jpeg.build, "folder", 7),
        (clipart_jpeg.build, "folder", ""),
        (clipart_jpeg.build, "seed", -1),
        (weather.build, "examples", 0),
        (weather.build, "examples", 20_000),
        (weather.build, "hours", 1),
        (weather.build, "hours", 241),
        (weather.build, "ahead", 0),
        (weather.build, "ahead", 6.0),
        (weather.build, "width", -2),
        (stdlib_text.build, "examples", 0),
        (stdlib_text.build, "examples", 10_000_000),
        (stdlib_text.build, "classes", 14),
        (stdlib_text.build, "tokens", 7),
        (stdlib_text.build, "width", "2"),
        (stdlib_text.build, "blocks", 0),
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
