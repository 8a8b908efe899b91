"""Drawn trainings are the same under stacks as in plain Keras, and a wrong one would be seen."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from support.cases import THOROUGH_EXAMPLES, few_examples
from support.drawn_fits.case import Case, Fit, Stack, script_of
from support.drawn_fits.comparison import Outcome, compare
from support.drawn_fits.judging import Judge, judge
from support.drawn_fits.stacks import SETTINGS, math_in, trials
from support.drawn_fits.training import Trainer

CASE = Case(model="dense()", compile=('loss="mse"',), fits=(Fit("x, y", ("shuffle=False",)),))
CHUNKED: Stack = ({"use": "chunked", "steps": 3, "xla": False},)
# What a step draws by TensorFlow goes on in later fits.
DRAWING = attrs.evolve(
    CASE, model="drawing()", compile=(*CASE.compile, "jit_compile=False"),
    train="slices(x, y).batch(8)",
)  # fmt: skip
FREE = Fit("train", ("epochs=2",))
SHORT = Fit("train", ("epochs=2", "steps_per_epoch=2"))
ON_BATCHES = Fit("train", (), ("SeenBatches()",))
PLAIN = Outcome(
    notes=(
        ("fit 1.history", {"loss": (np.float64(0.5), 0.25), "rows": (np.float32(40.0), 40.0)}),
        ("fit 1.iterations", np.array(10)),
        ("fit 1.weights", (np.array([[1.0, 2.0]], "float32"),)),
        ("callback.batch end", (0, {"loss": np.float32(0.5)})),
        ("fit 2 raised", "ValueError: no data"),
        ("file log.csv", (("epoch", "loss"), ("0", "0.5"))),
    )
)


def changed(name: str, value: object) -> Outcome:
    """The outcome with another value of one note; None leaves it out."""
    notes = tuple((one, value if one == name else v) for one, v in PLAIN.notes)
    return Outcome(notes=tuple(note for note in notes if note[1] is not None))


@pytest.mark.parametrize(
    ("name", "value", "path"),
    [
        ("fit 1.iterations", np.array(11), "fit 1.iterations"),
        (
            "fit 1.history",
            {"loss": (np.float64(0.5), 0.25, 0.1), "rows": (np.float32(40.0), 40.0)},
            "length of fit 1.history['loss']",
        ),
        (
            "fit 1.history",
            {"loss": (np.float64(0.5), 0.2501), "rows": (np.float32(40.0), 40.0)},
            "fit 1.history['loss'][1]",
        ),
        ("fit 1.weights", (np.array([[1.0, 2.01]], "float32"),), "fit 1.weights[0]"),
        ("fit 1.weights", (np.array([[1.0, np.nan]], "float32"),), "fit 1.weights[0]"),
        ("callback.batch end", (1, {"loss": np.float32(0.5)}), "callback.batch end[0]"),
        ("callback.batch end", None, "length of callback.batch end"),
        ("fit 2 raised", None, "fit 2 raised"),
        ("file log.csv", (("epoch", "loss"), ("0", "0.6")), "file log.csv[1][1]"),
    ],
)
def test_a_wrong_value_is_a_difference(name, value, path) -> None:
    found = compare(PLAIN, changed(name, value)).differences
    assert found[0].path == path
    assert judge(CASE, CHUNKED, PLAIN, changed(name, value)).result == "different"


def test_rounding_is_told_from_the_same_bits() -> None:
    near = changed("fit 1.weights", (np.array([[1.0, 2.0 + 1e-6]], "float32"),))
    assert compare(PLAIN, PLAIN).bitwise
    assert not compare(PLAIN, near).bitwise
    assert judge(CASE, CHUNKED, PLAIN, near).result == "rounding"


def test_only_a_refusal_by_name_is_one() -> None:
    refused = attrs.evolve(PLAIN, ended='tfopt PluginRefused: plugin "chunked": no')
    other = attrs.evolve(PLAIN, ended='tfopt PluginRefused: plugin "cache": no')
    assert judge(CASE, CHUNKED, PLAIN, refused).result == "refused"
    assert judge(CASE, CHUNKED, PLAIN, other).result == "different"
    assert judge(CASE, (), PLAIN, refused).result == "different"
    raised = changed("fit 2 raised", 'ValueError: "chunked"')
    assert judge(CASE, CHUNKED, PLAIN, raised).result == "different"


def test_a_case_of_which_plain_keras_differs_from_itself_is_discarded() -> None:
    drawn = iter(range(100))
    verdicts = Judge(lambda case, stack: Outcome((("loss", next(drawn)),)))(CASE, (), CHUNKED)
    assert {one.result for one in verdicts} == {"discarded"}


def test_a_base_that_only_the_stack_lets_take_effect_is_no_difference_of_the_stack() -> None:
    case = attrs.evolve(CASE, base=({"use": "batch"},))
    alone = Outcome((("fit.iterations", 8),), effects={"batch": (False, "it sees no batches")})
    under = Outcome((("fit.iterations", 7),), effects={"batch": (True, "drops 2 examples")})
    assert judge(case, CHUNKED, alone, under).result == "discarded"
    assert judge(case, CHUNKED, under, alone).result == "different"


def test_a_difference_that_does_not_come_again_is_not_believed() -> None:
    stacks = iter((1.0, 2.0))
    verdicts = Judge(lambda case, stack: Outcome((("loss", next(stacks) if stack else 2.0),)))
    assert [one.result for one in verdicts(CASE, CHUNKED)] == ["unsteady"]


def test_no_drawn_plugin_declares_another_training() -> None:
    declared = {math_in({"use": name, **one}) for name in SETTINGS for one in SETTINGS[name]}
    assert declared <= {"exact", "order"}


@pytest.fixture(scope="module")
def trainer() -> Trainer:
    return Trainer()


@pytest.mark.thorough
@pytest.mark.tensorflow
@pytest.mark.slow
@pytest.mark.parametrize(
    "fits",
    [(FREE, SHORT, ON_BATCHES), (ON_BATCHES, FREE)],
    ids=["draws by TensorFlow", "has drawn in Keras' own loop"],
)
def test_a_fixed_case_is_equal(fits: tuple[Fit, ...], trainer: Trainer) -> None:
    [verdict] = Judge(trainer)(attrs.evolve(DRAWING, fits=fits), CHUNKED)
    assert verdict.result == "equal", str(verdict)


@pytest.mark.thorough
@pytest.mark.tensorflow
@pytest.mark.slow
def test_a_training_that_is_one_update_longer_is_different(trainer: Trainer) -> None:
    plain = trainer(CASE, None)
    longer = script_of(CASE, ()).replace("finish", "model.train_on_batch(x[:4], y[:4]); finish")
    found = judge(CASE, (), plain, trainer.run(longer))
    assert "end.iterations" in [one.path for one in found.differences]


@pytest.mark.thorough
@pytest.mark.tensorflow
@pytest.mark.slow
def test_a_run_that_hangs_is_ended(trainer: Trainer) -> None:
    assert "took more than" in (trainer.run("while True: pass", 3.0).ended or "")


# the same cases each time, but by tools/fuzz.py, which draws anew
@pytest.mark.tensorflow
@pytest.mark.slow
@pytest.mark.thorough
@few_examples(
    10, derandomize=settings().max_examples <= THOROUGH_EXAMPLES,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(trial=trials())
def test_drawn_fits_are_the_same_under_stacks(
    trainer: Trainer, trial: tuple[Case, Stack, Stack]
) -> None:
    case, *stacks = trial
    for verdict in Judge(trainer)(case, *stacks):
        event(verdict.result)
        assert verdict.result != "different", str(verdict)
