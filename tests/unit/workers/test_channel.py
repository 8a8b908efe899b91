"""Messages of worker processes: what is sent arrives the same, and nothing else is a message."""

import json

import attrs
import pytest
from support.fake_role import RUN

from tfopt_core.hooks.context import Cluster
from tfopt_core.hooks.values import Effect
from tfopt_core.training.messages import ClusterJoined, ClusterJoining, EpochDone, Note, StepDone
from tfopt_core.workers.task import Failure, OthersServed, decode, encode

CLUSTER = Cluster(addresses={"chief": ("a:1",), "ps": ("b:2", "c:3")}, job="ps", index=1)
FAILURE = Failure(error="PluginError", message="it failed", exit_code=3)


@pytest.mark.parametrize(
    "message",
    [
        ClusterJoining(CLUSTER, 7.5), ClusterJoined(), StepDone(0, 5), OthersServed(), Note("text"),
        EpochDone(1, {"loss": 0.5}), FAILURE,
        attrs.evolve(RUN, effects={"cache": Effect(True, "in memory")}, notes=("one", "two")),
    ],
    ids=lambda message: type(message).__name__,
)  # fmt: skip
def test_a_message_arrives_as_it_was_sent(message):
    assert decode(encode(message).removesuffix(b"\n")) == message


def test_a_line_names_the_class_of_its_message():
    assert json.loads(encode(StepDone(0, 5))) == {"type": "StepDone", "epoch": 0, "step": 5}


@pytest.mark.parametrize(
    "data", [None, 3, [], {}, {"type": "Nonsense"}, {"type": ["StepDone"]}, {"epoch": 0, "step": 5}]
)
def test_what_is_no_known_message_is_an_error(data):
    with pytest.raises(ValueError, match="unknown message"):
        decode(json.dumps(data).encode())


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({"type": "StepDone", "epoch": 0}, "required field missing @ $.step"),
        ({"type": "StepDone", "epoch": 0, "step": "x"}, "invalid value for type, expected int"),
        ({"type": "StepDone", "epoch": 0, "step": 5, "more": 1}, "extra fields found"),
        ({"type": "ClusterJoining", "cluster": None, "seconds": 1}, r"@ $.cluster"),
        ({"type": "ClusterJoining", "cluster": {}, "seconds": 1}, r"@ $.cluster.addresses"),
        ({"type": "RunReport", "fits": [{"epochs": 1}]}, r"@ $.fits[0]"),
    ],
)
def test_what_is_wrong_with_a_message_is_said_with_its_place(data, problem):
    with pytest.raises(ValueError, match=f"malformed message '{data['type']}'") as raised:
        decode(json.dumps(data).encode())
    assert problem in str(raised.value)


def test_what_is_no_json_is_an_error():
    with pytest.raises(ValueError, match="Expecting value"):
        decode(b"trained 777 epochs")


def test_all_texts_of_a_message_are_put_in_the_users_words():
    report = attrs.evolve(RUN, notes=("wrote /private/a",), script_error="no /private/b")
    told = decode(encode(report), lambda text: text.replace("/private", "/own"))
    assert (told.notes, told.script_error) == (("wrote /own/a",), "no /own/b")
    assert told.fits == report.fits
