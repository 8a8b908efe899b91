"""Who is said to be missing when a cluster does not form."""

from __future__ import annotations

import socket
import time

import pytest

from tfopt_core.hooks.context import Cluster
from tfopt_core.training.distributed.serving import answers
from tfopt_core.workers.supervise import Gathering

ADDRESSES = {"worker": ("10.0.0.1:2222", "10.0.0.2:2222", "10.0.0.3:2222")}
OTHERS = Cluster(addresses=ADDRESSES, job="worker", index=0).others


def gathering(*there):
    return Gathering(OTHERS, 60.0, lambda address: address in there)


def test_who_did_not_come_is_named_with_address_and_limit():
    found = gathering("10.0.0.3:2222")
    assert found.cause() == "worker 1 (10.0.0.2:2222) did not come within 60 s"


def test_several_are_joined_by_and():
    assert gathering().cause() == (
        "worker 1 (10.0.0.2:2222) and worker 2 (10.0.0.3:2222) did not come within 60 s"
    )


def test_if_all_answer_nobody_is_blamed():
    assert gathering("10.0.0.2:2222", "10.0.0.3:2222").cause() == (
        "the cluster did not form within 60 s although every address answers"
    )


def test_who_came_and_went_again_is_not_said_never_to_have_come():
    there = {"10.0.0.2:2222", "10.0.0.3:2222"}
    found = Gathering(OTHERS, 60.0, lambda address: address in there)
    found.begin()
    until = time.monotonic() + 60
    while len(found._seen) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    there.remove("10.0.0.3:2222")
    assert found.cause() == "worker 2 (10.0.0.3:2222) came, and ended before all had come"


def test_the_process_itself_is_not_among_those_it_waits_for():
    assert set(OTHERS) == {"worker 1", "worker 2"}


def test_an_address_answers_while_somebody_listens_there():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert answers(address)
    assert not answers(address)


@pytest.mark.parametrize("address", ["", "nowhere", "127.0.0.1:x", "127.0.0.1:99999"])
def test_what_is_no_address_answers_nothing(address):
    assert not answers(address)
