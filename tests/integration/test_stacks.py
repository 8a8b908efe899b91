"""Plugins that may stand together by what they declare also train together."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.forked_command import runs_forked
from support.plugin_settings import TRIED
from support.stack_array import candidates, covering_array
from support.stack_trials import StackTrials

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

STACKS = covering_array(candidates(TRIED))


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StackTrials]:
    """Trains stacks; the baseline of the exact ones is trained once."""
    with runs_forked():
        yield StackTrials(tmp_path_factory.mktemp("stacks"))


@pytest.mark.parametrize("stack", STACKS, ids="+".join)
def test_a_stack_trains_to_finite_losses_and_an_exact_one_to_those_of_the_baseline(
    stack: tuple[str, ...], trials: StackTrials
) -> None:
    assert (found := trials.trouble(stack)) is None, found
