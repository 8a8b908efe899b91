"""Write the distribution of `tfopt plugins new`, from the templates beside this file.

Templates hold `$name`, `$package` and the like, see `string.Template`. A test writes a
distribution, checks it with ruff and runs its tests.
"""

from __future__ import annotations

import builtins
import importlib.util
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Template

import attrs

from tfopt_core.errors import InputError
from tfopt_core.hooks.installed.discovery import Registration
from tfopt_core.version import __version__

TEMPLATES = Path(__file__).parent / "templates"
ENDING = ".template"
# Names of files and folders in the distribution that differ from those of their templates.
_RENAMED = {"gitignore": ".gitignore", "github": ".github"}

LONGEST_NAME = 32
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


@attrs.frozen
class ScaffoldNames:
    """The names of a plugin: in recipes, on an index, on disk, and in Python."""

    name: str

    @property
    def distribution(self) -> str:
        """tfopt-loss-watch"""
        return f"tfopt-{self.name}"

    @property
    def package(self) -> str:
        """tfopt_loss_watch"""
        return self.distribution.replace("-", "_")

    @property
    def class_name(self) -> str:
        """LossWatch"""
        return "".join(part.capitalize() for part in self.name.split("-"))


def check_name(name: str, known: Mapping[str, tuple[Registration, ...]]) -> ScaffoldNames:
    """Return the names of a new plugin.

    :param known: the plugins that are installed.
    :raises InputError: if the name is invalid or taken.
    """
    rule = "lower-case letters, digits and single dashes, a letter first"
    if not _NAME.fullmatch(name):
        split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()
        better = re.sub(r"[^a-z0-9]+", "-", split).strip("-0123456789")
        mend = f'try "{better}"' if _NAME.fullmatch(better) else 'such as "loss-watch"'
        raise InputError(f'"{name}" is no name for a plugin: {rule}; {mend}')
    if len(name) > LONGEST_NAME:
        raise InputError(f'"{name}" is longer than {LONGEST_NAME} characters; choose a shorter one')
    if name in known:
        origin = f"{known[name][0].distribution} {known[name][0].version}"
        raise InputError(
            f'a plugin "{name}" is installed already (from {origin}); choose another name'
        )
    names = ScaffoldNames(name)
    if importlib.util.find_spec(names.package) is not None:
        raise InputError(
            f'"{name}" would be the package {names.package}, and there is one; choose another name'
        )
    # and what the plugin's template imports
    text = (TEMPLATES / "package" / f"plugin.py{ENDING}").read_text(encoding="utf-8")
    imports = re.findall(r"^from \S+ import (.+)$", text, re.MULTILINE)
    if names.class_name in {*vars(builtins), *re.findall(r"\w+", " ".join(imports))}:
        raise InputError(
            f'"{name}" would be the class {names.class_name}, which means something else already; '
            "choose another name"
        )
    return names


def write_distribution(names: ScaffoldNames, folder: Path) -> tuple[Path, ...]:
    """Write the distribution into a new folder, completely or not at all. Return its files.

    :raises InputError: if there is such a folder already, or it cannot be written.
    """
    mend = "name another with --into"
    empty = folder.is_dir() and not any(folder.iterdir())
    if folder.is_symlink() or (folder.exists() and not empty):
        raise InputError(f'"{folder}" exists already; {mend}')
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".tfopt-new-") as temporary:
            made = Path(temporary) / folder.name
            for place, text in files_of(names):
                target = made / place
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text, encoding="utf-8")
            # fails if files have appeared in the folder meanwhile
            made.rename(folder)
    except OSError as error:
        raise InputError(
            f'"{folder}" cannot be written: {error.strerror or error}; {mend}'
        ) from error
    return tuple(sorted(path for path in folder.rglob("*") if path.is_file()))


def files_of(names: ScaffoldNames) -> Iterator[tuple[Path, str]]:
    """Yield every file of the distribution: its path and its text."""
    # of tfopt, this version or a later one of its minor series
    major, minor = __version__.split(".")[:2]
    known = ("name", "distribution", "package", "class_name")
    words = {name: getattr(names, name) for name in known}
    words["requirement"] = f"tfopt>={major}.{minor},<{major}.{int(minor) + 1}"
    renamed = {**_RENAMED, "package": names.package}
    for template in sorted(TEMPLATES.rglob(f"*{ENDING}")):
        parts = template.relative_to(TEMPLATES).with_suffix("").parts
        text = Template(template.read_text(encoding="utf-8")).substitute(words)
        yield Path(*(renamed.get(part, part) for part in parts)), text
