"""Plugins that may stand together by what they declare also train together."""

import os
from collections.abc import Iterator

import pytest
from support.forked_command import runs_forked
from support.plugin_settings import TRIED
from support.stack_array import candidates, covering_array
from support.stack_trials import StackTrials
from tfopt_data.service_local import LocalService

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

# A TPU is refused where the environment names none.
ABSENT = () if "TPU_NAME" in os.environ else ("tpu",)
KNOWN = {name: one for name, one in candidates(TRIED).items() if name not in ABSENT}
STACKS = covering_array(KNOWN)
# In place of a data service for each training, whose process would import TensorFlow.
SHARED_SERVICE = """
from tfopt_data.service_local import LocalService

LocalService.start = classmethod(lambda cls, *place, **options: cls({target!r}, ()))
"""


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StackTrials]:
    """Trains stacks; the baseline of the exact ones is trained once, and a data service started."""
    folder = tmp_path_factory.mktemp("stacks")
    service = LocalService.start(1, 0, folder / "service", on_death=lambda cause: None)
    shared = folder / "shared_service.py"
    shared.write_text(SHARED_SERVICE.format(target=service.target))
    with runs_forked(before=shared):
        yield StackTrials(folder)
    service.stop()


@pytest.mark.parametrize("stack", STACKS, ids="+".join)
def test_a_stack_trains_to_finite_losses_and_an_exact_one_to_those_of_the_baseline(stack, trials):
    assert (found := trials.trouble(stack)) is None, found
