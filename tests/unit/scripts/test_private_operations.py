"""The private folder acts as the folder itself, both ways; what is written stays apart."""

import inspect
import json
import os
import sqlite3
from contextlib import closing

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from support import folder_operations
from support.cases import THOROUGH_EXAMPLES, few_examples, mostly_thorough
from support.folder_operations import PATHS, begin, carry_out, tree
from support.private_run import WAYS, run_privately

both_ways = pytest.mark.parametrize("way", WAYS)

# In the overlay the kernel keeps apart what is written, by whatever function.
OF_THE_KERNEL = ("open r+", "fork")


@pytest.fixture
def original(tmp_path):
    """A script's folder; after the test it must be what it was."""
    original = tmp_path / "above/project"
    (original / "data/below").mkdir(parents=True)
    (original / "train.py").write_text("print()")
    (original / "large.bin").write_bytes(b"0123456789" * 10)
    (original / "data/below/file").write_text("as it was")
    np.save(original / "array.npy", np.zeros(10))
    with closing(sqlite3.connect(original / "runs.db")) as database:
        database.execute("create table runs (name)")
    before = contents(original)
    yield original
    assert contents(original) == before


def contents(folder):
    files = [path for path in folder.rglob("*") if path.is_file() and ".tfopt" not in path.parts]
    return {
        path: (path.stat().st_mtime_ns, path.stat().st_mode, path.read_bytes()) for path in files
    }


WRITES = {
    "open r+": ("large.bin", 'open("large.bin", "r+b").write(b"new")'),
    "memmap": ("array.npy", 'import numpy as np; np.load("array.npy", mmap_mode="r+")[:] = 1'),
    "sqlite": ("runs.db", "import sqlite3; sqlite3.connect('runs.db').execute('drop table runs')"),
    "fork": (
        "large.bin",
        'import os; os.fork() or (open("large.bin", "w").close(), os._exit(0)); os.wait()',
    ),
}


@pytest.mark.parametrize(
    ("write", "way"),
    [
        pytest.param(write, way, marks=() if kept else pytest.mark.thorough)
        for way in WAYS
        for write in WRITES
        for kept in [way == "copy" or write in OF_THE_KERNEL]
    ],
)
def test_a_file_is_written_in_the_private_folder_alone(original, way, write):
    path, code = WRITES[write]
    run = run_privately(way, original, code)
    assert run.error is None
    assert run.written[path] == "changed"


@both_ways
def test_what_was_written_is_told_once_sorted_and_nothing_else(original, way):
    code = """
import os, shutil
from pathlib import Path
Path("new").write_text("12")
Path("some/deeper").mkdir(parents=True)
Path("some/deeper/file").touch()
Path("data/below/file").open("r+").close()
Path("array.npy").read_bytes()
Path("__pycache__").mkdir()
Path("__pycache__/a.pyc").touch()
os.remove("runs.db")
os.chmod("train.py", 0o600)
shutil.move("large.bin", "moved.bin")
"""
    run = run_privately(way, original, code)
    assert list(run.written.items()) == [
        ("large.bin", "removed"),
        ("moved.bin", "new"),
        ("new", "new"),
        ("runs.db", "removed"),
        ("some/deeper/file", "new"),
    ]


@both_ways
def test_the_git_checkout_of_the_folder_is_private(original, way):
    (original.parent / ".git").mkdir()
    run = run_privately(way, original, 'open("../results", "w")')
    assert run.written == {str(original.parent / "results"): "new"}
    assert not (original.parent / "results").exists()


@both_ways
def test_what_is_written_through_a_symlink_to_elsewhere_is_private(original, way, tmp_path):
    elsewhere = tmp_path / "scratch"
    elsewhere.mkdir()
    (elsewhere / "best").write_text("trained for days")
    (original / "absolute").symlink_to(elsewhere)
    (original / "relative").symlink_to("../../scratch")
    code = 'open("absolute/best", "w"); open("relative/more", "w")'
    run = run_privately(way, original, code)
    assert run.written == {str(elsewhere / "best"): "changed", str(elsewhere / "more"): "new"}
    assert os.listdir(elsewhere) == ["best"]
    assert (elsewhere / "best").read_text() == "trained for days"


@both_ways
def test_a_path_upwards_finds_what_lies_beside_the_folder(original, way):
    (original.parent / "data").mkdir()
    (original.parent / "data/train").write_text("beside")
    assert run_privately(way, original, 'print(open("../data/train").read())').printed == "beside"


