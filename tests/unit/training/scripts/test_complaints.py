"""Why a script gives nothing to look at."""

import pytest

from tfopt_core.training.scripts.running import ScriptEnd, why_nothing_trained


@pytest.mark.parametrize(
    ("end", "seen", "said"),
    [
        (ScriptEnd(status=3, exited="sys.exit(3)"), {}, "ended by sys.exit(3) before"),
        (ScriptEnd(status=1, error="train.py:2: raised ValueError: x"), {},
         "failed before it called fit(): train.py:2: raised ValueError: x"),
        (ScriptEnd(status=1, error="train.py:1: raised EOFError", read_input=True), {},
         "the script reads standard input"),
        (ScriptEnd(status=1, error="train.py:1: raised ModuleNotFoundError: No module named 'x'",
                   raised=ModuleNotFoundError("x")), {}, "install what it needs"),
        (ScriptEnd(status=0), {"updates": 5}, "optimizer.apply_gradients"),
        (ScriptEnd(status=1, error="train.py:9: raised ValueError"), {"fits": 2},
         "failed in or after fit 2: train.py:9"),
        (ScriptEnd(status=0), {"fits": 1}, "had no data"),
        (ScriptEnd(status=0), {"batches_alone": 7, "updates": 5},
         "train_on_batch (7 calls)"),
    ],
    ids=[
        "exit", "error", "input", "missing package", "loop", "failed later", "no data",
        "train_on_batch",
    ],
)  # fmt: skip
def test_the_cause_is_named(end, seen, said):
    assert said in why_nothing_trained(end, **seen)


def test_own_loops_are_told_what_can_be_applied():
    said = why_nothing_trained(ScriptEnd(status=0), updates=1)
    assert "tfopt_core.optimize(dataset, recipe)" in said
    assert "tfopt_core.stacked(recipe)" in said
    assert 'add loop = "own" to [workload]' in said


def test_a_tape_without_an_optimizer_is_told_what_tfopt_counts():
    said = why_nothing_trained(ScriptEnd(status=0), tapes=3)
    assert "never calls an optimizer of Keras, whose updates tfopt counts" in said
    assert "optimizer.apply(gradients, variables)" in said
