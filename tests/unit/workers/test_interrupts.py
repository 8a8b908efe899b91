"""Ctrl-C while it is held back: raised later, once, and lost never."""

import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from tfopt_core.workers.interrupts import HoldInterrupt


def press() -> None:
    signal.raise_signal(signal.SIGINT)


def pressed_before(done: list[str]) -> None:
    with HoldInterrupt():
        press()
        press()
        done.append("all of it")


def pressed_before_the_lifted_part(done: list[str]) -> None:
    with HoldInterrupt() as hold:
        press()
        with hold.lifted():
            done.append("begun")


def pressed_in_the_lifted_part(done: list[str]) -> None:
    with HoldInterrupt() as hold:
        try:
            with hold.lifted():
                press()
                done.append("went on")
        finally:
            done.append("after it")


@pytest.mark.parametrize(
    ("held", "done"),
    [
        (pressed_before, ["all of it"]),
        (pressed_before_the_lifted_part, []),
        (pressed_in_the_lifted_part, ["after it"]),
    ],
)
def test_it_is_raised_where_it_may_be_and_nowhere_else(held, done):
    seen: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        held(seen)
    assert seen == done
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
