"""Ctrl-C while it is held back: raised later, once, and lost never."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from tfopt_core.workers.interrupts import HoldInterrupt


def press() -> None:
    signal.raise_signal(signal.SIGINT)


def test_it_is_raised_at_the_end_of_the_block():
    done = []
    with pytest.raises(KeyboardInterrupt), HoldInterrupt():
        press()
        press()
        done.append("all of it")
    assert done == ["all of it"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_it_is_raised_before_what_may_be_interrupted_begins():
    done = []
    with pytest.raises(KeyboardInterrupt), HoldInterrupt() as hold:
        press()
        with hold.lifted():
            done.append("begun")
    assert done == []


def test_it_interrupts_what_may_be_interrupted_and_nothing_after_it():
    done = []
    with HoldInterrupt() as hold:
        with pytest.raises(KeyboardInterrupt), hold.lifted():
            press()
            done.append("went on")
        done.append("after it")
    assert done == ["after it"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_in_the_block_gives_ctrl_c_back():
    with pytest.raises(ValueError, match="broke"), HoldInterrupt():
        raise ValueError("it broke")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_another_thread_may_hold_what_it_never_gets():
    def held() -> bool:
        with HoldInterrupt():
            return signal.getsignal(signal.SIGINT) is signal.default_int_handler

    with ThreadPoolExecutor() as pool:
        assert pool.submit(held).result()
