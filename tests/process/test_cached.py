"""Values of objects that are made when they are first asked for."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from puffin_fast._process.cached import cached_property


class Slow:
    def __init__(self, meeting: threading.Barrier) -> None:
        self._meeting = meeting

    @cached_property
    def value(self) -> list[int]:
        """A value that two threads make at the same time."""
        self._meeting.wait()
        return []

    @cached_property
    def failing(self) -> int:
        raise LookupError("no value")


@pytest.mark.parametrize("n_objects", [1, 2])
def test_no_thread_waits_for_another_one(n_objects: int) -> None:
    meeting = threading.Barrier(2, timeout=60)
    objects = [Slow(meeting) for _ in range(n_objects)] * (2 // n_objects)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda one: one.value, objects)
    assert objects[0].value in (first, second)
    assert all(one.value is one.value for one in objects)
    assert Slow.value.__doc__ == "A value that two threads make at the same time."


def test_an_error_is_raised_each_time() -> None:
    one = Slow(threading.Barrier(2))
    for _ in range(2):
        with pytest.raises(LookupError, match="no value"):
            _ = one.failing
