"""Wrong options, refused before anything is loaded."""

import pytest
from tfopt_workloads import fashion_mnist, flights, locations

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