@pytest.mark.tensorflow
@pytest.mark.parametrize("way", mostly_thorough(WAYS, ["copy"]))
def test_what_tensorflow_and_keras_write_natively_stays_apart(tmp_path, way):
    original = tmp_path / "project"
    files = ("opened", "appended", "records", "copied", "saved.weights.h5", "saved.keras")
    for name in (*files, *(f"folder-{number}/below/file" for number in range(1, 5))):
        (original / name).parent.mkdir(parents=True, exist_ok=True)
        (original / name).write_text("as it was")
    before = contents(original)
    run = run_privately(way, original, NATIVE, imported=True)
    assert run.error is None
    assert {path: run.written[path] for path in files} == dict.fromkeys(files, "changed")
    assert {path.split("/")[0] for path in run.written} - set(files) == {
        f"folder-{number}" for number in range(1, 5)
    }
    assert contents(original) == before


NATIVE = """
import keras
import tensorflow as tf

with tf.io.gfile.GFile("opened", "w") as file:
    file.write("new")
with tf.io.gfile.GFile("appended", "a") as file:
    file.write("new")
with tf.io.TFRecordWriter("records") as writer:
    writer.write(b"new")
tf.io.gfile.copy("opened", "copied", overwrite=True)
tf.io.gfile.rmtree("folder-1")
with tf.summary.create_file_writer("folder-2").as_default():
    tf.summary.write("loss", 1.0, step=1)
tf.train.Checkpoint(variable=tf.Variable(1.0)).save("folder-3/checkpoint")
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
model.save_weights("saved.weights.h5")
model.save("saved.keras")
model.export("folder-4", verbose=False)
"""

# Whatever a script does with files, a private folder acts as the folder itself would

paths, texts = st.sampled_from(PATHS), st.text("ab\n", max_size=4)

operations = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["read", "remove", "mkdir", "makedirs", "rmdir", "rmtree",
                                   "list", "size"]), paths),
        st.tuples(st.sampled_from(["write", "append", "new", "truncate"]), paths, texts),
        st.tuples(st.sampled_from(["replace", "move", "copy"]), paths, paths),
        st.tuples(st.just("link"), paths, st.sampled_from(["./log", "./data/rows", "nowhere"])),
    ),
    min_size=20, max_size=40,  # each example starts a process
)  # fmt: skip

CODE = (
    inspect.getsource(folder_operations)
    + """
import json
print(json.dumps([carry_out(".", json.loads({operations!r})), tree(".")]))
"""
)


@pytest.mark.promise(50, injected="operations on files and folders, drawn by hypothesis")
@pytest.mark.parametrize("way", WAYS)
@few_examples(
    10,
    # shrinking takes minutes, since each example starts a process
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    # the same examples each time, but by tools/fuzz.py, which draws anew
    derandomize=settings().max_examples <= THOROUGH_EXAMPLES,
    suppress_health_check=list(HealthCheck),
)
@example(operations=[("rmtree", "data"), ("link", "data", "./log")])
@example(operations=[("remove", "log"), ("mkdir", "log"), ("mkdir", "new"), ("write", "log", "a")])
# a folder below one that was moved away and made again has no mark of its own
@example(operations=[("move", "data", "new"), ("mkdir", "data"), ("mkdir", "data/below")])
@given(operations=operations)
def test_a_private_folder_acts_as_the_folder_and_leaves_it_as_it_was(
    tmp_path_factory, way, operations
):
    original, plain = (tmp_path_factory.mktemp(name) / "project" for name in ("ours", "plain"))
    for folder in (original, plain):
        folder.mkdir()
        begin(folder)
    before = tree(original)
    run = run_privately(way, original, CODE.replace("{operations!r}", repr(json.dumps(operations))))
    assert run.error is None
    assert tree(original) == before
    found, after = json.loads(run.printed)
    assert found == json.loads(json.dumps(carry_out(plain, operations)))
    expected = tree(plain)
    assert after == expected
    check_told(run.written, before, expected)


def check_told(written, before, after):
    """Every file that differs is told, as new, changed or removed."""
    for path in {*before, *after}:
        was, is_ = before.get(path), after.get(path)
        if was == is_:
            continue
        parts = path.split("/")
        folders = ["/".join(parts[:n]) + "/" for n in range(1, len(parts) + 1)]
        said = next((written[one] for one in (path, *folders) if one in written), None)
        if is_ is None:
            assert said == "removed", path
        else:
            assert said == ("new" if was is None else "changed"), path
