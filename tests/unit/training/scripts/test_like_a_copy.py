"""Whatever is done in a private folder: it looks as if done in a real copy, and only there."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from support.cases import few_examples

from tfopt_core.training.scripts.mirroring import CopyLimits
from tfopt_core.training.scripts.private_folder import PrivateFolder

# Of the script's folder; "far" leads out of what is shown, "up" to a folder beside it.
FILES = {
    "small": "s",
    "large": "large file, a link",
    "code.py": "code that is copied",
    "few/x": "x",
    "few/large": "another large file",
    "many/1": "1",
    "many/2": "22",
    "many/large": "large in a large folder",
    "many/below/z": "z",
    "many/below/deeper/large": "large far down",
    "many/3": "",
}
LINKS = {
    "to-large": "large",
    "to-few": "few",
    "to-many": "many",
    "up": "../beside",
    "many/to-1": "1",
    "broken": "nowhere",
    "itself": "itself",
}
PATHS = sorted(
    {
        *FILES,
        *LINKS,
        *("few", "many", "many/below", "many/below/deeper", "new", "new/n", "many/new"),
        *("far", "far/f", "far/below", "far/below/g", "far/new", "up/b", "up/large", "../beside"),
        *("to-many/1", "to-many/below/z", "to-few/x", "many/../small", "many/below/../1", "few/y"),
    }
)
LIMITS = CopyLimits(copy_bytes=10, folder_entries=4, beside=200)


def lay_out(base):
    """The script's folder with all that is in it and around it."""
    script = base / "shown/a/b/script"
    beside, far = script.parent / "beside", base / "far"
    for folder, files in (
        (script, FILES),
        (beside, {"b": "b", "large": "large and beside"}),
        (far, {"f": "f", "large": "large and far", "below/g": "g"}),
    ):
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
    for name, target in LINKS.items():
        (script / name).symlink_to(target)
    (script / "far").symlink_to(far)
    return script


def exact(base):
    """Everything below a folder, links as links, with modes and times."""
    found = {}
    for folder, folders, files in os.walk(base):
        for name in folders + files:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            content = os.readlink(path) if os.path.islink(path) else ""
            if stat.S_ISREG(status.st_mode):
                content = Path(path).read_bytes()
            found[path] = (status.st_mode, status.st_mtime_ns, content)
    return found


def visible(folder, depth=5):
    """What a script sees that looks into every file below a folder, links as what they lead to."""
    found = {}
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if os.path.isdir(path):
            found[name] = visible(path, depth - 1) if depth else "deep"
        elif os.path.exists(path):
            found[name] = (os.stat(path).st_mode, Path(path).read_bytes())
        else:
            found[name] = "broken"
    return found


def write(mode, path, text):
    with open(path, mode) as file:
        file.write(text)


def write_by_descriptor(flags, path, text):
    descriptor = os.open(path, flags)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def walked(path):
    """What a walk finds that doesn't follow links."""
    return sorted(
        (os.path.normpath(folder), sorted(folders), sorted(files))
        for folder, folders, files in os.walk(path)
    )


def in_folder(path, other):
    here = os.getcwd()
    os.chdir(path)
    try:
        write("a", os.path.basename(other), "from inside")
    finally:
        os.chdir(here)


one = st.sampled_from(PATHS)
some = st.sampled_from([*PATHS, ".", "..", "../script/few", "many/../few"])
names = st.sampled_from([path for path in PATHS if path != "far"])
texts = st.sampled_from(["", "new", "a much longer text"])
operations = st.one_of(
    st.tuples(st.just(write), st.sampled_from(["w", "a", "r+", "x", "w+", "a+"]), one, texts),
    st.tuples(
        st.just(write_by_descriptor),
        st.sampled_from([os.O_WRONLY, os.O_RDWR | os.O_CREAT, os.O_WRONLY | os.O_TRUNC]),
        one,
        texts,
    ),
    st.tuples(st.sampled_from([os.remove, os.mkdir, os.rmdir, os.makedirs, os.listdir]), one),
    st.tuples(st.sampled_from([shutil.rmtree, walked]), some),
    st.tuples(st.sampled_from([os.rename, os.replace, shutil.copy, shutil.copytree]), one, one),
    st.tuples(st.sampled_from([os.rename, os.replace, shutil.copy2]), one, one),
    st.tuples(st.just(in_folder), some, names),
    # a second name of "far" itself is a second copy here, and one place without tfopt
    st.tuples(st.sampled_from([os.symlink, os.link, shutil.move]), names, names),
    st.tuples(st.just(os.truncate), one, st.integers(0, 3)),
    st.tuples(st.just(os.chmod), st.sampled_from(sorted(FILES)), st.just(0o640)),
)


def outcome(function, arguments):
    """What a call returned or raised, without the folder's own name."""
    try:
        result = function(*arguments)
    except (OSError, shutil.Error) as error:
        return type(error)
    return sorted(result) if function is os.listdir else result if function is walked else None


@few_examples(120, database=None)
@given(st.lists(operations, min_size=1, max_size=8))
def test_what_is_done_in_a_private_folder_is_done_as_in_a_copy_and_only_there(steps):
    with tempfile.TemporaryDirectory() as base:
        check_like_a_copy(Path(base), steps)


def check_like_a_copy(base, steps):
    original, copy = lay_out(base / "original"), lay_out(base / "copy")
    before = exact(base / "original")
    private = PrivateFolder.make(original, base / "private", limits=LIMITS)
    private.enter()
    try:
        got = [outcome(function, arguments) for function, *arguments in steps]
    finally:
        private.leave()
    here = os.getcwd()
    os.chdir(copy)
    try:
        expected = [outcome(function, arguments) for function, *arguments in steps]
    finally:
        os.chdir(here)
    assert exact(base / "original") == before
    assert got == expected
    assert visible(private.private.parent) == visible(copy.parent)
