"""Rebuild the folder `tfopt_workloads/data/clipart` from the pictures of Open Clip Art.

    python workloads/tools/build_clipart.py [FOLDER] [--output FOLDER] [--longest-side PIXELS]

FOLDER holds the PNG files in folders of their class; it defaults to where the Debian package
`openclipart-png` puts them. Needs an installed tfopt, whose TensorFlow decodes and encodes. With
`--longest-side 1024 --output big`, say, the same choice makes larger files for the workload's
option `folder`.

The classes that hold the most files are taken. Links are left out (they put a picture into two
classes), and so are pictures over a megapixel, pictures that are all but one colour once they lie
on white, and those that look exactly like another of their class. Of each class the subfolders
are taken in turn, in each the pictures by the SHA-256 of their names: the choice needs no random
generator, and no series fills a class. They are numbered by the order of their original names, so
that pictures of one series are neighbours.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tfopt_workloads.locations import BUNDLED

OPEN_CLIP_ART_FOLDER = Path("/usr/share/openclipart/png")
CLASSES = 8
PER_CLASS = 190
LONGEST_SIDE = 192  # pixels
MOST_PIXELS = 1_000_000  # the largest have 231 megapixels
QUALITY = 85
PLAIN = 6.0  # standard deviation, of 255: less is a blank page to the eye


def largest_classes(folder: Path, count: int) -> dict[str, list[Path]]:
    """The PNG files of the classes that hold the most, by class in the order of the names.

    :raises SystemExit: if there are fewer classes.
    """
    found = {
        entry.name: sorted(path for path in entry.rglob("*.png") if not path.is_symlink())
        for entry in sorted(folder.glob("*"))
        if entry.is_dir()
    }
    if len(found) < count:
        raise SystemExit(f"{folder} holds {len(found)} class folders, {count} are needed")
    names = sorted(found, key=lambda name: (-len(found[name]), name))[:count]
    return {name: found[name] for name in sorted(names)}


def in_turn(paths: list[Path], root: Path) -> Iterator[Path]:
    """The paths, their folders in turn, each folder by the SHA-256 of names relative to `root`."""

    def digest(path: Path) -> bytes:
        return hashlib.sha256(path.relative_to(root).as_posix().encode()).digest()

    folders: dict[Path, list[Path]] = {}
    for path in sorted(paths, key=digest):
        folders.setdefault(path.parent, []).append(path)
    ordered = [folders[folder] for folder in sorted(folders)]
    for turn in range(max(map(len, ordered), default=0)):
        yield from (folder[turn] for folder in ordered if turn < len(folder))


def pixels(path: Path) -> int:
    """Width times height of a PNG file, from its header; 0 if it is none."""
    with path.open("rb") as stream:
        start = stream.read(24)
    if start[:8] != b"\x89PNG\r\n\x1a\n" or start[12:16] != b"IHDR":
        return 0
    return int.from_bytes(start[16:20], "big") * int.from_bytes(start[20:24], "big")


def on_white(path: Path) -> Any:
    """A PNG file as (height, width, 3) float32 from 0 to 255, transparency laid on white."""
    import tensorflow as tf

    image = tf.cast(tf.io.decode_png(tf.io.read_file(str(path)), channels=4), tf.float32)
    opacity = image[..., 3:] / 255.0
    return image[..., :3] * opacity + 255.0 * (1.0 - opacity)


def as_jpeg(picture: Any, longest_side: int) -> bytes:
    """A picture as a JPEG file, scaled (down or up) so that its longer side has this length."""
    import tensorflow as tf

    height, width = picture.shape[:2]
    scale = longest_side / max(height, width)
    size = (max(1, round(height * scale)), max(1, round(width * scale)))
    scaled = tf.image.resize(picture, size, antialias=True)
    rounded = tf.saturate_cast(tf.round(scaled), tf.uint8)
    return bytes(tf.io.encode_jpeg(rounded, quality=QUALITY, optimize_size=True).numpy())


def chosen(paths: list[Path], root: Path, most: int) -> list[tuple[Path, Any]]:
    """At most so many pictures with their paths, in the order of the paths."""
    kept: dict[bytes, tuple[Path, Any]] = {}
    for path in in_turn(paths, root):
        if len(kept) == most:
            break
        if not 0 < pixels(path) <= MOST_PIXELS:
            continue
        picture = on_white(path)
        look = hashlib.sha256(picture.numpy().tobytes()).digest()
        if picture.numpy().std() >= PLAIN:
            kept.setdefault(look, (path, picture))
    return sorted(kept.values(), key=lambda pair: pair[0].relative_to(root).as_posix())


def bundle(
    root: Path, classes: int, per_class: int, longest_side: int
) -> Iterator[tuple[str, bytes]]:
    """The files of the bundled folder: a path "class/0007.jpg" and what the file holds."""
    for name, paths in largest_classes(root, classes).items():
        for number, (_, picture) in enumerate(chosen(paths, root, per_class)):
            yield f"{name}/{number:04d}.jpg", as_jpeg(picture, longest_side)


def write(files: Iterator[tuple[str, bytes]], output: Path) -> str:
    """Write the files in place of what the folder held; what was written, in lines."""
    shutil.rmtree(output, ignore_errors=True)
    digest, size, counts = hashlib.sha256(), 0, dict[str, int]()
    for name, content in files:
        path = output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        digest.update(f"{name} {len(content)}\n".encode() + content)
        size += len(content)
        counts[path.parent.name] = counts.get(path.parent.name, 0) + 1
    lines = [f"{name}: {count} pictures" for name, count in counts.items()]
    lines.append(f"{output}: {sum(counts.values()):,} files, {size:,} bytes")
    lines.append(f"SHA-256 of the contents: {digest.hexdigest()}")
    return "\n".join(lines)


def main() -> None:
    """Read the originals, write the bundled folder, print what it holds."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=OPEN_CLIP_ART_FOLDER)
    parser.add_argument("--output", type=Path, default=BUNDLED / "clipart")
    parser.add_argument("--classes", type=int, default=CLASSES)
    parser.add_argument("--per-class", type=int, default=PER_CLASS)
    parser.add_argument("--longest-side", type=int, default=LONGEST_SIDE)
    arguments = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if not arguments.folder.is_dir():
        raise SystemExit(f"{arguments.folder} is not there; apt-get install openclipart-png")
    if arguments.output.exists() and any(
        path.is_file() and path.suffix != ".jpg" for path in arguments.output.rglob("*")
    ):
        raise SystemExit(f"{arguments.output} holds other files than .jpg; it would be emptied")
    files = bundle(arguments.folder, arguments.classes, arguments.per_class, arguments.longest_side)
    print(write(files, arguments.output))


if __name__ == "__main__":
    main()
