"""An error of the training is told from one that the end of another process has caused."""

from __future__ import annotations

import pytest
from support.lazy_modules import tf

from tfopt_core.errors import ClusterError
from tfopt_core.plugins import Cluster
from tfopt_core.training.distributed import serving

pytestmark = pytest.mark.tensorflow

TWO = Cluster(addresses={"worker": ("127.0.0.1:1", "127.0.0.1:2")}, job="worker", index=0)


def fail():
    raise tf.errors.UnavailableError(None, None, "Socket closed")


def test_a_worker_whose_listening_socket_closes_last_is_named(monkeypatch):
    answers = iter([True, True, False])
    monkeypatch.setattr(serving, "answers", lambda address: next(answers))
    with (
        pytest.raises(ClusterError, match=r"worker 1 \(127\.0\.0\.1:2\) is gone"),
        serving.ending_together(TWO),
    ):
        fail()


def test_an_error_while_all_answer_stays_what_it_is(monkeypatch):
    monkeypatch.setattr(serving, "answers", lambda address: True)
    monkeypatch.setattr(serving, "DYING_SECONDS", 0.0)
    with pytest.raises(tf.errors.UnavailableError), serving.ending_together(TWO):
        fail()
