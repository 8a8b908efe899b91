"""The workload `clipart-jpeg`: files, splits, decoding, mirroring."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from support.lazy_modules import keras, tf
from tfopt_workloads import clipart_jpeg, folders

from tfopt_core.data.lower import lower
from tfopt_core.errors import WorkloadError


@pytest.fixture
def folder(tmp_path):
    """Two classes of ten JPEG files, 40 wide and 20 high, black on the left, white on the right."""
    picture = np.zeros((20, 40, 3), np.uint8)
    picture[:, 20:] = 255
    content = tf.io.encode_jpeg(picture, quality=95).numpy()
    for name in ("bees", "ants"):
        (tmp_path / name).mkdir()
        for number in range(10):
            (tmp_path / name / f"{number}.jpg").write_bytes(content)
    (tmp_path / "notes.txt").write_text("no class")
    (tmp_path / "empty").mkdir()
    return tmp_path


def test_no_picture_is_in_both_splits_and_each_is_in_one():
    workload = clipart_jpeg.build()
    train, validation = (
        set(plan.source.value[0].tolist()) for plan in (workload.train, workload.validation)
    )
    assert not train & validation
    assert len(train | validation) == 1_493
    assert len(validation) / 1_493 == pytest.approx(0.2, abs=0.02)


def test_examples_cut_the_training_data_evenly_and_keep_the_validation_data():
    workload = clipart_jpeg.build(examples=80)
    assert Counter(workload.train.source.value[1].tolist()) == dict.fromkeys(range(8), 10)
    assert workload.validation.source.count == 310


def test_classes_cut_both_splits_and_the_output_layer():
    workload = clipart_jpeg.build(classes=3)
    assert set(workload.train.source.value[1].tolist()) == {0, 1, 2}
    assert set(workload.validation.source.value[1].tolist()) == {0, 1, 2}
    assert workload.build_model().get_layer("logits").units == 3


def test_only_training_pictures_are_mirrored_and_augment_false_leaves_that_out():
    names = [
        [stage.function.__name__ for stage in plan.stages[1:]]
        for plan in (
            clipart_jpeg.build().train,
            clipart_jpeg.build().validation,
            clipart_jpeg.build(augment=False).train,
        )
    ]
    decode = "read_and_decode"
    assert names == [[decode, "mirror_at_random"], [decode], [decode]]


def test_the_same_seed_mirrors_the_same_pictures(folder):
    def flips(**options):
        plan = clipart_jpeg.build(folder=str(folder), size=16, **options).train
        return [bool(picture[8, 0, 0] > 0.5) for picture, _ in lower(plan).repeat(4)]

    assert flips(seed=3) == flips(seed=3) != flips(seed=4)
    keras.utils.set_random_seed(1)
    first = flips()
    assert flips() != first
    keras.utils.set_random_seed(1)
    assert flips() == first


def test_another_folder_is_read_with_its_own_classes(folder):
    workload = clipart_jpeg.build(folder=str(folder))
    assert workload.train.source.count == 16
    assert workload.validation.source.count == 4
    assert workload.build_model().get_layer("logits").units == 2


def test_a_folder_that_is_not_there_is_a_workload_error(tmp_path):
    with pytest.raises(WorkloadError, match=r"none.*cannot be read: No such file"):
        clipart_jpeg.build(folder=str(tmp_path / "none"))


def test_a_class_with_too_few_pictures_is_named(folder):
    for number in range(6):
        (folder / "bees" / f"{number}.jpg").unlink()
    with pytest.raises(WorkloadError, match=r'class "bees" .* at least 5 pictures, it has 4'):
        clipart_jpeg.build(folder=str(folder))


def test_every_class_has_pictures_in_both_splits():
    for count in (*range(5, 60), 190, 1_000):
        train, held_out = folders.split([Path(f"{number:04d}.jpg") for number in range(count)])
        assert len(train) + len(held_out) == count
        assert len(train) > len(held_out) > 0
        if count >= 100:
            assert len(held_out) / count == pytest.approx(0.2, abs=0.02)
