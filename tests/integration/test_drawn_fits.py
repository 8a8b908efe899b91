"""Drawn trainings are the same under stacks as in plain Keras, and a wrong one would be seen."""

import itertools

import attrs
import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from support.cases import THOROUGH_EXAMPLES, few_examples
from support.drawn_fits.case import Case, Stack
from support.drawn_fits.comparison import Outcome
from support.drawn_fits.judging import Judge, Verdict, judge
from support.drawn_fits.stacks import SETTINGS, trials
from support.drawn_fits.training import Trainer
from support.stack_array import stacked

from tfopt_core.hooks.plugin_class import equivalence_of

CASE = Case(('fit("fit 1", model, x, y, epochs=2, shuffle=False)',))
CHUNKED: Stack = ({"use": "chunked", "steps": 3, "xla": False},)
PLAIN = Outcome(
    notes=(
        ("fit 1.history", {"loss": (np.float64(0.5), 0.25), "rows": (np.float32(40.0), 40.0)}),
        ("fit 1.iterations", 10),
        ("fit 1.weights", (np.array([[1.0, 2.0]], "float32"),)),
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
        ("fit 1.iterations", 11, "fit 1.iterations"),
        (
            "fit 1.history",
            {"loss": (0.5,), "rows": (40.0, 40.0)},
            "length of fit 1.history['loss']",
        ),
        ("fit 1.weights", (np.array([[1.0, 2.01]], "float32"),), "fit 1.weights[0]"),
        ("fit 1.weights", (np.array([[1.0, np.nan]], "float32"),), "fit 1.weights[0]"),
        ("fit 2 raised", None, "fit 2 raised"),
        ("file log.csv", (("epoch", "loss"), ("0", "0.6")), "file log.csv[1][1]"),
    ],
)
def test_a_wrong_value_is_a_difference(name, value, path) -> None:
    verdict = judge(CASE, CHUNKED, PLAIN, changed(name, value))
    assert verdict.result == "different"
    assert verdict.differences[0].startswith(path)


def test_rounding_is_told_from_the_same_bits() -> None:
    near = changed("fit 1.weights", (np.array([[1.0, 2.0 + 1e-6]], "float32"),))
    assert judge(CASE, CHUNKED, PLAIN, PLAIN).result == "equal"
    assert judge(CASE, CHUNKED, PLAIN, near).result == "rounding"


def test_only_a_refusal_by_name_is_one() -> None:
    refused = attrs.evolve(PLAIN, ended='tfopt PluginRefused: plugin "chunked": no')
    other = attrs.evolve(PLAIN, ended='tfopt PluginRefused: plugin "cache": no')
    assert judge(CASE, CHUNKED, PLAIN, refused).result == "refused"
    assert judge(CASE, CHUNKED, PLAIN, other).result == "different"
    raised = changed("fit 2 raised", 'TypeError: "chunked"')
    assert judge(CASE, CHUNKED, PLAIN, raised).result == "different"
    worded = changed("fit 2 raised", 'ValueError: in the call of a layer: "chunked"')
    assert judge(CASE, CHUNKED, PLAIN, worded).result == "equal"


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
    for name, tried in SETTINGS.items():
        plugins = [stacked(name, settings).plugin for settings in tried]
        assert {equivalence_of(name, plugin) for plugin in plugins} == {"exact"}


@pytest.fixture(scope="module")
def trainer() -> Trainer:
    return Trainer()


@pytest.mark.thorough
@pytest.mark.slow
def test_a_run_that_hangs_is_ended(trainer: Trainer) -> None:
    assert "took more than" in (trainer.run("while True: pass", 3.0).ended or "")


# What stands before `compile` in the cases that were compared, until one differs.
COMPARED: set[tuple[str, ...]] = set()
DIFFERS: list[Verdict] = []


# the same cases each time, but by tools/fuzz.py, which draws anew
@pytest.mark.tensorflow
@pytest.mark.slow
@pytest.mark.thorough
@few_examples(
    14, derandomize=settings().max_examples <= THOROUGH_EXAMPLES,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(trial=trials())
def test_drawn_fits_are_the_same_under_stacks(
    trainer: Trainer, trial: tuple[Case, Stack, Stack]
) -> None:
    case, *stacks = trial
    begin = tuple(itertools.takewhile(lambda line: "compile(" not in line, case.lines))
    # variants of an example are no other data and models (an `assume` would end the search)
    if begin in COMPARED and not DIFFERS:
        return
    for verdict in Judge(trainer)(case, *stacks):
        event(verdict.result)
        DIFFERS.extend([verdict] if verdict.result == "different" else [])
        assert verdict.result != "different", str(verdict)
    COMPARED.add(begin)
