"""Saved models, loaded as where tfopt is not installed."""

import sys
from pathlib import Path
from typing import Any

import pytest


def load_without_tfopt(path: Path) -> Any:
    """Return a saved model, loaded while no module of tfopt can be imported.

    Nor does Keras know a class of tfopt by name, which it would not import.
    """
    import keras

    known = keras.saving.get_custom_objects().values()
    assert not [one for one in known if one.__module__.startswith("tfopt")]
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in sys.modules if name.startswith("tfopt")]:
            patch.setitem(sys.modules, name, None)
        return keras.models.load_model(path)
