"""Models for Keras Tuner as workloads: their hyperparameters, their values, and what is refused."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

from tfopt_core.errors import WorkloadError
from tfopt_core.recipe import Recipe, WorkloadSpec
from tfopt_core.records.hyperparameters import is_active
from tfopt_core.training.factory import load_workload

pytestmark = pytest.mark.tensorflow
needs_keras_tuner = pytest.mark.skipif(
    "not __import__('importlib.util').util.find_spec('keras_tuner')",
    reason="Keras Tuner is not installed",
)

HEAD = """
    import keras
    import numpy as np

    def load_data():
        x = np.arange(40, dtype="float32").reshape(20, 2)
        return (x, x[:, 0]), None

    def made(units=1, optimizer="sgd", **more):
        model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(units)])
        model.compile(optimizer, "mse", **more)
        return model
"""
EVERY_KIND = """
    def build(hp):
        hp.Int("count", 2, 9, step=3, default=5)
        hp.Int("power", 2, 40, step=2, sampling="log")
        hp.Float("rate", 1e-4, 1e-1, sampling="log", default=1e-3)
        hp.Float("drop", 0.0, 0.5, step=0.2)
        hp.Boolean("norm", default=True)
        hp.Fixed("seed", 3)
        hp.Int("one", 4, 4)
        hp.Choice("kind", ["a", "b", "c"])
        with hp.conditional_scope("kind", ["b", "c"]):
            hp.Int("depth", 1, 3)
        hp.Int("width", 1, 3, parent_name="kind", parent_values=["a"])
        if hp.get("kind") == "c":
            hp.Float("late", 0.0, 1.0)
        for layer in range(hp.Int("layers", 1, 2)):
            hp.Int(f"units_{layer}", 1, 8)
        return made(metrics=["mae"])
