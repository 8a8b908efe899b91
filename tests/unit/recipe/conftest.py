"""What the recipe tests share: a folder of recipes, read by their relative names."""

import pytest

from tfopt_core.recipe.reading import read_recipe


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder that is the working directory, as the user's is."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def read(folder):
    """Write `recipe.toml` (and further files) and read it with `--set` texts."""

    def read(text, *overrides, **files):
        for name, content in files.items():
            (folder / f"{name}.toml").write_text(content)
        data = text.encode() if isinstance(text, str) else text
        (folder / "recipe.toml").write_bytes(data)
        return read_recipe("recipe.toml", overrides)

    return read


@pytest.fixture
def complaints(read):
    """The problems of such a recipe as the lines that a user sees."""

    def complaints(text, *overrides, **files):
        return [str(problem) for problem in read(text, *overrides, **files).problems]

    return complaints
