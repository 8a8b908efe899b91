"""What holds for every test: how TensorFlow starts, here and in the processes that tests start."""

import functools
import gc
import os
import signal
import sys

import pytest
from hypothesis import HealthCheck, settings
from support.cases import EXAMPLES, THOROUGH_EXAMPLES

# A worker for each core runs tests, and TensorFlow would take all cores for each of them.
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

# A shell without job control (`make test &` in a script) has what it starts ignore Ctrl-C, and that
# is inherited: by the workers that run tests, and by each process that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Hypothesis fails a test whose example takes over 0.2 s, or whose examples are drawn too slowly: on
# a busy machine any may.
TOLERANT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("tfopt", TOLERANT, max_examples=EXAMPLES)
# `make test-all` names it: --hypothesis-profile=thorough
settings.register_profile("thorough", TOLERANT, max_examples=THOROUGH_EXAMPLES)
settings.load_profile("tfopt")


# Python's search for cycles goes through all objects that are there whenever their number has grown
# by a quarter: with thousands of tests and all of TensorFlow that takes a second each time. Worse,
# it drops iterators over data, and TensorFlow waits for the thread by which it tunes each: up to a
# minute, in which nothing is computed.
gc.set_threshold(*gc.get_threshold()[:2], 1000)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Have each worker begin with long tests: what is left for the last one to end is short.

    Each gets a share of the tests in their order, and whoever has done with its own takes over the
    end of another's.
    """
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    kinds: tuple[list[pytest.Item], ...] = ([], [])
    for item in items:
        kinds[item.nodeid.startswith("tests/unit/")].append(item)
    items[:] = [
        item
        for number in range(workers)
        for kind in kinds
        for item in kind[len(kind) * number // workers : len(kind) * (number + 1) // workers]
    ]


def pytest_itemcollected(item: pytest.Function) -> None:
    """Mark the tests of a module that has Keras or TensorFlow at hand: those that import it."""
    if {"keras", "layers", "tf"} & vars(item.module).keys():
        item.add_marker("tensorflow")


def pytest_collection_finish() -> None:
    """Leave what the collection has made out of that search."""
    gc.freeze()


@pytest.hookimpl(trylast=True)  # after what the test's fixtures put back
def pytest_runtest_teardown() -> None:
    """Put Keras' dtype policy and the seed back; leave both modules out of that search too."""
    if keras := sys.modules.get("keras"):
        keras.config.set_dtype_policy("float32")
        # a shuffle's own seed is combined with the global one, which the next test would inherit
        sys.modules["tensorflow"].random.set_seed(None)
        freeze_once()


@functools.cache
def freeze_once() -> None:
    gc.freeze()
