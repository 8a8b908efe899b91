"""What the recipe tests share: a folder of recipes, read by their relative names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tfopt_core.recipe.reading import Reading, read_recipe

Read = Callable[..., Reading]

MINIMAL = '[workload]\nuse = "mnist"\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the working directory, as the user's is."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def read(folder: Path) -> Read:
    """Write `recipe.toml` (and further files) and read it with `--set` texts."""

    def read(text: str | bytes, *overrides: str, **files: str) -> Reading:
        for name, content in files.items():
            (folder / f"{name}.toml").write_text(content)
        data = text.encode() if isinstance(text, str) else text
        (folder / "recipe.toml").write_bytes(data)
        return read_recipe("recipe.toml", overrides)

    return read


@pytest.fixture
def complaints(read: Read) -> Callable[..., list[str]]:
    """The problems of such a recipe as the lines that a user sees."""

    def complaints(text: str | bytes, *overrides: str, **files: str) -> list[str]:
        return [str(problem) for problem in read(text, *overrides, **files).problems]

    return complaints
