"""The exception of a signal's handler comes out of a block that reports it as another one."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from types import FrameType

import pytest
from sqlalchemy.exc import StatementError

from puffin_fast._process.interrupt import interruptible


@pytest.fixture(params=[StopIteration, AttributeError, TimeoutError])
def handled(request: pytest.FixtureRequest) -> Iterator[type[Exception]]:
    """The class that the handler of SIGALRM raises."""
    kind: type[Exception] = request.param

    def handler(number: int, frame: FrameType | None) -> None:
        raise kind("from outside")

    before = signal.signal(signal.SIGALRM, handler)
    yield kind
    signal.signal(signal.SIGALRM, before)


def test_what_a_generator_makes_of_it(handled: type[Exception]) -> None:
    def numbers() -> Iterator[int]:
        signal.raise_signal(signal.SIGALRM)
        yield 1

    with pytest.raises(handled, match="from outside"), interruptible():
        list(numbers())


def test_what_sqlalchemy_makes_of_it(handled: type[Exception]) -> None:
    def run() -> None:
        try:
            signal.raise_signal(signal.SIGALRM)
        except Exception as error:
            found = error
        raise StatementError("refused", "SELECT 1", None, found)

    with pytest.raises(handled, match="from outside") as caught, interruptible():
        run()
    assert caught.value.__context__ is None


def test_other_errors_are_unchanged() -> None:
    @interruptible()
    def outer() -> None:
        with interruptible():
            raise ValueError("own")

    with pytest.raises(ValueError, match="own"):
        outer()
