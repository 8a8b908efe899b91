"""What scripts do with files, as plain data: carried out in a folder, with what becomes of each.

It imports the standard library alone, since its source is run in a process of its own too.
"""

import os
import shutil

# The files and folders with which a folder begins; None for a folder, a link with its target.
BEGIN = {
    "train.py": "print()", "log": "as it was", "data": None, "data/rows": "1 2 3",
    "data/below": None, "data/below/file": "deep", "empty": None,
}  # fmt: skip
LINKS = {"latest": "data/below", "newest": "log"}
PATHS = (*BEGIN, *LINKS, "new", "new/deeper", "data/new", "empty/new", "latest/file", "latest/new")


def begin(root):
    """Make the files and folders with which a folder begins."""
    for path, text in BEGIN.items():
        if text is None:
            os.mkdir(os.path.join(root, path))
        else:
            _write(os.path.join(root, path), "w", text)
    for path, target in LINKS.items():
        os.symlink(target, os.path.join(root, path))


def carry_out(root, operations):
    """Carry the operations out in turn. Return what each gave, or the name of its error."""
    found = []
    for kind, *given in operations:
        paths = [os.path.join(root, path) for path in given if path in PATHS]
        try:
            found.append(OPERATIONS[kind](*paths, *given[len(paths) :]))
        except OSError as error:
            found.append(type(error).__name__)
    return found


def tree(root):
    """Return every path below a folder: the text of a file, the target of a link, None for a
    folder."""
    found = {}
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = os.path.join(folder, name)
            if ".tfopt" in path.split(os.sep):
                continue
            key = os.path.relpath(path, root)
            if os.path.islink(path):
                found[key] = "-> " + os.readlink(path)
            else:
                found[key] = None if os.path.isdir(path) else _read(path)
    return found


def _read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def _write(path, mode, text):
    with open(path, mode, encoding="utf-8") as file:
        file.write(text)


def _replace(source, target):
    if os.path.isdir(source):
        return "a folder"  # of an overlay none can be renamed: shutil.move copies it
    return os.replace(source, target)


def _move(source, target):
    if os.path.join(os.path.realpath(target), "").startswith(os.path.realpath(source)):
        return "into itself"  # shutil.move copies it without end
    return shutil.move(source, target) and None


OPERATIONS = {
    "read": _read,
    "write": lambda path, text: _write(path, "w", text),
    "append": lambda path, text: _write(path, "a", text),
    "new": lambda path, text: _write(path, "x", text),
    "truncate": lambda path, text: os.truncate(path, len(text)),
    "remove": os.remove,
    "mkdir": os.mkdir,
    "makedirs": lambda path: os.makedirs(path, exist_ok=True),
    "rmdir": os.rmdir,
    "rmtree": shutil.rmtree,
    "list": lambda path: sorted(set(os.listdir(path)) - {".tfopt"}),
    "size": lambda path: "a folder" if os.path.isdir(path) else os.path.getsize(path),
    "replace": _replace,
    "move": _move,
    "copy": lambda source, target: shutil.copy(source, target) and None,
    "link": lambda path, target: os.symlink(target, path),
}
