"""The script that makes a folder of JPEG files of PNG files, on small originals."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
from support.lazy_modules import tf
from support.real_process import python

pytestmark = pytest.mark.tensorflow

TOOL = Path(__file__).parents[3] / "workloads" / "tools" / "build_clipart.py"


def run(*arguments):
    return python(TOOL, *map(str, arguments), cwd=TOOL.parent)


def write_png(path, array):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(tf.io.encode_png(array).numpy())


def noise(seed, height=20, width=40, channels=3):
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), np.uint8)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The originals, and what the script made of them."""
    folder = tmp_path_factory.mktemp("originals")
    for number in range(4):
        write_png(folder / "animals" / f"{number}.png", noise(number))
    write_png(folder / "animals" / "bugs" / "bee.png", noise(9, channels=1))
    write_png(folder / "animals" / "a_twin.png", noise(0))
    transparent = np.zeros((20, 40, 4), np.uint8)
    transparent[:, :20, 3] = 255  # black on the left, on the right whatever lies below
    write_png(folder / "food" / "half.png", transparent)
    write_png(folder / "food" / "blank.png", np.full((20, 40, 3), 255, np.uint8))
    write_png(folder / "food" / "huge.png", noise(5, 1_001, 1_000))
    (folder / "food" / "link.png").symlink_to(folder / "animals" / "1.png")
    (folder / "food" / "damaged.png").write_bytes(b"no png")
    write_png(folder / "tools" / "hammer.png", noise(6))
    output = folder / "built"
    done = run(folder, "--output", output, "--classes", 2, "--longest-side", 64)
    assert done.code == 0, done.err
    return folder, output, done.out


def files(output):
    return sorted(path.relative_to(output).as_posix() for path in output.rglob("*.jpg"))


def test_links_blanks_twins_and_large_and_damaged_pictures_are_left_out(built):
    _, output, _ = built
    animals = [f"animals/{number:04d}.jpg" for number in range(5)]
    assert files(output) == [*animals, "food/0000.jpg"]


def test_only_the_classes_that_hold_the_most_are_taken(built):
    assert not (built[1] / "tools").exists()


def test_transparency_is_laid_on_white_and_the_longer_side_is_as_asked(built):
    picture = tf.io.decode_jpeg((built[1] / "food" / "0000.jpg").read_bytes()).numpy()
    assert picture.shape == (32, 64, 3)
    assert picture[:, :28].max() < 20
    assert picture[:, 36:].min() > 235


@pytest.mark.thorough
def test_the_same_originals_give_the_same_bytes(built, tmp_path):
    folder, output, printed = built
    again = run(folder, "--output", tmp_path / "b", "--classes", 2, "--longest-side", 64)
    assert again.out.splitlines()[-1] == printed.splitlines()[-1]
    digests = [
        {name: hashlib.sha256((root / name).read_bytes()).digest() for name in files(root)}
        for root in (output, tmp_path / "b")
    ]
    assert digests[0] == digests[1]


def test_the_script_prints_counts_and_a_digest(built):
    assert "animals: 5 pictures" in built[2]
    assert "6 files" in built[2]
    assert "SHA-256 of the contents: " in built[2]


@pytest.mark.thorough
def test_subfolders_are_taken_in_turn(built, tmp_path):
    done = run(built[0], "--output", tmp_path / "b", "--classes", 1, "--per-class", 2)
    assert done.code == 0, done.err
    # in the order of the paths "bugs/bee.png" comes last
    bee = tf.io.decode_jpeg((tmp_path / "b" / "animals" / "0001.jpg").read_bytes())
    expected = tf.image.resize(noise(9, channels=1), (96, 192), antialias=True)
    assert abs(tf.cast(bee, tf.float32) - expected).numpy().mean() < 5


def test_an_output_folder_that_holds_other_files_is_not_emptied(built, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    done = run(built[0], "--output", tmp_path)
    assert done.code != 0
    assert "would be emptied" in done.err
    assert (tmp_path / "notes.txt").exists()


def test_missing_originals_name_the_package(tmp_path):
    done = run(tmp_path / "none", "--output", tmp_path / "b")
    assert done.code != 0
    assert "apt-get install openclipart-png" in done.err