"""


def load(folder, code, name="build", **options):
    """The workload of this code, as a recipe loads it."""
    (folder / "mine.py").write_text(textwrap.dedent(HEAD) + textwrap.dedent(code))
    spec = WorkloadSpec(factory=f"mine.py:{name}", data="mine.py:load_data", options=options)
    return load_workload(Recipe(name="r", workload=spec, path=folder / "recipe.toml"))


@needs_keras_tuner
def test_each_hyperparameter_becomes_a_range_with_its_default_and_conditions(tmp_path):
    found = {one.name: one for one in load(tmp_path, EVERY_KIND, kind="b").explore()[0]}
    assert {name: one.range for name, one in found.items()} == {
        "count": {"low": 2, "high": 8, "step": 3}, "power": [2, 4, 8, 16, 32],
        "rate": {"low": 1e-4, "high": 1e-1, "log": True},
        "drop": {"low": 0.0, "high": 0.4, "step": 0.2}, "norm": [False, True], "seed": None,
        "one": None, "kind": ["a", "b", "c"], "depth": {"low": 1, "high": 3},
        "width": {"low": 1, "high": 3}, "layers": {"low": 1, "high": 2},
        "late": {"low": 0.0, "high": 1.0},
        "units_0": {"low": 1, "high": 8}, "units_1": {"low": 1, "high": 8},
    }  # fmt: skip
    assert [found[name].untuned for name in ("count", "rate", "norm", "kind", "depth")] == [
        5, 1e-3, True, "b", 1,
    ]  # fmt: skip
    active = {name: is_active(found[name].when, {"kind": "c"}) for name in ("depth", "width")}
    assert active == {"depth": True, "width": False}


@needs_keras_tuner
def test_values_that_no_model_has_end_no_exploring_and_time_does_and_says_so(tmp_path, monkeypatch):
    code = """
        def build(hp):
            if hp.Int("depth", 1, 6) > 3:
                raise ValueError("negative dimension")
            if hp.Choice("kind", ["a", "b"]) == "b":
                hp.Float("late", 0.0, 1.0)
            return made()
    """
    workload = load(tmp_path, textwrap.dedent(code))
    found, whole = workload.explore()
    assert ([one.name for one in found], whole) == (["depth", "kind", "late"], True)
    monkeypatch.setattr("tfopt_core.training.hypermodel.EXPLORING_SECONDS", 0.0)
    found, whole = workload.explore()
    assert ([one.name for one in found], whole) == (["depth", "kind"], False)


@needs_keras_tuner
def test_a_class_an_instance_and_a_function_build_the_model_that_keras_tuner_builds(tmp_path):
    code = """
        import keras_tuner

        class Mine(keras_tuner.HyperModel):
            def build(self, hp):
                rate = hp.Float("rate", 0.1, 0.9)
                return made(hp.Int("units", 1, 8), keras.optimizers.SGD(rate), metrics=["mae"])

        mine = Mine()
        build = mine.build
    """
    import keras

    for name in ("Mine", "mine", "build"):
        workload = load(tmp_path, code, name, units=3)
        keras.utils.set_random_seed(1)
        model = workload.build_model()
        keras.utils.set_random_seed(1)
        plain = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(3)])
        assert np.array_equal(model.get_weights()[0], plain.get_weights()[0])
        assert float(workload.optimizer.learning_rate) == pytest.approx(0.1)
        assert (workload.loss, workload.metrics) == ("mse", ["mae"])
        assert workload.validation is None


@needs_keras_tuner
def test_a_value_of_a_branch_that_is_not_taken_is_no_error(tmp_path):
    assert load(tmp_path, EVERY_KIND, kind="a", depth=2, late=0.5, units_1=4).build_model()


UNKNOWN_KIND = (
    "from keras_tuner.engine import hyperparameters as kinds; "
    'hp._retrieve(type("Text", (kinds.Fixed,), {})("y", 1))'
)
TWICE = (
    'hp.Int("x", 1, 8, default=3, parent_name="b", parent_values=[True]); '
    'hp.Int("x", {}, parent_name="b", parent_values=[False])'
)
WRONG = {
    "unknown name": (EVERY_KIND, {"raet": 1e-3}, 'no hyperparameter "raet"; did you mean "rate"?'),
    "wrong kind": (EVERY_KIND, {"count": 2.5}, '"count" takes a whole number, got 2.5'),
    "no choice": (EVERY_KIND, {"kind": "d"}, "takes one of 'a', 'b', 'c', got 'd'"),
    "fixed": (EVERY_KIND, {"seed": 4}, '"seed" is fixed to 3, got 4'),
    "no build": (
        "import keras_tuner\nclass build(keras_tuner.HyperModel): pass", {}, "has no build(hp)"
    ),
    "class without build": ("class build: pass", {}, "has no build(hp)"),
    "class with arguments": (
        "class build:\n    def __init__(self, n): pass\n    def build(self, hp): pass", {},
        "make an instance in the file and name that",
    ),
    "its own fit": (
        "import keras_tuner\nclass build(keras_tuner.HyperModel):\n    def fit(self, hp): pass",
        {}, "has a fit of its own",
    ),
    "not compiled": (
        "def build(hp):\n    return keras.Sequential([keras.layers.Dense(1)])", {}, "not compiled"
    ),
    "no model": ("def build(hp): return 3", {}, "returned a int; return a compiled keras.Model"),
    "compiled by XLA": (
        "def build(hp): return made(jit_compile=True)", {}, 'compiles its model with "jit_compile"'
    ),
    "raises": ("def build(hp): raise OSError('gone')", {}, "raised OSError: gone"),
    "no pair": (
        "def load_data(): return np.ones(3), np.ones(3)\ndef build(hp): return made()", {},
        "must return (train, validation)",
    ),
}  # fmt: skip


@needs_keras_tuner
@pytest.mark.parametrize(("code", "options", "said"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_named(code, options, said, tmp_path):
    with pytest.raises(WorkloadError) as caught:
        load(tmp_path, code, **options)
    assert said in str(caught.value)
    assert caught.value.option == (next(iter(options), ""))


@needs_keras_tuner
@pytest.mark.parametrize(
    ("declares", "said"),
    [
        ('hp.Float("x", 0.1, 1.0, sampling="reverse_log")', 'sampling="reverse_log"'),
        ('hp.Int("batch_size", 1, 8)', "the recipe's own"),
        (UNKNOWN_KIND, "unknown kind"),
        (TWICE.format("1, 9, default=3"), '"x" is declared with two ranges or defaults'),
        (TWICE.format("1, 8, default=4"), '"x" is declared with two ranges or defaults'),
    ],
)
def test_what_cannot_be_searched_is_refused_when_it_is_searched(declares, said, tmp_path):
    code = f'def build(hp):\n    hp.Boolean("b")\n    {declares}\n    return made()'
    workload = load(tmp_path, code)
    with pytest.raises(WorkloadError) as caught:
        workload.explore()
    assert said in str(caught.value)


def test_without_its_data_a_model_for_keras_tuner_is_told_to_name_them(tmp_path):
    (tmp_path / "mine.py").write_text("def build(hp): pass\n")
    spec = WorkloadSpec(factory="mine.py:build")
    with pytest.raises(WorkloadError, match="name its data too"):
        load_workload(Recipe(name="r", workload=spec, path=tmp_path / "recipe.toml"))


@pytest.mark.parametrize("code", ["import keras_tuner", ""])
def test_what_to_install_is_said_where_keras_tuner_is_missing(code, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "keras_tuner", None)
    with pytest.raises(WorkloadError, match="pip install keras-tuner"):
        load(tmp_path, f"{code}\ndef build(hp): return made()")
