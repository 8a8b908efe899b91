"""TensorFlow writes files past Python: it asks first, whether imported before or after."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SCRIPT = """
import json
import os
import sys
from pathlib import Path

if sys.argv[3] == "before":
    import tensorflow as tf

from tfopt_core.training.scripts.mirroring import CopyLimits
from tfopt_core.training.scripts.private_folder import PrivateFolder

limits = CopyLimits(copy_bytes=10, folder_entries=5)
private = PrivateFolder.make(Path(sys.argv[1]), Path(sys.argv[2]), limits=limits)
private.enter()

import keras
import tensorflow as tf

with tf.io.gfile.GFile("opened", "w") as file:
    file.write("new")
with tf.io.gfile.GFile("appended", "a") as file:
    file.write("new")
with tf.io.TFRecordWriter("records") as writer:
    writer.write(b"new")
Path("source").write_text("new")
tf.io.gfile.copy("source", "copied", overwrite=True)
tf.io.gfile.rename("source", "renamed", overwrite=True)
tf.io.gfile.remove("removed")
tf.io.gfile.makedirs("folder-1/new")
tf.io.gfile.rmtree("folder-2")
with tf.summary.create_file_writer("folder-3").as_default():
    tf.summary.write("loss", 1.0, step=1)
tf.train.Checkpoint(variable=tf.Variable(1.0)).save("folder-4/checkpoint")
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
model.save_weights("saved.weights.h5")
model.save("saved.keras")
model.export("folder-5", verbose=False)

appended = Path("appended").read_text()
private.leave()
changes = {item.path.partition("/")[0] + "/" * ("/" in item.path) for item in private.written()}
print(json.dumps([sorted(changes), appended]))
"""
FILES = ["opened", "appended", "records", "copied", "renamed", "removed"]
SAVED = ["saved.weights.h5", "saved.keras"]
FOLDERS = [f"folder-{number}" for number in range(1, 6)]


@pytest.mark.tensorflow
@pytest.mark.parametrize("imported", ["before", pytest.param("after", marks=pytest.mark.thorough)])
def test_tensorflow_and_keras_leave_large_files_and_folders_alone(tmp_path, imported):
    original = tmp_path / "project"
    for name in [*FILES, *SAVED]:
        original.mkdir(exist_ok=True)
        (original / name).write_text("large enough to link")
    for folder in FOLDERS:
        for number in range(6):
            (original / folder / "below").mkdir(parents=True, exist_ok=True)
            (original / folder / "below" / str(number)).write_text("as it was")
    before = contents(original)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, original, tmp_path / "private", imported],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "", "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    changes, appended = json.loads(done.stdout.splitlines()[-1])
    # in the first folder an empty one was made, and files are what is listed
    assert changes == sorted([*FILES, *SAVED, *(f"{folder}/" for folder in FOLDERS[1:])])
    assert appended == "large enough to linknew"
    assert contents(original) == before


def contents(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}
